//! Records: acts of people, Codex processes, and rows that are old enough to go.

use crate::limits;
use crate::port::{Change, OldRecords, RequestsOf};
use crate::step::{RunError, Transition, Tx};
use crate::storage;
use crate::value::{AuditEntry, Incarnation, IncarnationId, StateName, Timestamp};

/// Journals an act of a person.
#[derive(Clone, Debug)]
pub struct Record {
    pub entry: AuditEntry,
}

impl Transition for Record {
    type Outcome = ();
    const NAME: &'static str = "record";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        Ok(tx.change(Change::Audit(self.entry))?)
    }
}

/// Records a Codex process that was just started.
#[derive(Clone, Debug)]
pub struct Incarnate {
    pub incarnation: Incarnation,
}

/// Records that a Codex process is gone.
#[derive(Clone, Debug)]
pub struct IncarnationGone {
    pub incarnation_id: IncarnationId,
}

impl Transition for Incarnate {
    type Outcome = ();
    const NAME: &'static str = "incarnate";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let node_id = tx.this_node();
        Ok(tx.change(Change::NewIncarnation(Incarnation {
            node_id,
            ..self.incarnation
        }))?)
    }
}

impl Transition for IncarnationGone {
    type Outcome = ();
    const NAME: &'static str = "incarnation_gone";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let id = self.incarnation_id;
        let live = tx.live_incarnations()?;
        if live.iter().any(|live| live.incarnation_id == id) {
            tx.change(Change::Orphan(RequestsOf::Incarnation(id.clone())))?;
            tx.change(Change::IncarnationEnded {
                incarnation_id: id,
                at: now,
            })?;
        }
        Ok(())
    }
}

/// Removes finished rows that are old enough, a few at a time. A row is a dedupe key too, so none goes while its source
/// may still show it again.
#[derive(Clone, Debug)]
pub struct Prune {
    /// Rows are counted as old by this time.
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
            _ => self.done_ms,
        };
        now.plus_ms(kept.max(self.redelivery_ms).saturating_neg())
    }
}

impl Transition for Prune {
    /// How many messages went; when it is a whole batch, there may be more.
    type Outcome = u32;
    const NAME: &'static str = "prune";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<u32, RunError> {
        let mut forgotten = 0;
        for state in [StateName::Done, StateName::Cancelled, StateName::Dead] {
            let room = limits::PRUNE_BATCH.saturating_sub(forgotten);
            for message_id in tx.forgettable(state, self.keep.before(state, self.now), room)? {
                tx.change(Change::Forget {
                    message_id,
                    from: state,
                })?;
                forgotten += 1;
            }
        }
        let before = now.plus_ms(self.keep.audit_ms.saturating_neg());
        tx.change(Change::ForgetRecords(OldRecords {
            incarnations: before,
            audit: before,
            stored: storage::counted_from(now),
            alerts: now.plus_ms(-limits::ALERT_KEPT_MS),
            quotas: now.plus_ms(-limits::QUOTA_WINDOW_MAX_MS),
            nodes: now.plus_ms(-limits::NODE_KEPT_MS),
        }))?;
        Ok(forgotten)
    }
}
