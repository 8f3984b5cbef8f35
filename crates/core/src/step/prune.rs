//! Prune: finished rows leave the ledger after a time, a few at a time. A row is a dedupe key too, so none goes while
//! its source may still show it again.

use super::{Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, OldRecords, Read, RowsError};
use crate::storage;
use crate::value::{MessageId, StateName, Timestamp};

/// Removes finished rows that are old enough.
#[derive(Clone, Debug)]
pub struct Prune {
    /// The same `now` the decision gets.
    pub now: Timestamp,
    /// How long rows are kept.
    pub keep: Keep,
}

/// How long rows are kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Messages that are done or cancelled.
    pub done_ms: i64,
    /// Dead letters.
    pub dead_ms: i64,
    /// Acts of people, and Codex processes that ended.
    pub audit_ms: i64,
    /// The longest time after which a source may show a row again: nothing is removed earlier.
    pub redelivery_ms: i64,
}

impl Keep {
    fn before(&self, state: StateName, now: Timestamp) -> Timestamp {
        let kept = match state {
            StateName::Dead => self.dead_ms,
            StateName::Done
            | StateName::Cancelled
            | StateName::Received
            | StateName::Claimed
            | StateName::Starting
            | StateName::Running
            | StateName::Unclear
            | StateName::Steered
            | StateName::Parked
            | StateName::Answered
            | StateName::Sending => self.done_ms,
        };
        now.plus_ms(kept.max(self.redelivery_ms).saturating_neg())
    }
}

impl Transition for Prune {
    type View = Vec<(StateName, MessageId)>;
    /// How many messages went; when it is a whole batch, there may be more.
    type Outcome = u32;
    const NAME: &'static str = "prune";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let mut old = Vec::new();
        for state in [StateName::Done, StateName::Cancelled, StateName::Dead] {
            let room = limits::PRUNE_BATCH.saturating_sub(u32::try_from(old.len()).unwrap_or(0));
            let before = self.keep.before(state, self.now);
            let found = rows.forgettable(state, before, room)?;
            old.extend(found.into_iter().map(|message_id| (state, message_id)));
        }
        Ok(old)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<u32>, Refused> {
        let outcome = u32::try_from(view.len()).unwrap_or(u32::MAX);
        let mut changes: Vec<Change> = view
            .into_iter()
            .map(|(from, message_id)| Change::Forget { message_id, from })
            .collect();
        let before = now.plus_ms(self.keep.audit_ms.saturating_neg());
        changes.push(Change::ForgetRecords(OldRecords {
            incarnations: before,
            audit: before,
            stored: storage::counted_from(now),
        }));
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome,
        })
    }
}
