//! Live updates of messages inside the daemon. Lossy by design: rows are the truth, an update only says "read them".

use crate::lock;
use bridge_core::deadline::after;
use bridge_core::port::TextUpdate;
use bridge_core::value::MessageId;
use futures_util::FutureExt;
use futures_util::future::select_all;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Updates buffered per subscription; a slower subscriber loses the oldest and reads the rows.
const BEHIND_MAX: usize = 64;
/// Messages with subscriptions at the same time.
const WATCHED_MAX: usize = 4096;

/// One update of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveUpdate {
    /// The rows of the message changed.
    Changed,
    /// What Codex writes: each growing part, and once more when it is whole.
    Text(Arc<TextUpdate>),
    /// The diff of a file change by Codex.
    Diff(Arc<str>),
    /// The last lines that a command of Codex wrote.
    Output(Arc<str>),
}

/// Changes buffered for a subscriber to all messages.
const ALL_BEHIND_MAX: usize = 1024;

/// Publishes updates to subscribers.
#[derive(Clone, Debug)]
pub struct Hub {
    /// The newest text of each running turn, for subscribers that arrive late.
    texts: Arc<Mutex<HashMap<MessageId, Arc<TextUpdate>>>>,
    watched: Arc<Mutex<HashMap<MessageId, broadcast::Sender<LiveUpdate>>>>,
    all: broadcast::Sender<MessageId>,
    /// Rings when somebody watches a message that nobody watched.
    begun: Arc<Notify>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            texts: Arc::default(),
            watched: Arc::default(),
            all: broadcast::channel(ALL_BEHIND_MAX).0,
            begun: Arc::default(),
        }
    }
}

/// A subscription to changes of all messages.
#[derive(Debug)]
pub struct AllChanges(broadcast::Receiver<MessageId>);

impl AllChanges {
    /// The next message whose rows changed. `None` if some were missed: read all that changed lately.
    pub async fn next(&mut self) -> Option<MessageId> {
        self.0.recv().await.ok()
    }
}

/// A subscription to one message; ends when dropped.
#[derive(Debug)]
pub struct LiveSubscription {
    hub: Hub,
    message_id: MessageId,
    updates: Option<broadcast::Receiver<LiveUpdate>>,
}

impl Hub {
    /// Subscribes to row changes of all messages.
    #[must_use]
    pub fn watch_all(&self) -> AllChanges {
        AllChanges(self.all.subscribe())
    }

    /// Publishes an update; free without subscribers.
    pub fn publish(&self, message_id: &MessageId, live: LiveUpdate) {
        if live == LiveUpdate::Changed && self.all.receiver_count() > 0 {
            let _unwatched = self.all.send(message_id.clone());
        }
        if let LiveUpdate::Text(text) = &live {
            self.keep_text(message_id, text);
        }
        let watched = lock(&self.watched);
        if let Some(sender) = watched.get(message_id) {
            // No receiver is left while a subscription is being dropped, which then removes the entry.
            let _unwatched = sender.send(live);
        }
    }

    fn keep_text(&self, message_id: &MessageId, text: &Arc<TextUpdate>) {
        let mut texts = lock(&self.texts);
        if texts.len() < WATCHED_MAX || texts.contains_key(message_id) {
            texts.insert(message_id.clone(), Arc::clone(text));
        }
    }

    /// The newest text in the running turn of a message.
    #[must_use]
    pub fn current_text(&self, message_id: &MessageId) -> Option<Arc<TextUpdate>> {
        let texts = lock(&self.texts);
        texts.get(message_id).cloned()
    }

    /// Forgets the text of a turn that is not followed any more.
    pub fn clear_text(&self, message_id: &MessageId) {
        let mut texts = lock(&self.texts);
        texts.remove(message_id);
    }

    /// The messages with subscriptions.
    #[must_use]
    pub fn watched(&self) -> Vec<MessageId> {
        lock(&self.watched).keys().cloned().collect()
    }

