-- The ledger, version 10: credentials are encrypted and the record of acts is signed, both with a key that is not in the
-- ledger. Values from before are encrypted when the ledger is opened with its key for the first time.

-- Rows of `audit` up to this number are from before the key; the row behind them is summed over all that they say.
ALTER TABLE instance ADD COLUMN audit_base INTEGER NOT NULL DEFAULT 0;
-- Ed25519 over `audit_base`, `audit_sum` and `audit_head`, and the public key it is verified with.
ALTER TABLE instance ADD COLUMN audit_signature TEXT;
ALTER TABLE instance ADD COLUMN audit_key TEXT;
