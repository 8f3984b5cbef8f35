-- The ledger, version 12: how often Codex asked a decided question again and was told once more. A decision that was
-- told since must not become a grant.
ALTER TABLE request ADD COLUMN told_again INTEGER NOT NULL DEFAULT 0 CHECK (told_again >= 0);
