-- The ledger, version 9: a task keeps what its commands may read. Tasks of token holders are isolated; those of the
-- local owner, whose name no token can have, read the disk as before.
ALTER TABLE task ADD COLUMN reads TEXT NOT NULL DEFAULT 'isolated' CHECK (reads IN ('disk', 'isolated'));
UPDATE task SET reads = 'disk' WHERE starter = 'local owner';
