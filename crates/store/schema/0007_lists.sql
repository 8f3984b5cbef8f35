-- The ledger, version 7: an index for a list that walked through all that is finished. No row changes.

-- Dead letters by age; there are few of them among the finished.
CREATE INDEX message_dead ON message (message_id) WHERE state = 'dead';
