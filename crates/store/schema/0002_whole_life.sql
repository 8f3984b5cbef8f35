-- The ledger, version 2: rounds of service, suspects, stops, messages that were given to a running turn, messages
-- that wait for a person, acks that a source refuses. Tables whose checks change are made anew, rows and all.

ALTER TABLE instance ADD COLUMN round INTEGER NOT NULL DEFAULT 0;

-- `place` has one more word: kept holds its conversation back without taking the place of a turn (a lost turn that
-- can't be looked at, a message that waits for a person, one that was given to the turn of another).
CREATE TABLE message_next (
    row              INTEGER PRIMARY KEY,
    message_id       TEXT NOT NULL UNIQUE,
    conversation_id  TEXT NOT NULL REFERENCES conversation,
    seq              INTEGER NOT NULL,
    channel          TEXT NOT NULL,
    external_id      TEXT NOT NULL,
    kind             TEXT NOT NULL CHECK (kind IN ('person', 'agent')),
    sender           TEXT NOT NULL,
    tier             TEXT NOT NULL CHECK (tier = 'owner' OR tier = 'peer' OR tier = 'tool'),
    round            INTEGER NOT NULL,
    received_at      INTEGER NOT NULL,
    state            TEXT NOT NULL CHECK (state = 'received' OR state = 'claimed' OR state = 'starting'
                             OR state = 'running' OR state = 'unclear' OR state = 'steered'
                             OR state = 'parked' OR state = 'answered'
                             OR state = 'sending' OR state = 'replied' OR state = 'done'
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
    stop             TEXT,
    failure_class    TEXT,
    failure_until    INTEGER,
    failure_reason   TEXT,
    updated_at       INTEGER NOT NULL,
    place            TEXT CHECK (place = 'ready' OR place = 'held' OR place = 'behind'
                             OR place = 'flight' OR place = 'kept' OR place = 'out'),
    UNIQUE (channel, external_id),
    UNIQUE (conversation_id, seq),
    CHECK ((state = 'running') = (turn_id IS NOT NULL)),
    CHECK ((state = 'steered') = (leader IS NOT NULL)),
    CHECK ((state = 'dead' OR state = 'cancelled' OR state = 'parked') = (reason IS NOT NULL)),
    CHECK (hold_until IS NULL OR state = 'received' OR state = 'unclear' OR state = 'parked')
) STRICT;

INSERT INTO message_next
SELECT row, message_id, conversation_id, seq, channel, external_id, kind, sender, tier, 0, received_at, state,
       turn_id, reason, NULL, hold_until, hold_class, hold_class_until, hold_reason, attempt, spent, continues, 0,
       input, NULL, failure_class, failure_until, failure_reason, updated_at, place
FROM message;
DROP TABLE message;
ALTER TABLE message_next RENAME TO message;

CREATE INDEX message_place ON message (place, conversation_id, seq) WHERE place IS NOT NULL;
CREATE INDEX message_open ON message (message_id) WHERE place IS NOT NULL;
CREATE INDEX message_ready ON message (kind DESC, round, received_at, message_id) WHERE place = 'ready';
CREATE INDEX message_held ON message (kind DESC, round, received_at, message_id, hold_until) WHERE place = 'held';
CREATE INDEX message_due ON message (hold_until) WHERE place = 'held';
CREATE INDEX message_parked ON message (hold_until, message_id) WHERE state = 'parked';
CREATE INDEX message_leader ON message (leader, seq) WHERE leader IS NOT NULL;
CREATE INDEX message_sender ON message (channel, sender, round) WHERE place IS NOT NULL AND place <> 'out';
CREATE INDEX message_finished ON message (state, updated_at, message_id) WHERE place IS NULL;

CREATE TABLE ack_next (
    message_id TEXT PRIMARY KEY NOT NULL REFERENCES message (message_id),
    mode       TEXT NOT NULL CHECK (mode = 'none' OR mode = 'on_custody' OR mode = 'after_reply'),
    state      TEXT NOT NULL CHECK (state = 'not_needed' OR state = 'due' OR state = 'given' OR state = 'refused')
) STRICT, WITHOUT ROWID;
INSERT INTO ack_next SELECT message_id, mode, state FROM ack;
DROP TABLE ack;
ALTER TABLE ack_next RENAME TO ack;
CREATE INDEX ack_due ON ack (message_id) WHERE state = 'due';

CREATE TABLE answer_next (
    message_id TEXT PRIMARY KEY NOT NULL REFERENCES message (message_id),
    attempt    INTEGER NOT NULL,
    source     TEXT NOT NULL CHECK (source = 'live' OR source = 'harvested' OR source = 'shared'),
    text       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO answer_next SELECT message_id, attempt, source, text, created_at FROM answer;
DROP TABLE answer;
ALTER TABLE answer_next RENAME TO answer;

CREATE INDEX incarnation_ended ON incarnation (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX audit_at ON audit (at);
