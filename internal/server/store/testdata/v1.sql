-- A store as the program with schema version 1 left it. Never changed once released.
PRAGMA user_version = 1;
CREATE TABLE history (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    time       INTEGER NOT NULL,
    cluster_id TEXT    NOT NULL,
    cluster    TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    entry      TEXT    NOT NULL -- JSON of history.Entry, which has a version of its own
);
CREATE INDEX history_time ON history (time);
CREATE INDEX history_run ON history (run);
CREATE TABLE audit (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    time       INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    cluster_id TEXT    NOT NULL,
    cluster    TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    detail     TEXT    NOT NULL
);
CREATE INDEX audit_time ON audit (time);
CREATE TRIGGER history_stays BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history is not rewritten'); END;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit is not rewritten'); END;
INSERT INTO history (time, cluster_id, cluster, run, entry) VALUES (1796094000000, 'c1', 'prod', 'run-old',
    '{"v":1,"time":"2026-12-01T03:00:00Z","kind":"begin","command":"reconcile","run":"run-old","actor":"serve@host","clusterID":"c1","cluster":"prod"}');
INSERT INTO audit (time, actor, action, cluster_id, cluster, run, detail) VALUES (1796094000000, 'serve@host', 'heal-begun', 'c1', 'prod', 'run-old', 'guest of prod-node-1 lags');
