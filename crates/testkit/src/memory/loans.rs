//! Loans in memory.

use super::MemoryRows;
use super::apply::guard;
use super::derived::page;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{LoanChange, LoanRead, RowsError};
use bridge_core::value::{ConversationId, Loan};

impl LoanRead for MemoryRows {
    fn loan(&self, id: &ConversationId) -> Result<Option<Loan>, RowsError> {
        Ok(self.loans.get(id).cloned())
    }

    fn loans(&self) -> Result<Vec<Loan>, RowsError> {
        let mut all: Vec<_> = self.loans.iter().map(|(_, loan)| loan.clone()).collect();
        // Stable: they are in the order of their conversations already.
        all.sort_by_key(|loan| loan.until);
        all.truncate(page(PAGE_MAX));
        Ok(all)
    }
}

impl MemoryRows {
    pub(super) fn change_loans(&mut self, change: &LoanChange) -> Result<(), RowsError> {
        let (id, loan_id) = match change {
            LoanChange::Put(loan) => (&loan.conversation_id, &loan.loan_id),
            LoanChange::End {
                conversation_id,
                loan_id,
            } => (conversation_id, loan_id),
        };
        let there = self.loans.get(id).map(|loan| &loan.loan_id);
        let is_it = there == Some(loan_id);
        match change {
            LoanChange::Put(loan) => {
                let fits = is_it || there.is_none() && self.conversations.contains(id);
                guard(fits, || format!("loan of conversation {id}"))?;
                self.loans.put(id.clone(), loan.clone());
            }
            LoanChange::End { .. } => {
                guard(is_it, || format!("end of the loan of conversation {id}"))?;
                self.loans.remove(id);
            }
        }
        Ok(())
    }
}
