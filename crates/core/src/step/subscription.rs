//! Subscriptions: create and drop them, and deliver events through them. The intent to send is on disk before the send,
//! the mark of the last delivered event only moves forward, and a receiver that is away for too long is given up.

use super::{RunError, Transition, Tx};
use crate::limits;
use crate::port::{Change, RowsError};
use crate::retry::backoff_ms;
use crate::task_events::{FROM_NOW, TaskEvent, Timeline, behind};
use crate::value::{
    Class, EventKind, Failure, Subscription, SubscriptionState, SubscriptionTarget, TaskId,
    Timestamp,
};

/// Stores a push configuration of an agent's task.
#[derive(Clone, Debug)]
pub struct PutPush {
    /// The configuration. Without a mark every event is delivered, with [`FROM_NOW`] those from now on; one that
    /// replaces another continues where that one was.
    pub subscription: Subscription,
    /// Who asks.
    pub by: String,
}

/// Result of [`PutPush`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushStored {
    /// It is on disk.
    Stored,
    /// This owner has no such task; nothing was stored.
    Unknown,
    /// There are too many; nothing was stored.
    Full {
        /// The bound.
        max: u32,
        /// What it bounds.
        of: &'static str,
    },
}

impl Transition for PutPush {
    type Outcome = PushStored;
    const NAME: &'static str = "put_push";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<PushStored, RunError> {
        let id = &self.subscription.task_id;
        let timeline = Timeline::load(&**tx, id)?;
        let Some(timeline) = timeline.filter(|it| it.view.task.is_agents(&self.by)) else {
            return Ok(PushStored::Unknown);
        };
        let full = |max, of| Ok(PushStored::Full { max, of });
        let replaced = tx.subscription(id, &self.subscription.subscription_id)?;
        let there = tx.subscriptions_of(id)?.len();
        if replaced.is_none() && there >= limits::PUSHES_PER_TASK_MAX as usize {
            return full(limits::PUSHES_PER_TASK_MAX, "one task");
        }
        let opened = !replaced.as_ref().is_some_and(|it| it.state.is_open());
        if opened && tx.pushes_held(&self.by)? >= u64::from(limits::PUSHES_PER_OWNER_MAX) {
            return full(
                limits::PUSHES_PER_OWNER_MAX,
                "unfinished tasks of one agent",
            );
        }
        let mark = match (replaced, self.subscription.mark.as_deref()) {
            (Some(before), _) => before.mark,
            (None, Some(FROM_NOW)) => timeline.task_events().pop().map(|last| last.mark),
            (None, _) => self.subscription.mark,
        };
        tx.change(Change::PutSubscription(Subscription {
            state: SubscriptionState::Waiting { not_before: None },
            mark,
            tries: 0,
            first_try_at: None,
            error: None,
            ..self.subscription
        }))?;
        Ok(PushStored::Stored)
    }
}

/// Drops a push configuration.
#[derive(Clone, Debug)]
pub struct DropPush {
    pub task_id: TaskId,
    pub subscription_id: String,
    /// Who asks.
    pub by: String,
}

impl Transition for DropPush {
    /// Whether `by` has such a task; dropping an absent configuration is fine.
    type Outcome = bool;
    const NAME: &'static str = "drop_push";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<bool, RunError> {
        let task = tx.task(&self.task_id)?;
        let own = task.is_some_and(|task| task.is_agents(&self.by));
        let there = tx.subscription(&self.task_id, &self.subscription_id)?;
        if own && there.is_some() {
            tx.change(Change::DropSubscription {
                task_id: self.task_id,
                subscription_id: self.subscription_id,
            })?;
        }
        Ok(own)
    }
}

/// Begins to deliver the next event of a subscription.
#[derive(Clone, Debug)]
pub struct NotifyBegin {
    pub task_id: TaskId,
    pub subscription_id: String,
    /// Who asked for it by hand: one that was given up is tried again then, and a pause is not kept.
    pub asked: Option<String>,
}

/// Result of [`NotifyBegin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyStep {
    /// Send it now.
    Send(Box<EventDelivery>),
    /// Not before this.
    Later(Timestamp),
    /// There is nothing to send.
    Nothing,
}

/// One event on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDelivery {
    /// Where to, with the try counted.
    pub subscription: Subscription,
    /// An earlier send of the event may have arrived.
    pub again: bool,
    pub task_event: TaskEvent,
    pub timeline: Timeline,
}

