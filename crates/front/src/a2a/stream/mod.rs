//! Event streams of A2A tasks.
//!
//! Each task with subscribers has one [`TaskPublisher`], whose numbered events all of them read. Rows are the truth: a
//! subscriber that missed events starts again with a snapshot.

mod draft;
mod publisher;
mod replay;
mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use publisher::StartAt;
pub(crate) use replay::SequencedEvent;

use super::error::A2aError;
use crate::live::{MessageUpdates, polls};
use crate::{BridgeService, lock};
use bridge_core::value::TaskId;
use publisher::{SubscriberStart, TaskPublisher};
use replay::BufferRead;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Tasks that are streamed at the same time.
const PUBLISHERS_MAX: usize = 512;
/// Attempts to subscribe when the publisher retires in between.
const SUBSCRIBE_ATTEMPTS: usize = 3;
/// Subscribers of one task.
const SUBSCRIBERS_MAX: usize = 64;
/// Interval at which rows are read without a notification: a new message of a task notifies no subscription.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long a publisher without subscribers is kept, for a client that reconnects.
const LINGER: Duration = Duration::from_secs(30);

type Registry = HashMap<TaskId, Arc<TaskPublisher>>;

/// The publishers of all tasks that have subscribers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publishers {
    registry: Arc<Mutex<Registry>>,
    stop: CancellationToken,
}

/// One subscription to the events of a task.
#[derive(Debug)]
pub(crate) struct Subscriber {
    publisher: Arc<TaskPublisher>,
    published: watch::Receiver<u64>,
    /// The snapshot, where the stream starts with one.
    first: Option<SequencedEvent>,
    /// Sequence number of the last event returned.
    position: u64,
}

