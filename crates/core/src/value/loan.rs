//! A loan: somebody has a conversation's thread open in Codex's own terminal, and its messages wait.

use super::{ConversationId, LoanId, Timestamp};

/// One loan. Its row lasts until the bridge has the thread back and has read what was said there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    pub loan_id: LoanId,
    pub conversation_id: ConversationId,
    /// Who has it.
    pub borrower: String,
    pub since: Timestamp,
    /// From then on the bridge takes the thread back as soon as no terminal has it open. A return sets it to its time.
    pub until: Timestamp,
    /// Why the bridge does not have it back yet, though its time is over.
    pub error: Option<String>,
}

impl Loan {
    /// Whether its time is over, so that the bridge takes the thread back.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until <= now
    }
}
