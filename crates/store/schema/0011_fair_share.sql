-- The ledger, version 11: turns at work are counted by sender, and what one sender stores is counted by the hour.

-- Turns at work by sender. Only `suspect` changes while one is at work, and only when Codex dies.
DROP INDEX message_flight;
DROP INDEX message_suspect;
CREATE INDEX message_flight ON message (channel, sender, tier, kind, suspect, message_id) WHERE place = 'flight';

-- What the scheduler passes over (senders and channels that have all the turns they may have) is passed over in the index.
DROP INDEX message_ready;
CREATE INDEX message_ready ON message (kind DESC, round, received_at, message_id, channel, sender, tier, suspect)
    WHERE place = 'ready';

-- Bytes that a sender stored within an hour, kept by the transitions that take its messages in; for a day.
CREATE TABLE stored (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    hour    INTEGER NOT NULL,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (channel, sender, hour)
) STRICT, WITHOUT ROWID;
