//! Record: an act of a person that changes no row of a message is written down all the same.

use super::{Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{AuditEntry, Timestamp};

/// Journals an act.
#[derive(Clone, Debug)]
pub struct Record {
    /// What was done, by whom.
    pub entry: AuditEntry,
}

impl Transition for Record {
    type View = ();
    type Outcome = ();
    const NAME: &'static str = "record";

    fn load(&self, _rows: &dyn Read) -> Result<Self::View, RowsError> {
        Ok(())
    }

    fn decide(self, (): Self::View, _now: Timestamp) -> Result<Decision<()>, Refused> {
        Ok(Decision {
            changes: vec![Change::Audit(self.entry)],
            actions: Vec::new(),
            outcome: (),
        })
    }
}
