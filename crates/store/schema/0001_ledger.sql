-- The ledger, version 1. Times are integer milliseconds, states are words, ids are text.
-- A migration that has shipped is never edited; the next change is a new file.
-- Lists of words are chains of OR: for IN with more than two words SQLite builds a table at every write.

-- One row: which opening of this file may write (the boot epoch).
CREATE TABLE instance (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL
) STRICT;
INSERT INTO instance (id, epoch) VALUES (1, 0);

CREATE TABLE conversation (
    conversation_id TEXT PRIMARY KEY NOT NULL,
    channel         TEXT NOT NULL,
    external_key    TEXT NOT NULL,
    thread          TEXT,
    last_turn       TEXT,
    workdir         TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    UNIQUE (channel, external_key)
) STRICT, WITHOUT ROWID;

-- `row` grows with arrival. `place` is derived from the state and the conversation's other rows, and written
-- only by the store: ready and held are the first waiting message of a conversation with nothing in flight,
-- behind waits for another one, flight is with Codex, out has its answer, null is finished. The queues are
-- partial indexes over it, so that finished rows cost nothing.
CREATE TABLE message (
    row              INTEGER PRIMARY KEY,
    message_id       TEXT NOT NULL UNIQUE,
    conversation_id  TEXT NOT NULL REFERENCES conversation,
    seq              INTEGER NOT NULL,
    channel          TEXT NOT NULL,
    external_id      TEXT NOT NULL,
    kind             TEXT NOT NULL CHECK (kind IN ('person', 'agent')),
    sender           TEXT NOT NULL,
    tier             TEXT NOT NULL CHECK (tier = 'owner' OR tier = 'peer' OR tier = 'tool'),
    received_at      INTEGER NOT NULL,
    state            TEXT NOT NULL CHECK (state = 'received' OR state = 'claimed' OR state = 'starting'
                             OR state = 'running' OR state = 'unclear' OR state = 'answered'
                             OR state = 'sending' OR state = 'replied' OR state = 'done'
                             OR state = 'dead' OR state = 'cancelled'),
    turn_id          TEXT,
    reason           TEXT,
    hold_until       INTEGER,
    hold_class       TEXT,
    hold_class_until INTEGER,
    hold_reason      TEXT,
    attempt          INTEGER NOT NULL,
    spent            INTEGER NOT NULL,
    continues        INTEGER NOT NULL,
    input            TEXT NOT NULL CHECK (input IN ('message', 'continue')),
    failure_class    TEXT,
    failure_until    INTEGER,
    failure_reason   TEXT,
    updated_at       INTEGER NOT NULL,
    place            TEXT CHECK (place = 'ready' OR place = 'held' OR place = 'behind'
                             OR place = 'flight' OR place = 'out'),
    UNIQUE (channel, external_id),
    UNIQUE (conversation_id, seq),
    CHECK ((state = 'running') = (turn_id IS NOT NULL)),
    CHECK ((state IN ('dead', 'cancelled')) = (reason IS NOT NULL)),
    CHECK (hold_until IS NULL OR state = 'received')
) STRICT;

CREATE INDEX message_place ON message (place, conversation_id, seq) WHERE place IS NOT NULL;
CREATE INDEX message_open ON message (message_id) WHERE place IS NOT NULL;
CREATE INDEX message_ready ON message (kind DESC, received_at, message_id) WHERE place = 'ready';
CREATE INDEX message_held ON message (kind DESC, received_at, message_id, hold_until) WHERE place = 'held';
CREATE INDEX message_due ON message (hold_until) WHERE place = 'held';
CREATE INDEX message_finished ON message (state) WHERE place IS NULL;

