-- A store as the program with schema version 2 left it. Never changed once released.
PRAGMA user_version = 2;
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
CREATE TABLE notices (
    id         TEXT    PRIMARY KEY,
    channel    TEXT    NOT NULL,
    key        TEXT    NOT NULL, -- equal notices have equal keys
    kind       TEXT    NOT NULL,
    cluster_id TEXT    NOT NULL,
    body       BLOB    NOT NULL,
    created    INTEGER NOT NULL, -- Unix milliseconds, as are the other times
    state      TEXT    NOT NULL CHECK (state IN ('pending', 'sent', 'dropped')),
    attempts   INTEGER NOT NULL,
    due        INTEGER NOT NULL,
    open       INTEGER NOT NULL CHECK (open IN (0, 1)) -- an equal notice is not sent again while this is 1
) WITHOUT ROWID;
CREATE UNIQUE INDEX notices_once ON notices (channel, key) WHERE open = 1;
CREATE INDEX notices_due ON notices (channel, due) WHERE state = 'pending';
CREATE INDEX notices_created ON notices (created);
INSERT INTO notices (id, channel, key, kind, cluster_id, body, created, state, attempts, due, open)
    VALUES ('letter-old', 'ops', 'a key', 'drift', 'c1', '{"v":1,"kind":"drift","clusterID":"c1"}', 1796094000000, 'pending', 3, 1796094000000, 1);
