-- Notices that wait to be sent, and those that were. One row is one notice for one channel.
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