impl Transition for NotifyBegin {
    type Outcome = NotifyStep;
    const NAME: &'static str = "notify_begin";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<NotifyStep, RunError> {
        let Some(timeline) = Timeline::load(&**tx, &self.task_id)? else {
            return Ok(NotifyStep::Nothing);
        };
        let Some(subscription) = tx.subscription(&self.task_id, &self.subscription_id)? else {
            // A person is shown a finished task without a target once.
            if self.asked.is_some() && timeline.view.settled() {
                let shown = Subscription::of_end(self.task_id, None, now);
                tx.change(Change::PutSubscription(shown))?;
            }
            return Ok(NotifyStep::Nothing);
        };
        let asked = self.asked.is_some();
        if subscription.is_local() && !asked {
            return Ok(NotifyStep::Nothing);
        }
        if !tx.come_home(&timeline.view.task.conversation_id, now)? {
            return Ok(NotifyStep::Nothing);
        }
        let next = next_event(&subscription, &timeline);
        let again = subscription.state == SubscriptionState::Sending;
        let (task_event, first_try_at) = match (subscription.state, next) {
            (SubscriptionState::Dead { .. }, Some(next)) if asked => (next, now),
            (SubscriptionState::Dead { .. }, _) | (SubscriptionState::Closed { .. }, None) => {
                return Ok(NotifyStep::Nothing);
            }
            (SubscriptionState::Waiting { .. } | SubscriptionState::Sending, None) => {
                rest(tx, subscription, &timeline, now)?;
                return Ok(NotifyStep::Nothing);
            }
            (
                SubscriptionState::Waiting {
                    not_before: Some(at),
                },
                Some(_),
            ) if at > now && !asked => return Ok(NotifyStep::Later(at)),
            (
                SubscriptionState::Waiting { .. }
                | SubscriptionState::Sending
                | SubscriptionState::Closed { .. },
                Some(next),
            ) => (next, subscription.first_try_at.unwrap_or(now)),
        };
        let subscription = Subscription {
            state: SubscriptionState::Sending,
            tries: subscription.tries.saturating_add(1),
            first_try_at: Some(first_try_at),
            ..subscription
        };
        tx.change(Change::PutSubscription(subscription.clone()))?;
        let mut inputs = timeline.view.inputs.iter();
        let first = inputs.find_map(|input| input.message_id());
        if let (Some(by), Some(first)) = (self.asked, first) {
            let detail = format!("of task {}", self.task_id);
            tx.audit(by, "notify", first, detail, now)?;
        }
        Ok(NotifyStep::Send(Box::new(EventDelivery {
            subscription,
            again,
            task_event,
            timeline,
        })))
    }
}

/// Whether [`NotifyBegin`] would send something, or close it. Asked before a sending slot is taken, and before
/// anything is written.
#[must_use]
pub fn delivery_is_due(subscription: &Subscription, timeline: &Timeline) -> bool {
    let more = || next_event(subscription, timeline).is_some();
    if subscription.is_local() {
        // Whoever asks for it is notified; a send of it that was cut notified nobody.
        return false;
    }
    match subscription.state {
        SubscriptionState::Waiting { .. } => is_over(subscription, timeline) || more(),
        SubscriptionState::Sending => true,
        SubscriptionState::Closed { .. } => more(),
        SubscriptionState::Dead { .. } => false,
    }
}

/// The event behind the last delivered one.
fn next_event(subscription: &Subscription, timeline: &Timeline) -> Option<TaskEvent> {
    let mark = subscription.mark.as_deref();
    match &subscription.target {
        SubscriptionTarget::Push(_) => behind(&timeline.task_events(), mark).cloned(),
        // The end is delivered once: a task that goes on later ends unnoticed.
        SubscriptionTarget::Notify(_) => timeline.end().filter(|end| mark != Some(&end.mark)),
        SubscriptionTarget::Nobody => None,
    }
}

/// Whether no event comes behind the delivered ones.
fn is_over(subscription: &Subscription, timeline: &Timeline) -> bool {
    match &subscription.target {
        SubscriptionTarget::Push(_) => timeline.over(),
        SubscriptionTarget::Notify(_) => subscription.mark.is_some(),
        SubscriptionTarget::Nobody => true,
    }
}

/// Everything was delivered.
fn rest(
    tx: &mut Tx<'_>,
    subscription: Subscription,
    timeline: &Timeline,
    now: Timestamp,
) -> Result<(), RowsError> {
    let state = quiet(&subscription, timeline, now);
    // A notification waits for the end of its task; its pause and tries stay.
    if subscription.push().is_none() || subscription.state == state {
        return Ok(());
    }
    tx.change(Change::PutSubscription(Subscription {
        state,
        tries: 0,
        first_try_at: None,
        ..subscription
    }))
}

