-- The ledger, version 4: files that travel with messages and replies, talks of a platform within one key, hops
-- between agents. `files` is a list in JSON, absent where there are none.

ALTER TABLE conversation ADD COLUMN context TEXT;
ALTER TABLE message ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN said_at INTEGER NOT NULL DEFAULT 0;
UPDATE message SET said_at = received_at;
ALTER TABLE message_text ADD COLUMN files TEXT;
ALTER TABLE reply_text ADD COLUMN files TEXT;

-- When a reply was known to be taken; of those from before it is not known. Replies that say the same are looked for
-- by this time, whatever the number of all.
ALTER TABLE reply ADD COLUMN sent_at INTEGER CHECK (sent_at IS NULL OR state = 'sent');
CREATE INDEX reply_sent ON reply (sent_at) WHERE sent_at IS NOT NULL;

-- A turn's bits decide what may be done again, so its row has a checksum too; one without is from before.
ALTER TABLE turn ADD COLUMN row_sum INTEGER;

-- Only agents are counted, so that people's messages pay nothing for it.
CREATE INDEX message_agent ON message (channel, sender, said_at) WHERE kind = 'agent';

-- What has files, for whoever looks which of the kept ones are still wanted.
CREATE INDEX message_files ON message_text (row) WHERE files IS NOT NULL;
CREATE INDEX reply_files ON reply_text (row) WHERE files IS NOT NULL;
