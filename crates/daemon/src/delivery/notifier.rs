//! Delivers the events of tasks to their subscribers, at least once and in order: push notifications of A2A, the
//! notifications of ended tasks, and alerts (`alerts`).
//!
//! It lives on rows alone: a wake-up only says where to look, the intent is on disk before the send, and a failed
//! delivery is tried again later.

mod slots;

pub(crate) use slots::Slots;
pub(super) use slots::{Key, Slot, SlotKind};

use crate::Daemon;
use crate::process::ids::{jitter, now};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Agent, Ledger, LedgerError, Read, RowsError, Sink, readable};
use bridge_core::step::{
    DropPush, EventDelivery, NotifyBegin, NotifyEnd, NotifyStep, PushStored, PutPush,
    delivery_is_due,
};
use bridge_core::task_events::Timeline;
use bridge_core::value::{
    Class, Failure, Subscription, SubscriptionState, SubscriptionTarget, TaskId, Timestamp,
};
use bridge_front::{Notified, PushPut};
use slots::Look;
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two walks over all subscriptions: a wake-up may be lost, rows are not.
const WALK_MS: i64 = 60_000;
/// Shortest time between two walks.
const WALK_PAUSE_MS: i64 = 1_000;
/// Pause after the ledger failed under the loop.
const FAULT_PAUSE_MS: i64 = 1_000;
/// How long a person who asked for a notification waits for its end. It goes on without them.
const ASKED_WAIT: Duration = Duration::from_secs(15);

/// A subscription by its task and id.
type SubscriptionKey = (TaskId, String);

/// What the rows say about a subscription.
enum Found {
    /// There is an event to deliver, or the subscription to close.
    Due { of: SubscriptionKey, kind: SlotKind },
    /// Not before this.
    Later(Timestamp),
}

/// How the end of a send was recorded.
enum Ended {
    /// It is on disk.
    Written(SubscriptionState),
    /// The subscription was dropped or replaced meanwhile.
    Replaced,
    /// The ledger did not take it.
    Unwritten,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Stores a push configuration.
    pub(crate) async fn put_push(
        self: &Arc<Self>,
        subscription: Subscription,
        by: &str,
    ) -> Result<PushPut, LedgerError> {
        if let Err(why) = self.settings().push_client.check(&subscription) {
            return Ok(PushPut::Refused { why });
        }
        let by = by.to_owned();
        let task_id = subscription.task_id.clone();
        Ok(match self.commit(PutPush { subscription, by }).await? {
            PushStored::Stored => {
                self.slots.look(&task_id);
                PushPut::Put
            }
            PushStored::Unknown => PushPut::Unknown,
            PushStored::Full { max, of } => PushPut::Refused {
                why: format!(
                    "there are {max} push notification configurations for {of} already, and no more are kept: delete one"
                ),
            },
        })
    }

    /// Drops a push configuration.
    pub(crate) async fn drop_push(
        self: &Arc<Self>,
        task_id: &TaskId,
        config_id: &str,
        by: &str,
    ) -> Result<bool, LedgerError> {
        self.commit(DropPush {
            task_id: task_id.clone(),
            subscription_id: config_id.to_owned(),
            by: by.to_owned(),
        })
        .await
    }