fn quiet(subscription: &Subscription, timeline: &Timeline, now: Timestamp) -> SubscriptionState {
    if is_over(subscription, timeline) {
        SubscriptionState::Closed { at: now }
    } else {
        SubscriptionState::Waiting { not_before: None }
    }
}

/// Records the result of a send.
#[derive(Clone, Debug)]
pub struct NotifyEnd {
    pub task_id: TaskId,
    pub subscription_id: String,
    /// The event that was sent.
    pub mark: String,
    /// Why it was not taken.
    pub failure: Option<Failure>,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Transition for NotifyEnd {
    /// The new state; `None` when the subscription was replaced or dropped meanwhile.
    type Outcome = Option<SubscriptionState>;
    const NAME: &'static str = "notify_end";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Self::Outcome, RunError> {
        let before = tx.subscription(&self.task_id, &self.subscription_id)?;
        let before = before.filter(|it| it.state == SubscriptionState::Sending);
        let timeline = Timeline::load(&**tx, &self.task_id)?;
        let (Some(before), Some(timeline)) = (before, timeline) else {
            return Ok(None);
        };
        let after = match self.failure {
            None => delivered(before, self.mark, &timeline, now),
            Some(failure) => {
                let after = failed(before, &failure, self.jitter, now);
                let dead = matches!(after.state, SubscriptionState::Dead { .. });
                if dead
                    && after.push().is_some()
                    && let Some(last) = timeline.view.messages.last()
                {
                    let text = given_up(&after, &failure);
                    tx.event(&last.message, EventKind::Bridge, &text, now)?;
                    tx.announce(&last.message.message_id);
                }
                after
            }
        };
        let state = after.state;
        tx.change(Change::PutSubscription(after))?;
        Ok(Some(state))
    }
}

/// The receiver has the event.
fn delivered(
    before: Subscription,
    mark: String,
    timeline: &Timeline,
    now: Timestamp,
) -> Subscription {
    let mut after = Subscription {
        mark: Some(mark),
        error: None,
        ..before
    };
    // Nothing follows a notification, so the tries of its one event stay on record.
    if after.push().is_some() {
        (after.tries, after.first_try_at) = (0, None);
    }
    after.state = if next_event(&after, timeline).is_some() {
        SubscriptionState::Waiting { not_before: None }
    } else {
        quiet(&after, timeline, now)
    };
    after
}

/// It did not arrive: it is tried again, or given up.
fn failed(before: Subscription, failure: &Failure, jitter: u16, now: Timestamp) -> Subscription {
    let state = match next_try(failure, (before.tries, before.first_try_at), jitter, now) {
        Some(at) => SubscriptionState::Waiting {
            not_before: Some(at),
        },
        None => SubscriptionState::Dead { at: now },
    };
    let error = match before.target {
        SubscriptionTarget::Push(_) => limits::clip(&failure.reason, limits::REASON_MAX_CHARS),
        SubscriptionTarget::Notify(_) | SubscriptionTarget::Nobody => failure.reason.clone(),
    };
    Subscription {
        state,
        error: Some(error),
        ..before
    }
}

/// When a failed delivery is tried again, as replies are; `None` when it is given up.
pub(super) fn next_try(
    failure: &Failure,
    (tries, first_try_at): (u32, Option<Timestamp>),
    jitter: u16,
    now: Timestamp,
) -> Option<Timestamp> {
    let first_try_at = first_try_at.unwrap_or(now);
    let old = now.since_ms(first_try_at) > limits::REPLY_AGE_MAX_MS;
    let soonest = now.plus_ms(backoff_ms(
        tries.saturating_sub(1),
        limits::REPLY_BACKOFF_BASE_MS,
        limits::NOTIFY_BACKOFF_MAX_MS,
        jitter,
    ));
    match failure.class {
        Class::Permanent | Class::Bug => None,
        Class::Transient | Class::Capacity { .. } | Class::Config | Class::Ambiguous if old => None,
        Class::Capacity { until: Some(until) } => {
            let latest = now.plus_ms(limits::REPLY_AGE_MAX_MS).max(soonest);
            Some(until.clamp(soonest, latest))
        }
        Class::Transient | Class::Capacity { until: None } | Class::Config | Class::Ambiguous => {
            Some(soonest)
        }
    }
}

/// For people. The address may hold a secret, so it is left out.
fn given_up(subscription: &Subscription, failure: &Failure) -> String {
    let (id, why) = (&subscription.subscription_id, &failure.reason);
    let tries = match subscription.tries {
        1 => "1 try".to_owned(),
        tries => format!("{tries} tries"),
    };
    format!(
        "push notifications through {id:?} are given up after {tries}: {why}; the task itself can be read as before, and setting the configuration again begins anew"
    )
}
