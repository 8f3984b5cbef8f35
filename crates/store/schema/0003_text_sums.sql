-- The ledger, version 3: texts have a checksum, because SQLite keeps none and a text is stored once. A row without
-- one is from before and is believed.

ALTER TABLE message_text ADD COLUMN body_sum INTEGER;
ALTER TABLE reply_text ADD COLUMN body_sum INTEGER;
ALTER TABLE answer ADD COLUMN text_sum INTEGER;
