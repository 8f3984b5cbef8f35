//! Record: an act of a person that changes no row of a message is written down all the same.

use super::{RunError, Transition, Tx};
use crate::port::Change;
use crate::value::{AuditEntry, Timestamp};

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
