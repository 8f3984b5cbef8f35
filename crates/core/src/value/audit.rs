//! Who did what to a message by hand: an append-only record of the acts of people.

use super::Timestamp;

/// One act of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Who, by the front's own authenticated field.
    pub actor: String,
    /// What was done, one word.
    pub what: String,
    /// To what: an id.
    pub subject: String,
    /// The rest, one line.
    pub detail: String,
}