impl Publishers {
    /// Publishers that end when `stop` is cancelled.
    pub(crate) fn until(stop: CancellationToken) -> Self {
        let registry = Arc::default();
        Self { registry, stop }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// Subscribes to a task. The caller has checked that the client may see it. `base_url` is the address under which
    /// the client reached this server.
    pub(crate) async fn subscribe<D: BridgeService>(
        &self,
        service: &D,
        task_id: &TaskId,
        base_url: &str,
        start: StartAt,
    ) -> Result<Subscriber, A2aError> {
        for _ in 0..SUBSCRIBE_ATTEMPTS {
            let (publisher, published) = self.publisher(service, task_id, base_url)?;
            // Spawned: if the client disconnects in the middle of a refresh, the other subscribers still need it.
            let (refreshing, service) = (Arc::clone(&publisher), service.clone());
            let started =
                tokio::spawn(async move { refreshing.start(&service, start).await }).await;
            let started =
                started.map_err(|_| A2aError::internal("a look at the task broke off"))?;
            let (first, position) = match started? {
                SubscriberStart::Snapshot(event) => {
                    let sequence = event.sequence;
                    (Some(event), sequence)
                }
                SubscriberStart::After(sequence) => (None, sequence),
                SubscriberStart::Retired => continue,
            };
            return Ok(Subscriber {
                publisher,
                published,
                first,
                position,
            });
        }
        Err(A2aError::unavailable(
            "the task ended and began again meanwhile; ask again later",
        ))
    }

    /// Whether all events after `sequence` are still buffered, also for a task that has ended.
    pub(crate) fn can_resume(&self, task_id: &TaskId, sequence: u64) -> bool {
        let publisher = self.lock().get(task_id).cloned();
        publisher.is_some_and(|publisher| publisher.replay().reaches(sequence))
    }

    /// Returns the task's publisher; starts one if there is none.
    fn publisher<D: BridgeService>(
        &self,
        service: &D,
        task_id: &TaskId,
        base_url: &str,
    ) -> Result<(Arc<TaskPublisher>, watch::Receiver<u64>), A2aError> {
        let mut registry = self.lock();
        if let Some(publisher) = registry.get(task_id)
            && !publisher.replay().is_invalid()
        {
            return if publisher.subscribers() < SUBSCRIBERS_MAX {
                Ok((Arc::clone(publisher), publisher.subscribe()))
            } else {
                Err(A2aError::full(
                    "too many streams of this task are open; close one, or ask again later",
                ))
            };
        }
        if !make_room(&mut registry, task_id, PUBLISHERS_MAX) {
            return Err(A2aError::full(
                "too many tasks are streamed already; ask for the task instead, or again later",
            ));
        }
        let publisher = Arc::new(TaskPublisher::new(task_id.clone(), base_url.to_owned()));
        let published = publisher.subscribe();
        registry.insert(task_id.clone(), Arc::clone(&publisher));
        tokio::spawn(self.clone().run(service.clone(), Arc::clone(&publisher)));
        Ok((publisher, published))
    }

    /// Publishes until the task has had no subscribers for [`LINGER`].
    async fn run<D: BridgeService>(self, service: D, publisher: Arc<TaskPublisher>) {
        let _retire = RetireOnDrop(self.clone(), Arc::clone(&publisher));
        let mut live = MessageUpdates::new(service.hub());
        // The first subscriber refreshes as well and gets the error of a failed refresh.
        let _reported_to_subscriber = publisher.refresh(&service).await;
        let mut polls = polls(POLL_EVERY);
        loop {
            if publisher.replay().is_invalid() {
                break;
            }
            if publisher.subscribers() > 0 {
                publisher.mark_active();
            } else if publisher.last_active().elapsed() >= LINGER && self.retire_idle(&publisher) {
                return;
            }
            live.extend(publisher.take_new_subscriptions());
            live.retain(&publisher.watched_messages().await);
            let closed = publisher.replay().is_closed();
            let refreshed = tokio::select! {
                () = self.stop.cancelled() => break,
                () = publisher.subscriber_arrived() => Ok(()),
                _ = polls.tick() => if closed { Ok(()) } else { publisher.refresh(&service).await },
                (message_id, update) = live.next(), if !closed => {
                    publisher.apply_live(&service, &message_id, update).await
                }
            };
            if refreshed.is_err() {
                // Subscribers reconnect, and then get the error or a new publisher.
                break;
            }
        }
    }

    /// Removes a publisher without subscribers; `false` if one has just arrived.
    fn retire_idle(&self, publisher: &Arc<TaskPublisher>) -> bool {
        // Under the registry's lock, because subscribers are added under it.
        let mut registry = self.lock();
        let idle = publisher.subscribers() == 0;
        if idle {
            remove(&mut registry, publisher);
        }
        idle
    }
}

/// Closes a publisher when its task ends, also by a panic. Otherwise its subscribers would wait forever, and new ones
/// would join it.
struct RetireOnDrop(Publishers, Arc<TaskPublisher>);

impl Drop for RetireOnDrop {
    fn drop(&mut self) {
        self.1.close();
        remove(&mut self.0.lock(), &self.1);
    }
}

impl Subscriber {
    /// Returns the next event. `None` means that the stream ended or that this subscriber fell behind; the client then
    /// subscribes again.
    pub(crate) async fn next(&mut self) -> Option<SequencedEvent> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            // Before the read: an event published after it wakes `changed` below.
            self.published.borrow_and_update();
            let entry = self.publisher.replay().after(self.position);
            match entry {
                BufferRead::Next(event) => {
                    self.position = event.sequence;
                    return Some(event);
                }
                BufferRead::End | BufferRead::Lost => return None,
                BufferRead::Pending => self.published.changed().await.ok()?,
            }
        }
    }
}

/// Whether one more publisher fits. If all places are taken, evicts the one that has been without subscribers for
/// longest.
fn make_room(registry: &mut Registry, task_id: &TaskId, most: usize) -> bool {
    if registry.len() < most || registry.contains_key(task_id) {
        return true;
    }
    let idle = registry
        .values()
        .filter(|publisher| publisher.subscribers() == 0);
    let Some(idle) = idle
        .min_by_key(|publisher| publisher.last_active())
        .cloned()
    else {
        return false;
    };
    idle.invalidate();
    remove(registry, &idle);
    true
}

/// Removes this publisher, but not a newer one of the same task.
fn remove(registry: &mut Registry, publisher: &Arc<TaskPublisher>) {
    let id = publisher.task_id();
    if registry
        .get(id)
        .is_some_and(|known| Arc::ptr_eq(known, publisher))
    {
        registry.remove(id);
    }
}
