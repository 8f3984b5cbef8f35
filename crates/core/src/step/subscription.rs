//! Subscriptions: create and drop them, and deliver events through them. The intent to send is on disk before the send,
//! the mark of the last delivered event only moves forward, and a receiver that is away for too long is given up.

use super::note::event;
use super::{Action, Decision, Refused, Staged};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::retry::backoff_ms;
use crate::task_events::{FROM_NOW, TaskEvent, Timeline, behind};
use crate::value::{
    AuditEntry, Class, EventKind, Failure, Subscription, SubscriptionState, SubscriptionTarget,
    TaskId, Timestamp,
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

/// The rows that decide.
#[derive(Debug)]
pub struct PutView {
    timeline: Option<Timeline>,
    there: usize,
    replaced: Option<Subscription>,
    held: u64,
}

impl Staged for PutPush {
    type View = PutView;
    type Outcome = PushStored;
    const NAME: &'static str = "put_push";

    fn load(&self, rows: &dyn Read) -> Result<PutView, RowsError> {
        let id = &self.subscription.task_id;
        Ok(PutView {
            timeline: Timeline::load(rows, id)?,
            there: rows.subscriptions_of(id)?.len(),
            replaced: rows.subscription(id, &self.subscription.subscription_id)?,
            held: rows.pushes_held(&self.by)?,
        })
    }

    fn decide(self, view: PutView, _now: Timestamp) -> Result<Decision<PushStored>, Refused> {
        let timeline = view
            .timeline
            .filter(|timeline| timeline.view.task.is_agents(&self.by));
        let Some(timeline) = timeline else {
            return Ok(Decision::nothing(PushStored::Unknown));
        };
        let full = |max, of| Ok(Decision::nothing(PushStored::Full { max, of }));
        let new = view.replaced.is_none();
        let opened = !view.replaced.as_ref().is_some_and(|it| it.state.is_open());
        if new && view.there >= limits::PUSHES_PER_TASK_MAX as usize {
            return full(limits::PUSHES_PER_TASK_MAX, "one task");
        }
        if opened && view.held >= u64::from(limits::PUSHES_PER_OWNER_MAX) {
            return full(
                limits::PUSHES_PER_OWNER_MAX,
                "unfinished tasks of one agent",
            );
        }
        let mark = match (view.replaced, self.subscription.mark.as_deref()) {
            (Some(before), _) => before.mark,
            (None, Some(FROM_NOW)) => timeline
                .task_events()
                .pop()
                .map(|task_event| task_event.mark),
            (None, _) => self.subscription.mark,
        };
        let subscription = Subscription {
            state: SubscriptionState::Waiting { not_before: None },
            mark,
            tries: 0,
            first_try_at: None,
            error: None,
            ..self.subscription
        };
        Ok(Decision {
            changes: vec![Change::PutSubscription(subscription)],
            actions: Vec::new(),
            outcome: PushStored::Stored,
        })
    }
}

/// Drops a push configuration.
#[derive(Clone, Debug)]
pub struct DropPush {
    /// The task.
    pub task_id: TaskId,
    /// The configuration.
    pub subscription_id: String,
    /// Who asks.
    pub by: String,
}

impl Staged for DropPush {
    type View = (bool, bool);
    /// Whether `by` has such a task; dropping an absent configuration is fine.
    type Outcome = bool;
    const NAME: &'static str = "drop_push";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let task = rows.task(&self.task_id)?;
        let own = task.is_some_and(|task| task.is_agents(&self.by));
        let there = rows.subscription(&self.task_id, &self.subscription_id)?;
        Ok((own, there.is_some()))
    }

    fn decide(self, (own, there): (bool, bool), _: Timestamp) -> Result<Decision<bool>, Refused> {
        let gone = (own && there).then_some(Change::DropSubscription {
            task_id: self.task_id,
            subscription_id: self.subscription_id,
        });
        Ok(Decision {
            changes: gone.into_iter().collect(),
            actions: Vec::new(),
            outcome: own,
        })
    }
}

