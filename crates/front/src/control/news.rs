//! Notifies a waiting caller that rows of a task changed. The caller reads them itself.

use super::News;
use super::rows::Subject;
use crate::BridgeService;
use crate::hub::MessageUpdates;
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::value::MessageId;

/// Changes of one task, or of a message of any channel.
#[derive(Debug)]
pub struct ServiceNews<D> {
    service: D,
    id: String,
    /// The unfinished messages at the last call.
    open: Option<Vec<MessageId>>,
    updates: MessageUpdates,
}

impl<D: BridgeService> ServiceNews<D> {
    pub(super) fn of(service: D, id: &str) -> Self {
        Self {
            updates: MessageUpdates::new(service.hub()),
            service,
            id: id.trim().to_owned(),
            open: None,
        }
    }

    /// Follows the unfinished messages; returns whether they are others than before. A finished message is not followed
    /// any more, and its last change may have notified nobody.
    async fn follow_open(&mut self) -> Result<bool, LedgerError> {
        let id = self.id.clone();
        let open = self.service.ledger().read(move |rows| {
            let Ok(subject) = Subject::find(rows, &id)? else {
                return Ok(Vec::new());
            };
            let mut messages = subject.messages(rows)?;
            messages.retain(|message| !message.life.state.name().finished());
            Ok(messages)
        });
        let open: Vec<MessageId> = open
            .await?
            .into_iter()
            .map(|message| message.message_id)
            .collect();
        // Where the hub has no room, the caller polls.
        let added = self.updates.follow(&open);
        let is_other = added || self.open.as_ref() != Some(&open);
        self.open = Some(open);
        Ok(is_other)
    }
}

impl<D: BridgeService> News for ServiceNews<D> {
    async fn changed(&mut self) {
        match self.follow_open().await {
            Ok(true) => {}
            Ok(false) => self.updates.changed().await,
            // The caller reads the rows on an interval, and gets the error then.
            Err(_unreadable) => std::future::pending().await,
        }
    }
}
