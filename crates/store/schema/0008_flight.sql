-- The ledger, version 8: what every claim asks about all turns at work is found in indexes. No row changes.

-- Turns at work by channel. No column of it changes while one is at work.
CREATE INDEX message_flight ON message (channel, message_id) WHERE place = 'flight';

-- Those under which Codex died before: hardly ever one.
CREATE INDEX message_suspect ON message (channel) WHERE place = 'flight' AND suspect = 1;

-- Questions that wait for a person, by message.
CREATE INDEX request_open ON request (message_id) WHERE state = 'open';
