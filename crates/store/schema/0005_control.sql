-- The ledger, version 5: questions with a deadline and a decision by somebody, tasks with their terms and one
-- notification each, tokens of the API, a chain over what people did by hand. Tables whose checks change are made
-- anew, rows and all.

-- `shown` is all that is decided about, and `digest` what a grant is bound to: both are empty in rows from before.
CREATE TABLE request_next (
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
    wants       TEXT NOT NULL CHECK (wants IN ('approval', 'visit', 'text', 'form')),
    deciders    TEXT NOT NULL CHECK (deciders IN ('owner', 'sender')),
    state       TEXT NOT NULL CHECK (state = 'open' OR state = 'orphaned' OR state = 'decided'
                             OR state = 'granted' OR state = 'withdrawn'),
    decision    TEXT CHECK (decision = 'accept' OR decision = 'acceptForSession' OR decision = 'decline'
                             OR decision = 'cancel'),
    answers     TEXT,
    decided_by  TEXT,
    via         TEXT,
    decided_at  INTEGER,
    why         TEXT,
    created_at  INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    reminded    INTEGER NOT NULL CHECK (reminded IN (0, 1)),
    CHECK ((state = 'decided' OR state = 'granted') = (decision IS NOT NULL)),
    CHECK ((decision IS NULL) = (decided_by IS NULL)),
    CHECK ((decision IS NULL) = (via IS NULL)),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK ((state = 'withdrawn') = (why IS NOT NULL)),
    CHECK (answers IS NULL OR decision IS NOT NULL)
) STRICT;
INSERT INTO request_next
SELECT row, request_id, message_id, attempt, incarnation, rpc_id, item_id, '', kind, headline, '', '', payload,
       CASE WHEN kind IN ('user_input', 'elicitation') THEN 'form' ELSE 'approval' END, 'owner', state, decision, NULL, decided_by, CASE WHEN decision IS NULL THEN NULL ELSE 'codex-bridge' END,
       CASE WHEN decision IS NULL THEN NULL ELSE created_at END, NULL, created_at, created_at, 0
FROM request;
DROP TABLE request;
ALTER TABLE request_next RENAME TO request;
CREATE INDEX request_message ON request (message_id);
CREATE INDEX request_waiting ON request (deadline, request_id)
    WHERE state = 'open' OR state = 'orphaned' OR state = 'granted';

-- What a task does is derived from its messages and their questions; here is only what it was asked for.
DROP TABLE task;
CREATE TABLE task (
    row             INTEGER PRIMARY KEY,
    task_id         TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL UNIQUE REFERENCES conversation,
    message_id      TEXT NOT NULL REFERENCES message (message_id),
    starter         TEXT NOT NULL,
    prompt_summary  TEXT NOT NULL,
    asked           TEXT NOT NULL,
    cwd             TEXT NOT NULL,
    model           TEXT,
    sandbox         TEXT NOT NULL,
    approval_policy TEXT NOT NULL,
    codex_home      TEXT,
    notify_target   TEXT,
    notify_state    TEXT NOT NULL CHECK (notify_state = 'no_target' OR notify_state = 'pending'
                             OR notify_state = 'sending' OR notify_state = 'sent' OR notify_state = 'failed'),
    notify_tries    INTEGER NOT NULL,
    notify_first    INTEGER,
    notify_not_before INTEGER,
    notified_at     INTEGER,
    notify_error    TEXT,
    created_at      INTEGER NOT NULL,
    CHECK (notify_not_before IS NULL OR notify_state = 'pending'),
    CHECK ((notify_state = 'sent' OR notify_state = 'failed') = (notified_at IS NOT NULL)),
    CHECK (notify_error IS NULL OR notify_state = 'failed' OR notify_state = 'pending' OR notify_state = 'sending')
) STRICT;
CREATE INDEX task_message ON task (message_id);
CREATE INDEX task_untold ON task (row) WHERE notify_state = 'pending' OR notify_state = 'sending';

-- Tokens of the API: only their hash is kept. `scopes` are words with a space between them.
CREATE TABLE token (
    name         TEXT PRIMARY KEY NOT NULL,
    hash         TEXT NOT NULL UNIQUE,
    scopes       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT, WITHOUT ROWID;

-- Each row's sum is over its own fields and the sum of the row before; the sum of the newest row that retention
-- removed is kept, so that the chain has a beginning, and that of the newest row, so that it has an end. Rows from
-- before have none.
ALTER TABLE audit ADD COLUMN sum TEXT;
ALTER TABLE instance ADD COLUMN audit_sum TEXT;
ALTER TABLE instance ADD COLUMN audit_head TEXT;

-- Which CODEX_HOME a Codex process has; absent for the usual one.
ALTER TABLE incarnation ADD COLUMN codex_home TEXT;

-- What happened in all messages, in the order it happened.
CREATE INDEX event_at ON event (at, message_id, ordinal);