/// Begins to deliver the next event of a subscription.
#[derive(Clone, Debug)]
pub struct DeliveryBegin {
    /// The task.
    pub task_id: TaskId,
    /// The subscription.
    pub subscription_id: String,
    /// Who asked for it by hand: one that was given up is tried again then, and a pause is not kept.
    pub asked: Option<String>,
}

/// Result of [`DeliveryBegin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryStep {
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
    /// The event.
    pub task_event: TaskEvent,
    /// The task.
    pub timeline: Timeline,
}

impl Staged for DeliveryBegin {
    type View = (Option<Subscription>, Option<Timeline>);
    type Outcome = DeliveryStep;
    const NAME: &'static str = "delivery_begin";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        Ok((
            rows.subscription(&self.task_id, &self.subscription_id)?,
            Timeline::load(rows, &self.task_id)?,
        ))
    }

    fn decide(
        self,
        (subscription, timeline): Self::View,
        now: Timestamp,
    ) -> Result<Decision<DeliveryStep>, Refused> {
        let nothing = || Ok(Decision::nothing(DeliveryStep::Nothing));
        let Some(timeline) = timeline else {
            return nothing();
        };
        let Some(subscription) = subscription else {
            // A person is shown a finished task without a target once.
            let shown = self.asked.is_some() && timeline.view.settled();
            let noted = shown.then(|| Subscription::of_end(self.task_id, None, now));
            return Ok(Decision {
                changes: noted.map(Change::PutSubscription).into_iter().collect(),
                ..Decision::nothing(DeliveryStep::Nothing)
            });
        };
        let asked = self.asked.is_some();
        let next = next_event(&subscription, &timeline);
        let again = subscription.state == SubscriptionState::Sending;
        let (task_event, first_try_at) = match (subscription.state, next) {
            (SubscriptionState::Dead { .. }, Some(next)) if asked => (next, now),
            (SubscriptionState::Dead { .. }, _) | (SubscriptionState::Closed { .. }, None) => {
                return nothing();
            }
            (SubscriptionState::Waiting { .. } | SubscriptionState::Sending, None) => {
                return Ok(rests(subscription, &timeline, now));
            }
            (
                SubscriptionState::Waiting {
                    not_before: Some(at),
                },
                Some(_),
            ) if at > now && !asked => return Ok(Decision::nothing(DeliveryStep::Later(at))),
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
        let inputs = timeline.view.inputs.iter();
        let first = inputs.filter_map(|input| input.message_id()).next();
        let audit = self.asked.zip(first).map(|(by, first)| {
            Change::Audit(AuditEntry {
                at: now,
                actor: by,
                what: "notify".to_owned(),
                subject: first.to_string(),
                detail: format!("of task {}", self.task_id),
            })
        });
        let put = Change::PutSubscription(subscription.clone());
        Ok(Decision {
            changes: [Some(put), audit].into_iter().flatten().collect(),
            actions: Vec::new(),
            outcome: DeliveryStep::Send(Box::new(EventDelivery {
                subscription,
                again,
                task_event,
                timeline,
            })),
        })
    }
}

