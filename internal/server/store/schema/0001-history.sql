-- What was done (history) and what the server decided (audit), for people. Times are Unix milliseconds.
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

-- Both are only ever added to. Retention deletes; nothing rewrites.
CREATE TRIGGER history_stays BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history is not rewritten'); END;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit is not rewritten'); END;
