//! Lists and counts of an open transaction, as the fronts ask for them.

use super::rows::SqlRows;
use super::{audit, budget, figures, search};
use bridge_core::port::{
    AuditPage, AuditQuery, FinishedMessage, ListRead, RecentSender, RowsError, SearchPage,
    SearchQuery, TurnsUsed,
};
use bridge_core::step::RedriveOutcome;
use bridge_core::value::{ChannelId, MessageId, StateName, Timestamp};

impl ListRead for SqlRows<'_> {
    fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, RowsError> {
        audit::page_of(self.conn(), query)
    }

    fn failed(&self) -> Result<Vec<(MessageId, RedriveOutcome)>, RowsError> {
        figures::failed(self.conn())
    }

    fn last_redrive(&self) -> Result<Option<Timestamp>, RowsError> {
        figures::last_redrive(self.conn())
    }

    fn search(&self, query: &SearchQuery) -> Result<SearchPage, RowsError> {
        search::page_of(self.conn(), query)
    }

    fn recent_senders(&self, since: Timestamp) -> Result<Vec<RecentSender>, RowsError> {
        figures::recent_senders(self.conn(), since)
    }

    fn turns_used(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
    ) -> Result<TurnsUsed, RowsError> {
        budget::used(self.conn(), channel, sender, since)
    }

    fn finished_since(
        &self,
        state: StateName,
        since: Timestamp,
    ) -> Result<Vec<FinishedMessage>, RowsError> {
        figures::finished_since(self.conn(), state, since)
    }
}