    /// The loop.
    pub(crate) async fn deliver_events(self: Arc<Self>) {
        let (mut walk_at, mut soonest) = (now(), now());
        while !self.stopping.is_cancelled() {
            let due = self.slots.due();
            let all = walk_at <= now() || due.is_some_and(|due| due.max(soonest) <= now());
            if all {
                walk_at = now().plus_ms(WALK_MS);
            }
            if let Err(error) = self.deliver_due(self.slots.next(all)).await {
                tracing::error!(%error, "notifications can't use the database");
                walk_at = now().plus_ms(FAULT_PAUSE_MS);
            }
            if all {
                soonest = now().plus_ms(WALK_PAUSE_MS);
            }
            let due = self.slots.due();
            let next = due.map_or(walk_at, |due| due.max(soonest).min(walk_at));
            let ms = u64::try_from(next.since_ms(now())).unwrap_or(0).max(1);
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.slots.woken() => {}
                () = tokio::time::sleep(Duration::from_millis(ms)) => {}
            }
        }
    }

    /// Begins the deliveries that may begin now; those that wait for a slot go first.
    async fn deliver_due(self: &Arc<Self>, look: Look) -> Result<(), LedgerError> {
        loop {
            let next = self.slots.next_waiting(now().plus_ms(WALK_PAUSE_MS));
            if next.is_empty() {
                break;
            }
            let read = self.ledger.read(move |rows| {
                let mut subscriptions = Vec::new();
                let mut receivers = Vec::new();
                for key in next {
                    match key {
                        Key::Task(task_id, id) => {
                            subscriptions.extend(rows.subscription(&task_id, &id)?);
                        }
                        Key::Receiver(receiver_id) => receivers.push(receiver_id),
                    }
                }
                Ok((found(rows, subscriptions)?, receivers))
            });
            let (found, receivers) = read.await?;
            self.consider(found);
            for receiver_id in receivers {
                self.alert(receiver_id);
            }
        }
        match look {
            Look::At {
                messages,
                tasks,
                receivers,
            } if messages.is_empty() && tasks.is_empty() && receivers.is_empty() => {}
            Look::At {
                messages,
                mut tasks,
                receivers,
            } => {
                for receiver_id in receivers {
                    self.alert(receiver_id);
                }
                self.notice_messages(messages.clone()).await?;
                let read = self.ledger.read(move |rows| {
                    for message_id in &messages {
                        tasks.extend(rows.task_of_message(message_id)?);
                    }
                    let mut subscriptions = Vec::new();
                    for task_id in &tasks {
                        subscriptions.extend(rows.subscriptions_of(task_id)?);
                    }
                    found(rows, subscriptions)
                });
                self.consider(read.await?);
            }
            Look::All => {
                self.walk().await?;
                self.walk_alerts().await?;
            }
        }
        Ok(())
    }

    async fn walk(self: &Arc<Self>) -> Result<(), LedgerError> {
        let mut after = None;
        loop {
            let from = after.take();
            let page = self.ledger.read(move |rows| {
                let from = from.as_ref();
                let from = from.map(|(task_id, id): &SubscriptionKey| (task_id, id.as_str()));
                let open = rows.subscriptions_open(from, PAGE_MAX)?;
                let last = open.last();
                let last = last.map(|it| (it.task_id.clone(), it.subscription_id.clone()));
                Ok((found(rows, open)?, last))
            });
            let (page, last) = page.await?;
            if last.is_none() {
                return Ok(());
            }
            after = last;
            self.slots.some();
            self.consider(page);
        }
    }

    fn consider(self: &Arc<Self>, found: Vec<Found>) {
        for one in found {
            let (of, kind) = match one {
                Found::Due { of, kind } => (of, kind),
                Found::Later(at) => {
                    self.slots.due_at(at);
                    continue;
                }
            };
            let key = Key::Task(of.0.clone(), of.1.clone());
            let Some(slot) = self.slots.take(key, kind) else {
                continue;
            };
            let daemon = Arc::clone(self);
            self.spawn_for(of.0.clone(), async move {
                if let Err(error) = daemon.deliver_all(&slot, &of).await {
                    let task_id = &of.0;
                    tracing::error!(%error, %task_id, "a notification met a fault of the database");
                }
            });
        }
    }

    /// Delivers every event that there is, one after the other.
    async fn deliver_all(
        self: &Arc<Self>,
        slot: &Slot,
        of: &SubscriptionKey,
    ) -> Result<(), LedgerError> {
        while !self.stopping.is_cancelled() {
            let delivery = match self.begin_delivery(of, None).await? {
                NotifyStep::Send(delivery) => delivery,
                NotifyStep::Nothing if slot.asked_again() => continue,
                NotifyStep::Nothing => return Ok(()),
                NotifyStep::Later(at) => {
                    self.slots.due_at(at);
                    return Ok(());
                }
            };
            match self.deliver_once(&delivery).await {
                Ended::Written(SubscriptionState::Waiting { not_before: None })
                | Ended::Replaced => {}
                Ended::Written(state) => {
                    self.try_again(state);
                    return Ok(());
                }
                // It would be sent again at once, and again: the next walk comes back to it.
                Ended::Unwritten => {
                    slot.asked_again();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends the notification of a task's end because somebody asked for it. The caller may go away, or stop waiting: a
    /// send that was begun must come to its end, or it would be taken for one that died.
    pub(crate) async fn notify_now(
        self: &Arc<Self>,
        task_id: &TaskId,
        by: &str,
    ) -> Result<Notified, LedgerError> {
        let of = (task_id.clone(), Subscription::END.to_owned());
        let key = Key::Task(of.0.clone(), of.1.clone());
        let Some(slot) = self.slots.take(key, SlotKind::Notifications) else {
            return Ok(Notified::Busy);
        };
        let (daemon, by) = (Arc::clone(self), by.to_owned());
        let sending = self.tasks.spawn(async move {
            let delivery = match daemon.begin_delivery(&of, Some(by)).await? {
                NotifyStep::Send(delivery) => delivery,
                NotifyStep::Later(_) | NotifyStep::Nothing => return Ok(Notified::Nothing),
            };
            let ended = daemon.deliver_once(&delivery).await;
            drop(slot);
            Ok(match ended {
                Ended::Written(state) => {
                    daemon.try_again(state);
                    Notified::Ended(state)
                }
                Ended::Replaced | Ended::Unwritten => Notified::Busy,
            })
        });
        match tokio::time::timeout(ASKED_WAIT, sending).await {
            Ok(Ok(notified)) => notified,
            Ok(Err(_)) | Err(_) => Ok(Notified::Busy),
        }
    }

    async fn begin_delivery(
        self: &Arc<Self>,
        of: &SubscriptionKey,
        asked: Option<String>,
    ) -> Result<NotifyStep, LedgerError> {
        let (task_id, subscription_id) = of.clone();
        self.commit(NotifyBegin {
            task_id,
            subscription_id,
            asked,
        })
        .await
    }

    fn try_again(&self, state: SubscriptionState) {
        if let SubscriptionState::Waiting { not_before } = state {
            self.slots.due_at(not_before.unwrap_or_else(now));
        }
    }

    async fn deliver_once(self: &Arc<Self>, delivery: &EventDelivery) -> Ended {
        let failure = self.send_event(delivery).await.err();
        let said = failure.clone();
        let Subscription {
            task_id,
            subscription_id,
            tries,
            ..
        } = &delivery.subscription;
        // Must not be lost: what was taken would be sent again.
        let ended = self.insist(NotifyEnd {
            task_id: task_id.clone(),
            subscription_id: subscription_id.clone(),
            mark: delivery.task_event.mark.clone(),
            failure,
            jitter: jitter(),
        });
        let ended = match ended.await {
            Some(Some(state)) => Ended::Written(state),
            Some(None) => Ended::Replaced,
            None => Ended::Unwritten,
        };
        if let Some(failure) = said {
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            let class = failure.class.as_str();
            let dead = matches!(ended, Ended::Written(SubscriptionState::Dead { .. }));
            match (delivery.subscription.push(), dead) {
                (Some(_), true) => {
                    tracing::error!(%task_id, reason, class, tries, "push notifications are given up");
                }
                (Some(_), false) => {
                    tracing::warn!(%task_id, reason, class, tries, "a push notification was not taken");
                }
                (None, _) => {
                    tracing::warn!(%task_id, reason, class, tries, "a notification was not taken");
                }
            }
        }
        ended
    }

    async fn send_event(&self, delivery: &EventDelivery) -> Result<(), Failure> {
        match &delivery.subscription.target {
            SubscriptionTarget::Push(push) if push.unreadable => Err(unreadable()),
            SubscriptionTarget::Push(_) => {
                let push_client = Arc::clone(&self.settings().push_client);
                push_client.deliver(delivery).await
            }
            SubscriptionTarget::Notify(target) => self.notify_end(target, delivery).await,
            SubscriptionTarget::Nobody => Ok(()),
        }
    }
}

/// Nothing is sent without the credentials that belong to it.
fn unreadable() -> Failure {
    Failure {
        class: Class::Permanent,
        reason: "its address and credentials can't be decrypted: the database was opened with another key than they were stored with, or somebody changed them".to_owned(),
    }
}

/// Those that are to be considered. Most have nothing to deliver, which is found out without a write.
fn found(rows: &dyn Read, subscriptions: Vec<Subscription>) -> Result<Vec<Found>, RowsError> {
    let now = now();
    let mut found = Vec::new();
    let mut last: Option<Timeline> = None;
    for one in subscriptions {
        match one.state {
            SubscriptionState::Dead { .. } => continue,
            SubscriptionState::Waiting {
                not_before: Some(at),
            } if at > now => {
                found.push(Found::Later(at));
                continue;
            }
            SubscriptionState::Waiting { .. }
            | SubscriptionState::Sending
            | SubscriptionState::Closed { .. } => {}
        }
        let same = |known: &Timeline| known.view.task.task_id == one.task_id;
        if !last.as_ref().is_some_and(same) {
            last = readable(Timeline::load(rows, &one.task_id))?.flatten();
        }
        if let Some(timeline) = &last
            && delivery_is_due(&one, timeline)
        {
            found.push(Found::Due {
                kind: SlotKind::of(&one, &timeline.view.task.owner),
                of: (one.task_id, one.subscription_id),
            });
        }
    }
    Ok(found)
}
