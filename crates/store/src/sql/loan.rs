//! Conversations that are lent to a Codex terminal: the table `loan`.

use super::fields::Fields;
use super::rows::SqlRows;
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{LoanChange, LoanRead, RowsError};
use bridge_core::value::{ConversationId, Loan, LoanId};

macro_rules! select_loan {
    ($tail:literal) => {
        concat!(
            "SELECT loan_id, conversation_id, borrower, since, until, error FROM loan ",
            $tail
        )
    };
}

impl LoanRead for SqlRows<'_> {
    fn loan(&self, id: &ConversationId) -> Result<Option<Loan>, RowsError> {
        let query = select_loan!("WHERE conversation_id = ?1");
        sql::one(self.conn(), query, [id.as_str()], read)
    }

    fn loans(&self) -> Result<Vec<Loan>, RowsError> {
        let query = select_loan!("ORDER BY until, conversation_id LIMIT ?1");
        sql::many(self.conn(), query, [page(PAGE_MAX)], read)
    }
}

fn read(row: &Row<'_>) -> Result<Loan, RowsError> {
    let mut fields = Fields::of("loan", row);
    Ok(Loan {
        loan_id: fields.id(LoanId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        borrower: fields.next()?,
        since: fields.time()?,
        until: fields.time()?,
        error: fields.next()?,
    })
}

pub(crate) fn apply(conn: Conn<'_>, change: &LoanChange) -> Result<(), RowsError> {
    match change {
        LoanChange::Put(loan) => put(conn, loan),
        LoanChange::End {
            conversation_id,
            loan_id,
        } => sql::write(
            conn,
            "DELETE FROM loan WHERE conversation_id = ?1 AND loan_id = ?2",
            params![conversation_id.as_str(), loan_id.as_str()],
            || format!("end of the loan of conversation {conversation_id}"),
        ),
    }
}

fn put(conn: Conn<'_>, loan: &Loan) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO loan (conversation_id, loan_id, borrower, since, until, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT (conversation_id) DO UPDATE SET since = excluded.since, until = excluded.until, error = excluded.error \
         WHERE loan.loan_id = excluded.loan_id",
        params![
            loan.conversation_id.as_str(),
            loan.loan_id.as_str(),
            loan.borrower,
            loan.since.0,
            loan.until.0,
            loan.error,
        ],
        || format!("loan of conversation {}", loan.conversation_id),
    )
}
