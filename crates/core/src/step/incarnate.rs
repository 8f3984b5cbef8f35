//! Incarnate: a Codex process was started; the row is how the next daemon finds it. Gone: it ended.

use super::{Decision, Refused, Transition};
use crate::port::{Change, Read, RequestsOf, RowsError};
use crate::value::{Incarnation, IncarnationId, Timestamp};

/// Records a Codex process that was just started.
#[derive(Clone, Debug)]
pub struct Incarnate {
    /// The process.
    pub incarnation: Incarnation,
}

/// Records that a Codex process is gone.
#[derive(Clone, Debug)]
pub struct IncarnationGone {
    /// Which.
    pub incarnation_id: IncarnationId,
}

impl Transition for Incarnate {
    type View = ();
    type Outcome = ();
    const NAME: &'static str = "incarnate";

    fn load(&self, _rows: &dyn Read) -> Result<(), RowsError> {
        Ok(())
    }

    fn decide(self, _view: (), _now: Timestamp) -> Result<Decision<()>, Refused> {
        let changes = vec![Change::NewIncarnation(self.incarnation)];
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: (),
        })
    }
}

impl Transition for IncarnationGone {
    type View = bool;
    type Outcome = ();
    const NAME: &'static str = "incarnation gone";

    fn load(&self, rows: &dyn Read) -> Result<bool, RowsError> {
        let live = rows.live_incarnations()?;
        Ok(live
            .iter()
            .any(|live| live.incarnation_id == self.incarnation_id))
    }

    fn decide(self, live: bool, now: Timestamp) -> Result<Decision<()>, Refused> {
        let mut changes = Vec::new();
        if live {
            changes.push(Change::Orphan(RequestsOf::Incarnation(
                self.incarnation_id.clone(),
            )));
            changes.push(Change::IncarnationEnded {
                incarnation_id: self.incarnation_id,
                at: now,
            });
        }
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: (),
        })
    }
}
