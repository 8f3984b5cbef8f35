//! Live news of messages for whoever watches. Lossy by design: rows are the truth, this only says "look".

use bridge_core::port::TextUpdate;
use bridge_core::value::MessageId;
use futures_util::FutureExt;
use futures_util::future::select_all;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;

/// News a slow watcher may be behind; older ones are dropped, and it reads the rows anyway.
const BEHIND_MAX: usize = 64;
/// Messages that are watched at the same time.
const WATCHED_MAX: usize = 4096;

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// The rows of the message changed.
    Changed,
    /// What Codex says: while it is written, and once more when it is whole.
    Text(Arc<TextUpdate>),
    /// What Codex changed in files just now.
    Diff(Arc<str>),
}

/// Changes of all messages that a slow watcher may be behind.
const ALL_BEHIND_MAX: usize = 1024;

/// Where news is published and watched.
#[derive(Clone, Debug)]
pub struct Hub {
    /// What Codex says in turns that run, for whoever comes late; one text for each.
    saying: Arc<Mutex<HashMap<MessageId, Arc<TextUpdate>>>>,
    watched: Arc<Mutex<HashMap<MessageId, broadcast::Sender<Live>>>>,
    all: broadcast::Sender<MessageId>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            saying: Arc::default(),
            watched: Arc::default(),
            all: broadcast::channel(ALL_BEHIND_MAX).0,
        }
    }
}

/// A watcher of every message.
#[derive(Debug)]
pub struct Everything(broadcast::Receiver<MessageId>);

impl Everything {
    /// The next message whose rows changed. `None` when some were missed: look at all that changed lately.
    pub async fn next(&mut self) -> Option<MessageId> {
        self.0.recv().await.ok()
    }
}

/// One watcher's view of one message; watching ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    hub: Hub,
    message_id: MessageId,
    news: Option<broadcast::Receiver<Live>>,
}

impl Hub {
    /// Watches every message, for changes of its rows.
    #[must_use]
    pub fn watch_all(&self) -> Everything {
        Everything(self.all.subscribe())
    }

    /// Publishes news; free when nobody watches.
    pub fn publish(&self, message_id: &MessageId, live: Live) {
        if live == Live::Changed && self.all.receiver_count() > 0 {
            let _unwatched = self.all.send(message_id.clone());
        }
        if let Live::Text(said) = &live {
            self.keep_saying(message_id, said);
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(message_id) {
            // No watcher left is fine: its entry goes when its subscription is dropped.
            let _unwatched = sender.send(live);
        }
    }

    fn keep_saying(&self, message_id: &MessageId, said: &Arc<TextUpdate>) {
        let mut saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        if saying.len() < WATCHED_MAX || saying.contains_key(message_id) {
            saying.insert(message_id.clone(), Arc::clone(said));
        }
    }

    /// What Codex said last in the running turn of a message.
    #[must_use]
    pub fn saying(&self, message_id: &MessageId) -> Option<Arc<TextUpdate>> {
        let saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        saying.get(message_id).cloned()
    }

    /// The turn of a message is not followed any more: what was said in it is over.
    pub fn clear_text(&self, message_id: &MessageId) {
        let mut saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        saying.remove(message_id);
    }

    /// Watches one message. `None` when too many are watched already.
    #[must_use]
    pub fn watch(&self, message_id: &MessageId) -> Option<Subscription> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.len() >= WATCHED_MAX && !watched.contains_key(message_id) {
            return None;
        }
        let sender = watched
            .entry(message_id.clone())
            .or_insert_with(|| broadcast::channel(BEHIND_MAX).0);
        Some(Subscription {
            hub: self.clone(),
            message_id: message_id.clone(),
            news: Some(sender.subscribe()),
        })
    }
}

impl Subscription {
    /// The next news. A watcher that fell behind gets `Changed`: look at the rows.
    pub async fn next(&mut self) -> Live {
        let Some(news) = &mut self.news else {
            return Live::Changed;
        };
        match news.recv().await {
            Ok(live) => live,
            Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => {
                Live::Changed
            }
        }
    }

    /// The rows changed; what Codex writes meanwhile is passed over.
    pub(crate) async fn changed(&mut self) {
        loop {
            match self.next().await {
                Live::Changed => return,
                Live::Text(_) | Live::Diff(_) => {}
            }
        }
    }
}

/// The next news of any of them; none ever without any.
pub(crate) async fn next_of(watched: &mut HashMap<MessageId, Subscription>) -> (MessageId, Live) {
    if watched.is_empty() {
        return std::future::pending().await;
    }
    let all = watched.iter_mut().map(|(message_id, news)| {
        let message_id = message_id.clone();
        async move { (message_id, news.next().await) }.boxed()
    });
    select_all(all).await.0
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.news = None;
        let mut watched = self
            .hub
            .watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if watched
            .get(&self.message_id)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            watched.remove(&self.message_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lagging_watcher_receives_changed() {
        let hub = Hub::default();
        let message_id = MessageId::new("m");
        let mut watcher = hub.watch(&message_id).unwrap();
        for n in 0..10_000 {
            hub.publish(&message_id, Live::Diff(format!("{n}").into()));
        }
        assert_eq!(watcher.next().await, Live::Changed);
        drop(watcher);
        assert!(hub.watched.lock().unwrap().is_empty());
    }
}
