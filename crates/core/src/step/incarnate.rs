//! Incarnate: a Codex process was started; the row is how the next daemon finds it. Gone: it ended.

use super::{RunError, Transition, Tx};
use crate::port::{Change, RequestsOf};
use crate::value::{Incarnation, IncarnationId, Timestamp};

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
        Ok(tx.change(Change::NewIncarnation(self.incarnation))?)
    }
}

impl Transition for IncarnationGone {
    type Outcome = ();
    const NAME: &'static str = "incarnation gone";

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
