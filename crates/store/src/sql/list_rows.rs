//! Lists and counts of an open transaction, as the fronts ask for them.

use super::audit;
use super::rows::SqlRows;
use bridge_core::port::{AuditPage, AuditQuery, ListRead, RowsError};

impl ListRead for SqlRows<'_> {
    fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, RowsError> {
        audit::page_of(self.conn(), query)
    }
}