/// Whether [`DeliveryBegin`] would send something, or close it. Asked before a sending slot is taken, and before
/// anything is written.
#[must_use]
pub fn delivery_is_due(subscription: &Subscription, timeline: &Timeline) -> bool {
    let more = || next_event(subscription, timeline).is_some();
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
fn rests(
    subscription: Subscription,
    timeline: &Timeline,
    now: Timestamp,
) -> Decision<DeliveryStep> {
    let state = quiet(&subscription, timeline, now);
    // A notification waits for the end of its task; its pause and tries stay.
    let changed = subscription.push().is_some() && subscription.state != state;
    let change = changed.then_some(Change::PutSubscription(Subscription {
        state,
        tries: 0,
        first_try_at: None,
        ..subscription
    }));
    Decision {
        changes: change.into_iter().collect(),
        ..Decision::nothing(DeliveryStep::Nothing)
    }
}

fn quiet(subscription: &Subscription, timeline: &Timeline, now: Timestamp) -> SubscriptionState {
    if is_over(subscription, timeline) {
        SubscriptionState::Closed { at: now }
    } else {
        SubscriptionState::Waiting { not_before: None }
    }
}

/// Records what became of a send.
#[derive(Clone, Debug)]
pub struct DeliveryEnd {
    /// The task.
    pub task_id: TaskId,
    /// The subscription.
    pub subscription_id: String,
    /// The event that was sent.
    pub mark: String,
    /// Why it was not taken.
    pub failure: Option<Failure>,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

/// The rows that decide.
#[derive(Debug)]
pub struct EndView {
    subscription: Option<Subscription>,
    timeline: Option<Timeline>,
    last_event: u32,
}

impl Staged for DeliveryEnd {
    type View = EndView;
    /// The new state; `None` when the subscription was replaced or dropped meanwhile.
    type Outcome = Option<SubscriptionState>;
    const NAME: &'static str = "delivery_end";

    fn load(&self, rows: &dyn Read) -> Result<EndView, RowsError> {
        let timeline = Timeline::load(rows, &self.task_id)?;
        let last = timeline
            .as_ref()
            .and_then(|timeline| timeline.view.messages.last());
        Ok(EndView {
            last_event: match last {
                Some(last) => rows.last_event(&last.message.message_id)?,
                None => 0,
            },
            subscription: rows.subscription(&self.task_id, &self.subscription_id)?,
            timeline,
        })
    }

    fn decide(
        self,
        view: EndView,
        now: Timestamp,
    ) -> Result<Decision<Option<SubscriptionState>>, Refused> {
        let subscription = view
            .subscription
            .filter(|it| it.state == SubscriptionState::Sending);
        let (Some(before), Some(timeline)) = (subscription, view.timeline) else {
            return Ok(Decision::nothing(None));
        };
        let Some(failure) = self.failure else {
            return Ok(delivered(before, self.mark, &timeline, now));
        };
        let next = next_try(&failure, &before, self.jitter, now);
        let state = match next {
            Some(at) => SubscriptionState::Waiting {
                not_before: Some(at),
            },
            None => SubscriptionState::Dead { at: now },
        };
        let (mut changes, mut actions) = (Vec::new(), Vec::new());
        if next.is_none()
            && before.push().is_some()
            && let Some(last) = timeline.view.messages.last()
        {
            let text = given_up(&before, &failure);
            changes.extend(event(
                &last.message,
                view.last_event,
                EventKind::Bridge,
                &text,
                now,
            ));
            actions.push(Action::Announce {
                message_id: last.message.message_id.clone(),
            });
        }
        let error = match before.target {
            SubscriptionTarget::Push(_) => limits::clip(&failure.reason, limits::REASON_MAX_CHARS),
            SubscriptionTarget::Notify(_) | SubscriptionTarget::Nobody => failure.reason,
        };
        changes.push(Change::PutSubscription(Subscription {
            state,
            error: Some(error),
            ..before
        }));
        Ok(Decision {
            changes,
            actions,
            outcome: Some(state),
        })
    }
}

/// The receiver has the event.
fn delivered(
    before: Subscription,
    mark: String,
    timeline: &Timeline,
    now: Timestamp,
) -> Decision<Option<SubscriptionState>> {
    let tried = (before.tries, before.first_try_at);
    let mut subscription = Subscription {
        mark: Some(mark),
        tries: 0,
        first_try_at: None,
        error: None,
        ..before
    };
    if subscription.push().is_none() {
        // Nothing follows, so the tries of the one event stay on record.
        (subscription.tries, subscription.first_try_at) = tried;
    }
    subscription.state = if next_event(&subscription, timeline).is_some() {
        SubscriptionState::Waiting { not_before: None }
    } else {
        quiet(&subscription, timeline, now)
    };
    let outcome = Some(subscription.state);
    Decision {
        changes: vec![Change::PutSubscription(subscription)],
        actions: Vec::new(),
        outcome,
    }
}

/// When a failed delivery is tried again, as replies are; `None` when it is given up.
fn next_try(
    failure: &Failure,
    subscription: &Subscription,
    jitter: u16,
    now: Timestamp,
) -> Option<Timestamp> {
    let first_try_at = subscription.first_try_at.unwrap_or(now);
    let old = now.since_ms(first_try_at) > limits::REPLY_AGE_MAX_MS;
    let soonest = now.plus_ms(backoff_ms(
        subscription.tries.saturating_sub(1),
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
