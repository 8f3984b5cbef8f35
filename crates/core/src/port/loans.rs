//! What is read and written of loans.

use super::rows::RowsError;
use crate::value::{ConversationId, Loan, LoanId};

/// Conversations that are lent to a Codex terminal.
pub trait LoanRead {
    /// The loan of a conversation.
    fn loan(&self, id: &ConversationId) -> Result<Option<Loan>, RowsError>;
    /// Loans, those that end first, none beyond [`PAGE_MAX`](crate::limits::PAGE_MAX).
    fn loans(&self) -> Result<Vec<Loan>, RowsError>;
}

/// The closed list of what is written of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoanChange {
    /// Inserts a loan, or rewrites when it ends and why it has not; another loan of its conversation is a conflict.
    Put(Loan),
    /// Removes a loan.
    End {
        conversation_id: ConversationId,
        loan_id: LoanId,
    },
}