    /// Returns when somebody watches a message that nobody watched before.
    pub async fn watch_begun(&self) {
        self.begun.notified().await;
    }

    /// Subscribes to one message. `None` if too many messages have subscriptions.
    #[must_use]
    pub fn watch(&self, message_id: &MessageId) -> Option<LiveSubscription> {
        let mut watched = lock(&self.watched);
        if watched.len() >= WATCHED_MAX && !watched.contains_key(message_id) {
            return None;
        }
        let sender = watched.entry(message_id.clone()).or_insert_with(|| {
            self.begun.notify_one();
            broadcast::channel(BEHIND_MAX).0
        });
        Some(LiveSubscription {
            hub: self.clone(),
            message_id: message_id.clone(),
            updates: Some(sender.subscribe()),
        })
    }
}

impl LiveSubscription {
    /// The next update. A subscriber that fell behind gets `Changed`.
    pub async fn next(&mut self) -> LiveUpdate {
        let Some(updates) = &mut self.updates else {
            return LiveUpdate::Changed;
        };
        match updates.recv().await {
            Ok(live) => live,
            Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => {
                LiveUpdate::Changed
            }
        }
    }
}

/// Ticks at which rows are read without an update. An interval, not a sleep: a steady flow of live output must not keep
/// rows from being read.
pub(crate) fn polls(every: Duration) -> Interval {
    let mut polls = interval_at(after(Instant::now(), every), every);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    polls
}

/// Subscriptions to a changing set of messages.
#[derive(Debug)]
pub(crate) struct MessageUpdates {
    hub: Hub,
    subscriptions: HashMap<MessageId, LiveSubscription>,
}

impl MessageUpdates {
    pub(crate) fn new(hub: &Hub) -> Self {
        Self {
            hub: hub.clone(),
            subscriptions: HashMap::new(),
        }
    }

    /// Follows exactly these messages, as far as the hub has room. Returns whether a subscription was added: a change
    /// before it notified nobody, so the caller has to read the rows again.
    pub(crate) fn follow(&mut self, messages: &[MessageId]) -> bool {
        self.retain(messages);
        let mut added = false;
        for message_id in messages {
            if !self.subscriptions.contains_key(message_id)
                && let Some(subscription) = self.hub.watch(message_id)
            {
                self.subscriptions.insert(message_id.clone(), subscription);
                added = true;
            }
        }
        added
    }

    /// Takes over subscriptions that were made elsewhere.
    pub(crate) fn extend(&mut self, new: Vec<(MessageId, LiveSubscription)>) {
        self.subscriptions.extend(new);
    }

    /// Drops the subscriptions to all other messages.
    pub(crate) fn retain(&mut self, messages: &[MessageId]) {
        self.subscriptions
            .retain(|message_id, _| messages.contains(message_id));
    }

    /// The next update of any message; pending forever without subscriptions.
    pub(crate) async fn next(&mut self) -> (MessageId, LiveUpdate) {
        if self.subscriptions.is_empty() {
            return std::future::pending().await;
        }
        let all = self.subscriptions.iter_mut().map(|(message_id, updates)| {
            let message_id = message_id.clone();
            async move { (message_id, updates.next().await) }.boxed()
        });
        select_all(all).await.0
    }

    /// Resolves at the next change of rows; skips live output.
    pub(crate) async fn changed(&mut self) {
        while self.next().await.1 != LiveUpdate::Changed {}
    }
}

impl Drop for LiveSubscription {
    fn drop(&mut self) {
        self.updates = None;
        let mut watched = lock(&self.hub.watched);
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
            hub.publish(&message_id, LiveUpdate::Diff(format!("{n}").into()));
        }
        assert_eq!(watcher.next().await, LiveUpdate::Changed);
        drop(watcher);
        assert!(hub.watched.lock().unwrap().is_empty());
    }
}
