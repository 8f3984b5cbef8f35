-- Schema version 1. Times are integer milliseconds, ids are text, states are the names of the core's enums.
-- Never edit a version that was released: add the next file.
-- Lists of values are chains of OR, because SQLite builds a temporary table for IN with more than two values at every write.

-- One row. `epoch` is the number of the opening that may write; `round` is the scheduler's round of service.
-- The audit columns are the ends of the chain in `audit`: `audit_removed` is the sum of the newest row that retention
-- removed, `audit_newest` the sum of the newest row. Rows up to `audit_base` were written under another key; the row after
-- them is summed over the content of all of them. `audit_signature` is Ed25519 over these three, `audit_key` its public key.
-- `push_key` is the key pair by which push services know this bridge, encrypted.
CREATE TABLE instance (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    epoch           INTEGER NOT NULL,
    round           INTEGER NOT NULL DEFAULT 0,
    audit_removed   TEXT,
    audit_newest    TEXT,
    audit_base      INTEGER NOT NULL DEFAULT 0,
    audit_signature TEXT,
    audit_key       TEXT,
    push_key        TEXT
) STRICT;
INSERT INTO instance (id, epoch) VALUES (1, 0);

-- `active_at` is written by the store: when a message of it last came, was answered, failed, was stopped, parked or sent
-- again. Not every step of a message, because each costs the index two entries.
CREATE TABLE conversation (
    conversation_id TEXT PRIMARY KEY NOT NULL,
    channel         TEXT NOT NULL,
    external_key    TEXT NOT NULL,
    thread          TEXT,
    last_turn       TEXT,
    workdir         TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    active_at       INTEGER NOT NULL,
    context         TEXT,
    model           TEXT,
    sandbox         TEXT,
    UNIQUE (channel, external_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX conversation_active ON conversation (active_at, conversation_id);

-- `row` grows with arrival. `queue` is derived from the state and from the conversation's other rows, and written by the
-- store alone. The first waiting message of a conversation with nothing in flight is `ready`, or `held` until a time; the
-- others are `queued` behind it. `in_flight` is with Codex, `blocking` holds its conversation back without a turn (a lost
-- turn that can't be inspected, a parked message, one that was steered into another turn), `outbox` has an answer, NULL is
-- finished. All queues are partial indexes over this column, so finished rows cost nothing. `traceparent` is the W3C trace
-- context that the caller gave.
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
    sent_at          INTEGER NOT NULL,
    hops             INTEGER NOT NULL,
    round            INTEGER NOT NULL,
    received_at      INTEGER NOT NULL,
    traceparent      TEXT,
    state            TEXT NOT NULL CHECK (state = 'received' OR state = 'claimed' OR state = 'starting'
                             OR state = 'running' OR state = 'unclear' OR state = 'steered'
                             OR state = 'parked' OR state = 'answered'
                             OR state = 'sending' OR state = 'done'
                             OR state = 'dead' OR state = 'cancelled'),
    turn_id          TEXT,
    reason           TEXT,
    leader           TEXT,
    hold_until       INTEGER,
    hold_class       TEXT,
    hold_class_until INTEGER,
    hold_reason      TEXT,
    attempt          INTEGER NOT NULL,
    spent            INTEGER NOT NULL,
    continues        INTEGER NOT NULL,
    suspect          INTEGER NOT NULL CHECK (suspect IN (0, 1)),
    input            TEXT NOT NULL CHECK (input IN ('message', 'continue')),
    stopped_by       TEXT,
    failure_class    TEXT,
    failure_until    INTEGER,
    failure_reason   TEXT,
    updated_at       INTEGER NOT NULL,
    queue            TEXT CHECK (queue = 'ready' OR queue = 'held' OR queue = 'queued'
                             OR queue = 'in_flight' OR queue = 'blocking' OR queue = 'outbox'),
    UNIQUE (channel, external_id),
    UNIQUE (conversation_id, seq),
    CHECK ((state = 'running') = (turn_id IS NOT NULL)),
    CHECK ((state = 'steered') = (leader IS NOT NULL)),
    CHECK ((state = 'dead' OR state = 'cancelled' OR state = 'parked') = (reason IS NOT NULL)),
    CHECK (hold_until IS NULL OR state = 'received' OR state = 'unclear' OR state = 'parked')
) STRICT;

CREATE INDEX message_queue ON message (queue, conversation_id, seq) WHERE queue IS NOT NULL;
CREATE INDEX message_open ON message (message_id) WHERE queue IS NOT NULL;
-- Holds every column that the scheduler filters by, so that it skips senders and channels without reading rows.
CREATE INDEX message_ready ON message (kind DESC, round, received_at, message_id, channel, sender, tier, suspect)
    WHERE queue = 'ready';
CREATE INDEX message_held ON message (kind DESC, round, received_at, message_id, hold_until) WHERE queue = 'held';
CREATE INDEX message_due ON message (hold_until) WHERE queue = 'held';
-- Only `suspect` changes while a message is in flight, and only when Codex dies.
CREATE INDEX message_in_flight ON message (channel, sender, tier, kind, suspect, message_id) WHERE queue = 'in_flight';
CREATE INDEX message_parked ON message (hold_until, message_id) WHERE state = 'parked';
CREATE INDEX message_leader ON message (leader, seq) WHERE leader IS NOT NULL;
CREATE INDEX message_sender ON message (channel, sender, round) WHERE queue IS NOT NULL AND queue <> 'outbox';
CREATE INDEX message_finished ON message (state, updated_at, message_id) WHERE queue IS NULL;
CREATE INDEX message_dead ON message (message_id) WHERE state = 'dead';
-- For the loop guard, which counts agents only: people's messages pay nothing for it.
CREATE INDEX message_agent ON message (channel, sender, sent_at) WHERE kind = 'agent';

-- Apart from its message, which is rewritten at every transition. `files` is a JSON list, NULL where there are none.
-- `of_message` repeats the message's id: a recovery can name a message whose row and indexes are destroyed.
CREATE TABLE message_text (
    row        INTEGER PRIMARY KEY REFERENCES message,
    of_message TEXT NOT NULL,
    body       TEXT NOT NULL,
    body_sum   INTEGER NOT NULL,
    files      TEXT
) STRICT;

CREATE INDEX message_files ON message_text (row) WHERE files IS NOT NULL;

-- `row_sum` is NULL in a row that a recovery changed. `spender` is channel and sender whose budget the turn is paid from,
-- written by the store.
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
    row_sum       INTEGER,
    spender       TEXT,
    PRIMARY KEY (message_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX turn_spender ON turn (spender, started_at) WHERE spender IS NOT NULL;

CREATE TABLE answer (
    message_id TEXT PRIMARY KEY NOT NULL REFERENCES message (message_id),
    attempt    INTEGER NOT NULL,
    source     TEXT NOT NULL CHECK (source = 'live' OR source = 'harvested' OR source = 'shared'),
    text       TEXT NOT NULL,
    text_sum   INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `sent_at` is when the platform was known to have taken it. `seq` is its place in the lane: that of its message when it
-- was written, which a redrive moves to the end without it.
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
    sent_at         INTEGER CHECK (sent_at IS NULL OR state = 'sent'),
    UNIQUE (message_id, ordinal),
    CHECK (not_before IS NULL OR state = 'queued'),
    CHECK ((state = 'sent') = (receipt IS NOT NULL)),
    CHECK ((state = 'dead') = (reason IS NOT NULL))
) STRICT;

CREATE INDEX reply_lane ON reply (conversation_id, seq, ordinal) WHERE state IN ('queued', 'sending');
-- The key is derived from message_id and ordinal, which are unique for ever. It is random, so an index over all of them
-- would cost every message a page somewhere in the file; unique among unsettled replies is enough.
CREATE UNIQUE INDEX reply_unsettled_key ON reply (reply_key) WHERE state IN ('queued', 'sending');
-- Replies with the same text are looked for by this time.
CREATE INDEX reply_sent ON reply (sent_at) WHERE sent_at IS NOT NULL;

-- Apart from its reply, which is rewritten by every send.
CREATE TABLE reply_text (
    row      INTEGER PRIMARY KEY REFERENCES reply,
    body     TEXT NOT NULL,
    body_sum INTEGER NOT NULL,
    files    TEXT
) STRICT;

CREATE INDEX reply_files ON reply_text (row) WHERE files IS NOT NULL;

-- A request of Codex. `kind` has no check: an unknown method is stored under its own name. `shown` is the whole text that
-- is decided about, `digest` what a grant is bound to, `effect` what the rules looked at, as JSON. `redelivered` counts how often Codex asked a decided request again
-- and got the decision once more: a decision that was delivered since must not become a grant.
CREATE TABLE request (
    row         INTEGER PRIMARY KEY,
    request_id  TEXT NOT NULL UNIQUE,
    message_id  TEXT NOT NULL REFERENCES message (message_id),
    attempt     INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    rpc_id      TEXT NOT NULL,
    item_id     TEXT,
    method      TEXT NOT NULL,
    kind        TEXT NOT NULL,
    headline    TEXT NOT NULL,
    shown       TEXT NOT NULL,
    digest      TEXT NOT NULL,
    payload     TEXT NOT NULL,
    answer_kind TEXT NOT NULL CHECK (answer_kind IN ('approval', 'visit', 'text', 'form')),
    secret_answer INTEGER NOT NULL CHECK (secret_answer IN (0, 1)),
    deciders    TEXT NOT NULL CHECK (deciders IN ('owner', 'sender')),
    state       TEXT NOT NULL CHECK (state = 'open' OR state = 'orphaned' OR state = 'decided'
                             OR state = 'granted' OR state = 'withdrawn'),
    decision    TEXT CHECK (decision = 'accept' OR decision = 'acceptForSession' OR decision = 'decline'
                             OR decision = 'cancel'),
    answers     TEXT,
    decided_by  TEXT,
    via         TEXT,
    decided_at  INTEGER,
    reason      TEXT,
    created_at  INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    reminded    INTEGER NOT NULL CHECK (reminded IN (0, 1)),
    redelivered INTEGER NOT NULL DEFAULT 0 CHECK (redelivered >= 0),
    effect      TEXT,
    CHECK ((state = 'decided' OR state = 'granted') = (decision IS NOT NULL)),
    CHECK ((decision IS NULL) = (decided_by IS NULL)),
    CHECK ((decision IS NULL) = (via IS NULL)),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK ((state = 'withdrawn') = (reason IS NOT NULL)),
    CHECK (answers IS NULL OR decision IS NOT NULL)
) STRICT;

CREATE INDEX request_message ON request (message_id);
CREATE INDEX request_open ON request (message_id) WHERE state = 'open';
CREATE INDEX request_waiting ON request (deadline, request_id)
    WHERE state = 'open' OR state = 'orphaned' OR state = 'granted';

CREATE TABLE event (
    message_id TEXT NOT NULL REFERENCES message (message_id),
    ordinal    INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    kind       TEXT NOT NULL CHECK (kind = 'item/started' OR kind = 'item/completed' OR kind = 'turn/retrying'
                             OR kind = 'request' OR kind = 'bridge' OR kind = 'protocol/raw'
                             OR kind = 'codex/stderr' OR kind = 'imported'),
    text       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (message_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_at ON event (at, message_id, ordinal);

-- `start_ticks` is unsigned and stored as the signed number with the same bits. `codex_home` is NULL for the default one.
CREATE TABLE incarnation (
    incarnation_id TEXT PRIMARY KEY NOT NULL,
    transport      TEXT NOT NULL CHECK (transport IN ('socket', 'stdio')),
    pid            INTEGER NOT NULL,
    start_ticks    INTEGER NOT NULL,
    directory      TEXT NOT NULL,
    codex_version  TEXT NOT NULL,
    codex_home     TEXT,
    boot_id        TEXT NOT NULL,
    started_at     INTEGER NOT NULL,
    ended_at       INTEGER,
    node_id        TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX incarnation_live ON incarnation (started_at, incarnation_id) WHERE ended_at IS NULL;
CREATE INDEX incarnation_ended ON incarnation (ended_at) WHERE ended_at IS NOT NULL;

-- API tokens, and logins and sessions of the console: the hash alone is stored. `scopes` are separated by spaces.
CREATE TABLE token (
    name         TEXT PRIMARY KEY NOT NULL,
    hash         TEXT NOT NULL UNIQUE,
    scopes       TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('token', 'login', 'session')),
    label        TEXT,
    expires_at   INTEGER,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER,
    CHECK ((kind = 'token') = (label IS NULL)),
    CHECK ((kind = 'token') = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;

-- How far each source was read, in the source's own words.
CREATE TABLE cursor (
    channel      TEXT PRIMARY KEY NOT NULL,
    position     TEXT NOT NULL,
    overlap_from INTEGER,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tasks. One that was started here has a conversation to itself, and the terms that its turns run on: the columns from
-- `cwd` on. A task of another agent has none of them. `changed_at` is derived by the store: the newest change of any
-- message of the task. The state of a task is derived from its messages and their requests.
CREATE TABLE task (
    row             INTEGER PRIMARY KEY,
    task_id         TEXT NOT NULL UNIQUE,
    channel         TEXT NOT NULL,
    conversation_id TEXT NOT NULL REFERENCES conversation,
    owner           TEXT NOT NULL,
    sequence        INTEGER NOT NULL CHECK (sequence >= 0),
    created_at      INTEGER NOT NULL,
    changed_at      INTEGER NOT NULL,
    cwd             TEXT,
    prompt_summary  TEXT,
    asked           TEXT,
    model           TEXT,
    sandbox         TEXT,
    approval_policy TEXT,
    codex_home      TEXT,
    reads           TEXT CHECK (reads IN ('disk', 'isolated')),
    CHECK ((cwd IS NULL) = (prompt_summary IS NULL)),
    CHECK ((cwd IS NULL) = (asked IS NULL)),
    CHECK ((cwd IS NULL) = (sandbox IS NULL)),
    CHECK ((cwd IS NULL) = (approval_policy IS NULL)),
    CHECK ((cwd IS NULL) = (reads IS NULL)),
    CHECK (cwd IS NOT NULL OR (model IS NULL AND codex_home IS NULL))
) STRICT;

CREATE UNIQUE INDEX task_started ON task (conversation_id) WHERE cwd IS NOT NULL;
CREATE INDEX task_newest ON task (row) WHERE cwd IS NOT NULL;
CREATE INDEX task_owner ON task (owner, changed_at, task_id) WHERE cwd IS NULL;
CREATE INDEX task_conversation ON task (owner, conversation_id, changed_at, task_id) WHERE cwd IS NULL;

-- An input is a message, or the answer to a request, or, with neither, the end of the task. `idempotency_key` is the
-- key of an answer; that of a message is its `external_id`.
CREATE TABLE task_input (
    task_id           TEXT NOT NULL REFERENCES task (task_id),
    ordinal           INTEGER NOT NULL CHECK (ordinal >= 1),
    client_message_id TEXT NOT NULL,
    idempotency_key   TEXT,
    message_id        TEXT UNIQUE REFERENCES message (message_id),
    request_id        TEXT,
    original          TEXT NOT NULL,
    original_sum      INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    PRIMARY KEY (task_id, ordinal),
    CHECK (message_id IS NULL OR request_id IS NULL),
    CHECK (idempotency_key IS NULL OR request_id IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Who is notified of a task: `push` of every event, `notify` of its end; `nobody` notes that a person was shown the end.
-- `mark` names the last event that was delivered. Address (`target`), token and credentials of a `push` are encrypted.
CREATE TABLE subscription (
    task_id         TEXT NOT NULL REFERENCES task (task_id),
    subscription_id TEXT NOT NULL,
    kind            TEXT NOT NULL CHECK (kind = 'push' OR kind = 'notify' OR kind = 'nobody'),
    target          TEXT NOT NULL,
    token           TEXT,
    scheme          TEXT,
    credentials     TEXT,
    version         TEXT,
    state           TEXT NOT NULL CHECK (state = 'waiting' OR state = 'sending' OR state = 'closed' OR state = 'dead'),
    not_before      INTEGER,
    ended_at        INTEGER,
    mark            TEXT,
    tries           INTEGER NOT NULL,
    first_try_at    INTEGER,
    error           TEXT,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (task_id, subscription_id),
    CHECK (not_before IS NULL OR state = 'waiting'),
    CHECK ((state = 'closed' OR state = 'dead') = (ended_at IS NOT NULL)),
    CHECK ((scheme IS NULL) = (credentials IS NULL)),
    CHECK ((version IS NOT NULL) = (kind = 'push')),
    CHECK (kind = 'push' OR (token IS NULL AND scheme IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX subscription_open ON subscription (task_id, subscription_id) WHERE state = 'waiting' OR state = 'sending';

-- Who is alerted: a browser of a session, or, without one, a target of the configuration. `about` are words with spaces
-- between them. `endpoint`, `p256dh` and `auth` are encrypted.
CREATE TABLE receiver (
    receiver_id TEXT PRIMARY KEY NOT NULL,
    session     TEXT,
    endpoint    TEXT,
    p256dh      TEXT,
    auth        TEXT,
    about       TEXT NOT NULL,
    detail      TEXT NOT NULL CHECK (detail = 'hint' OR detail = 'headline'),
    error       TEXT,
    created_at  INTEGER NOT NULL,
    CHECK ((session IS NULL) = (endpoint IS NULL)),
    CHECK ((session IS NULL) = (p256dh IS NULL)),
    CHECK ((session IS NULL) = (auth IS NULL))
) STRICT, WITHOUT ROWID;

-- What a receiver is sent of a question, a failure or the end of a task, and how far that is. `subject` is the id of a
-- request, message or task. `mark` names the event: `asked` and `settled` of a question.
CREATE TABLE alert (
    receiver_id     TEXT NOT NULL REFERENCES receiver,
    kind            TEXT NOT NULL CHECK (kind = 'question' OR kind = 'failure' OR kind = 'task'),
    subject         TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    mark            TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state = 'waiting' OR state = 'sending' OR state = 'shown' OR state = 'over'),
    not_before      INTEGER,
    summed          INTEGER NOT NULL CHECK (summed IN (0, 1)),
    tries           INTEGER NOT NULL,
    first_try_at    INTEGER,
    tried_at        INTEGER,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (receiver_id, kind, subject),
    CHECK (not_before IS NULL OR state = 'waiting')
) STRICT, WITHOUT ROWID;

CREATE INDEX alert_unsent ON alert (receiver_id, created_at, kind, subject) WHERE state = 'waiting' OR state = 'sending';
CREATE INDEX alert_shown ON alert (receiver_id, kind, subject) WHERE state = 'shown';
CREATE INDEX alert_tried ON alert (receiver_id, tried_at) WHERE tried_at IS NOT NULL;

-- Bytes that a sender stored within an hour, kept for a day: for `bytes_per_day`.
CREATE TABLE stored_bytes (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    hour    INTEGER NOT NULL,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (channel, sender, hour)
) STRICT, WITHOUT ROWID;

-- What the Codex of one CODEX_HOME of one node reported of its account's limit; both are empty for the only daemon and
-- the default home. A window that was not reported has no `used`. `slowed` is where agents began to be slowed down in it.
CREATE TABLE quota (
    node_id               TEXT NOT NULL,
    codex_home            TEXT NOT NULL,
    account               TEXT,
    primary_used          INTEGER,
    primary_minutes       INTEGER,
    primary_resets_at     INTEGER,
    primary_slowed_at     INTEGER,
    primary_slowed_used   INTEGER,
    secondary_used        INTEGER,
    secondary_minutes     INTEGER,
    secondary_resets_at   INTEGER,
    secondary_slowed_at   INTEGER,
    secondary_slowed_used INTEGER,
    has_credits           INTEGER NOT NULL CHECK (has_credits IN (0, 1)),
    refused_until         INTEGER,
    reported_at           INTEGER NOT NULL,
    PRIMARY KEY (node_id, codex_home),
    CHECK ((primary_slowed_at IS NULL) = (primary_slowed_used IS NULL)),
    CHECK ((secondary_slowed_at IS NULL) = (secondary_slowed_used IS NULL))
) STRICT, WITHOUT ROWID;

-- Acts by hand, append-only. The sum of a row covers its fields and the sum of the row before.
CREATE TABLE audit (
    row     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    what    TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL,
    sum     TEXT
) STRICT;

CREATE INDEX audit_at ON audit (at);

-- Daemons that share this ledger. Empty where one has it for itself. `lease_until` is by the database's clock; `epoch` is the
-- opening that may write for the node, `batch` the number of its newest commit: a commit whose answer was lost is looked up
-- by it. `schema` is the newest version of the schema that its program knows.
CREATE TABLE node (
    node_id       TEXT PRIMARY KEY NOT NULL,
    epoch         INTEGER NOT NULL,
    batch         INTEGER NOT NULL DEFAULT 0,
    state         TEXT NOT NULL CHECK (state = 'active' OR state = 'draining' OR state = 'left'),
    lease_until   INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    schema        INTEGER NOT NULL DEFAULT 0,
    channels      TEXT NOT NULL DEFAULT '[]',
    version       TEXT NOT NULL DEFAULT '',
    codex_version TEXT NOT NULL DEFAULT '',
    capacity      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Which node has a conversation; without one any node may take it. `generation` counts those that had it.
CREATE TABLE home (
    conversation_id TEXT PRIMARY KEY NOT NULL REFERENCES conversation,
    node_id         TEXT REFERENCES node,
    generation      INTEGER NOT NULL,
    since           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX home_node ON home (node_id, conversation_id) WHERE node_id IS NOT NULL;

-- Conversations whose threads are lent to a Codex terminal: their messages wait. From `until` on the daemon takes the
-- thread back, and `error` says why it does not have it yet.
CREATE TABLE loan (
    conversation_id TEXT PRIMARY KEY NOT NULL REFERENCES conversation,
    loan_id         TEXT NOT NULL,
    borrower        TEXT NOT NULL,
    since           INTEGER NOT NULL,
    until           INTEGER NOT NULL,
    error           TEXT
) STRICT, WITHOUT ROWID;

-- Threads' files, in pieces: a file is the bodies of its path one behind the other. `body` is encrypted,
-- `digest` is SHA-256 of the file up to the end of the piece.
CREATE TABLE segment (
    thread     TEXT NOT NULL,
    path       TEXT NOT NULL,
    start      INTEGER NOT NULL,
    length     INTEGER NOT NULL CHECK (length > 0),
    generation INTEGER NOT NULL,
    body       BLOB NOT NULL,
    digest     BLOB NOT NULL,
    PRIMARY KEY (thread, path, start)
) STRICT, WITHOUT ROWID;

-- Files of messages and answers, for all daemons that share this ledger. `digest` is the SHA-256 that rows name a file by,
-- `length` how much of it is stored, `kept_at` when a daemon last was about to name it.
CREATE TABLE file (
    digest  TEXT PRIMARY KEY NOT NULL,
    length  INTEGER NOT NULL CHECK (length >= 0),
    kept_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- In pieces: a file is the bodies one behind the other. `body` is encrypted.
CREATE TABLE file_piece (
    digest TEXT NOT NULL REFERENCES file,
    start  INTEGER NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (digest, start)
) STRICT, WITHOUT ROWID;
