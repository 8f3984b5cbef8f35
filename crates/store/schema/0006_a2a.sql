-- The ledger, version 6: errands of other agents (chains of messages), what their owners said in them, and where the
-- owners want to be told how they stand.

-- `changed_at` is derived from the rows of its messages and written only by the store: the newest change of any.
CREATE TABLE errand (
    row             INTEGER PRIMARY KEY,
    errand_id       TEXT NOT NULL UNIQUE,
    channel         TEXT NOT NULL,
    conversation_id TEXT NOT NULL REFERENCES conversation,
    owner           TEXT NOT NULL,
    told            INTEGER NOT NULL CHECK (told >= 0),
    created_at      INTEGER NOT NULL,
    changed_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX errand_owner ON errand (owner, changed_at, errand_id);
CREATE INDEX errand_conversation ON errand (owner, conversation_id, changed_at, errand_id);

-- What a word became is a message, or the answer to a question, or, with neither, the end of the errand. `known_as` is
-- the key of an answer; that of a message is its `external_id`.
CREATE TABLE word (
    errand_id  TEXT NOT NULL REFERENCES errand (errand_id),
    ordinal    INTEGER NOT NULL CHECK (ordinal >= 1),
    said_as    TEXT NOT NULL,
    known_as   TEXT,
    message_id TEXT UNIQUE REFERENCES message (message_id),
    request_id TEXT,
    original   TEXT NOT NULL,
    original_sum INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (errand_id, ordinal),
    CHECK (message_id IS NULL OR request_id IS NULL),
    CHECK (known_as IS NULL OR request_id IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Whose budget a turn is paid from: channel and sender of its message, which the store writes. Turns from before have
-- none and are not counted.
ALTER TABLE turn ADD COLUMN spender TEXT;
CREATE INDEX turn_spender ON turn (spender, started_at) WHERE spender IS NOT NULL;

-- `mark` is what was told last. Token and credentials are the receiver's; they are shown to the owner of the errand only.
CREATE TABLE push (
    errand_id    TEXT NOT NULL REFERENCES errand (errand_id),
    config_id    TEXT NOT NULL,
    url          TEXT NOT NULL,
    token        TEXT,
    scheme       TEXT,
    credentials  TEXT,
    version      TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('waiting', 'sending', 'closed', 'dead')),
    not_before   INTEGER,
    dead_at      INTEGER,
    mark         TEXT,
    tries        INTEGER NOT NULL,
    first_try_at INTEGER,
    error        TEXT,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (errand_id, config_id),
    CHECK (not_before IS NULL OR state = 'waiting'),
    CHECK ((state = 'dead') = (dead_at IS NOT NULL)),
    CHECK ((scheme IS NULL) = (credentials IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX push_open ON push (errand_id, config_id) WHERE state = 'waiting' OR state = 'sending';
