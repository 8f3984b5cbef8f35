//! News of a task inside the daemon: the hub tells when rows of its messages changed. What they say is looked up elsewhere.

use super::News;
use super::rows::Subject;
use crate::hub::next_of;
use crate::{BridgeService, Live, Subscription};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::value::MessageId;
use std::collections::HashMap;

/// News of one task, or of a message of any channel.
#[derive(Debug)]
pub struct ServiceNews<D> {
    service: D,
    id: String,
    /// The messages that were not finished when it was last asked.
    works: Option<Vec<MessageId>>,
    /// Of these.
    watched: HashMap<MessageId, Subscription>,
}

impl<D: BridgeService> ServiceNews<D> {
    pub(super) fn of(service: D, id: &str) -> Self {
        Self {
            service,
            id: id.trim().to_owned(),
            works: None,
            watched: HashMap::new(),
        }
    }

    /// Watches what the task works on now; whether that is something else than before. What is finished is not watched
    /// any more, and that it is may not have been heard.
    async fn listen(&mut self) -> Result<bool, LedgerError> {
        let id = self.id.clone();
        let works = self.service.ledger().read(move |rows| {
            let Ok(subject) = Subject::find(rows, &id)? else {
                return Ok(Vec::new());
            };
            let mut messages = subject.messages(rows)?;
            messages.retain(|message| !message.life.state.name().finished());
            Ok(messages)
        });
        let works: Vec<MessageId> = works
            .await?
            .into_iter()
            .map(|message| message.message_id)
            .collect();
        self.watched
            .retain(|message_id, _| works.contains(message_id));
        let mut is_other = self.works.as_ref() != Some(&works);
        for message_id in &works {
            // Where too many are watched already, whoever waits looks now and then.
            if !self.watched.contains_key(message_id)
                && let Some(news) = self.service.hub().watch(message_id)
            {
                self.watched.insert(message_id.clone(), news);
                is_other = true;
            }
        }
        self.works = Some(works);
        Ok(is_other)
    }
}

impl<D: BridgeService> News for ServiceNews<D> {
    async fn changed(&mut self) {
        match self.listen().await {
            Ok(true) => return,
            Ok(false) => {}
            // Whoever looks is told why.
            Err(_unreadable) => return std::future::pending().await,
        }
        loop {
            match next_of(&mut self.watched).await {
                (_, Live::Changed) => return,
                (_, Live::Text(_) | Live::Diff(_)) => {}
            }
        }
    }
}