-- Apart from its message, which is rewritten at every step of its life.
CREATE TABLE message_text (
    row  INTEGER PRIMARY KEY REFERENCES message,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE turn (
    message_id    TEXT NOT NULL REFERENCES message (message_id),
    attempt       INTEGER NOT NULL,
    client_id     TEXT NOT NULL,
    epoch         INTEGER NOT NULL,
    boot_id       TEXT NOT NULL,
    incarnation   TEXT NOT NULL,
    thread        TEXT NOT NULL,
    after_turn    TEXT,
    turn_id       TEXT,
    sandbox       TEXT NOT NULL CHECK (sandbox = 'read-only' OR sandbox = 'workspace-write' OR sandbox = 'danger-full-access'),
    state         TEXT NOT NULL CHECK (state = 'begun' OR state = 'attached' OR state = 'ended'
                             OR state = 'lost'),
    touched       INTEGER NOT NULL CHECK (touched IN (0, 1)),
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (message_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE answer (
    message_id TEXT PRIMARY KEY NOT NULL REFERENCES message (message_id),
    attempt    INTEGER NOT NULL,
    source     TEXT NOT NULL CHECK (source IN ('live', 'harvested')),
    text       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reply (
    row             INTEGER PRIMARY KEY,
    message_id      TEXT NOT NULL REFERENCES message (message_id),
    ordinal         INTEGER NOT NULL,
    conversation_id TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    reply_key       TEXT NOT NULL,
    kind            TEXT NOT NULL CHECK (kind IN ('answer', 'notice')),
    state           TEXT NOT NULL CHECK (state = 'queued' OR state = 'sending' OR state = 'sent'
                             OR state = 'dead'),
    not_before      INTEGER,
    receipt         TEXT,
    reason          TEXT,
    tries           INTEGER NOT NULL,
    first_try_at    INTEGER,
    created_at      INTEGER NOT NULL,
    UNIQUE (message_id, ordinal),
    CHECK (not_before IS NULL OR state = 'queued'),
    CHECK ((state = 'sent') = (receipt IS NOT NULL)),
    CHECK ((state = 'dead') = (reason IS NOT NULL))
) STRICT;

CREATE INDEX reply_lane ON reply (conversation_id, seq, ordinal) WHERE state IN ('queued', 'sending');
-- The key is made from message_id and ordinal, which are unique for ever. It is random, so an index over all of
-- them would cost every message a page somewhere in the file; unique among what is still sent is enough.
CREATE UNIQUE INDEX reply_unsettled_key ON reply (reply_key) WHERE state IN ('queued', 'sending');

-- Apart from its reply, which is rewritten by every send.
CREATE TABLE reply_text (
    row  INTEGER PRIMARY KEY REFERENCES reply,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE ack (
    message_id TEXT PRIMARY KEY NOT NULL REFERENCES message (message_id),
    mode       TEXT NOT NULL CHECK (mode = 'none' OR mode = 'on_custody' OR mode = 'after_reply'),
    state      TEXT NOT NULL CHECK (state = 'not_needed' OR state = 'due' OR state = 'given')
) STRICT, WITHOUT ROWID;

-- What Codex asked. `kind` has no check: an unknown method is stored under its own name.
CREATE TABLE request (
    row         INTEGER PRIMARY KEY,
    request_id  TEXT NOT NULL UNIQUE,
    message_id  TEXT NOT NULL REFERENCES message (message_id),
    attempt     INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    rpc_id      TEXT NOT NULL,
    item_id     TEXT,
    kind        TEXT NOT NULL,
    headline    TEXT NOT NULL,
    payload     TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'decided')),
    decision    TEXT CHECK (decision IN ('accept', 'decline')),
    decided_by  TEXT,
    created_at  INTEGER NOT NULL,
    CHECK ((state = 'decided') = (decision IS NOT NULL)),
    CHECK ((state = 'decided') = (decided_by IS NOT NULL))
) STRICT;

CREATE INDEX request_message ON request (message_id);

CREATE TABLE event (
    message_id TEXT NOT NULL REFERENCES message (message_id),
    ordinal    INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    kind       TEXT NOT NULL CHECK (kind = 'item/started' OR kind = 'item/completed' OR kind = 'turn/retrying'
                             OR kind = 'request' OR kind = 'bridge'),
    text       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (message_id, ordinal)
) STRICT, WITHOUT ROWID;

-- `start_ticks` is unsigned and stored as the signed number with the same bits.
CREATE TABLE incarnation (
    incarnation_id TEXT PRIMARY KEY NOT NULL,
    transport      TEXT NOT NULL CHECK (transport IN ('socket', 'stdio')),
    pid            INTEGER NOT NULL,
    start_ticks    INTEGER NOT NULL,
    directory      TEXT NOT NULL,
    codex_version  TEXT NOT NULL,
    boot_id        TEXT NOT NULL,
    started_at     INTEGER NOT NULL,
    ended_at       INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX incarnation_live ON incarnation (started_at, incarnation_id) WHERE ended_at IS NULL;

-- Tasks of the control front (`start`, `status`, `list`, `notify-completed`): it will write them.
CREATE TABLE task (
    task_id         TEXT PRIMARY KEY NOT NULL,
    message_id      TEXT NOT NULL REFERENCES message (message_id),
    prompt          TEXT NOT NULL,
    cwd             TEXT NOT NULL,
    model           TEXT,
    sandbox         TEXT NOT NULL,
    approval_policy TEXT NOT NULL,
    codex_home      TEXT,
    notify_target   TEXT,
    notify_state    TEXT NOT NULL CHECK (notify_state = 'pending' OR notify_state = 'sent' OR notify_state = 'failed'
                             OR notify_state = 'no_target' OR notify_state = 'dry_run'),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far each source was read: the channels will write it.
CREATE TABLE cursor (
    channel      TEXT PRIMARY KEY NOT NULL,
    position     TEXT NOT NULL,
    overlap_from INTEGER,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who did what, append-only: the fronts and operator commands will write it.
CREATE TABLE audit (
    row     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    what    TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL
) STRICT;
