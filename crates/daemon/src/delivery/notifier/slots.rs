//! What the notifier knows beside the rows: where to look, which deliveries run, and which wait for a slot. All of it may
//! be lost: the next walk over the rows finds it again.

use bridge_core::value::{
    MessageId, ReceiverId, Subscription, SubscriptionTarget, TaskId, Timestamp,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Push receivers that are called at the same time.
const PUSHES_MAX: usize = 16;
/// Push receivers of one owner among them: a slow one does not hold up the others.
const PUSHES_OF_OWNER_MAX: usize = 4;
/// Notifications of ended tasks that are sent at the same time.
const NOTIFICATIONS_MAX: usize = 8;
/// Receivers of alerts that are called at the same time.
const ALERTS_MAX: usize = 8;
/// Changed messages and tasks that are remembered one by one; beyond it everything is looked at.
const CHANGED_MAX: usize = 1_024;
/// Deliveries that wait for a slot by name; beyond it everything is looked at when all of them had theirs.
const WAITING_MAX: usize = 1_024;

/// Who is delivered to, one event after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::delivery) enum Key {
    /// A subscription of a task, by its id.
    Task(TaskId, String),
    /// A receiver of alerts.
    Receiver(ReceiverId),
}

/// Which bound a delivery counts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::delivery) enum SlotKind {
    /// Notifications of ended tasks, together.
    Notifications,
    /// Push notifications of this owner.
    Pushes(String),
    /// Alerts, together.
    Alerts,
}

impl SlotKind {
    pub(super) fn of(subscription: &Subscription, owner: &str) -> Self {
        match subscription.target {
            SubscriptionTarget::Push(_) => Self::Pushes(owner.to_owned()),
            SubscriptionTarget::Notify(_) | SubscriptionTarget::Nobody => Self::Notifications,
        }
    }
}

/// The slots of the notifier.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    wake: Notify,
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    /// There are subscriptions; without any nothing is looked at.
    any: bool,
    /// Messages that changed.
    changed: HashSet<MessageId>,
    /// Tasks whose subscriptions are new, or changed while an event was delivered.
    asked: HashSet<TaskId>,
    /// Receivers of alerts that have something to be sent.
    receivers: HashSet<ReceiverId>,
    /// When everything is to be looked at: a pause is over, or there was too much to remember.
    due: Option<Timestamp>,
    /// Deliveries that run now.
    going: HashMap<Key, Going>,
    /// Deliveries that found no slot, first come, first served.
    waiting: VecDeque<(Key, SlotKind)>,
    /// There were more of them.
    left_out: bool,
}

#[derive(Debug)]
struct Going {
    kind: SlotKind,
    /// It was asked for again meanwhile.
    again: bool,
}

/// Where to look.
#[derive(Debug)]
pub(super) enum Look {
    All,
    At {
        messages: Vec<MessageId>,
        tasks: HashSet<TaskId>,
        receivers: HashSet<ReceiverId>,
    },
}

/// A delivery that runs, until this is dropped.
#[derive(Debug)]
pub(in crate::delivery) struct Slot {
    slots: Arc<Slots>,
    pub(super) key: Key,
}

impl SlotState {
    fn due_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn running(&self, kind: &SlotKind) -> usize {
        self.going.values().filter(|it| it.kind == *kind).count()
    }

    fn pushes(&self) -> usize {
        let going = self.going.values();
        let pushes = going.filter(|it| matches!(it.kind, SlotKind::Pushes(_)));
        pushes.count()
    }

    fn is_free(&self, kind: &SlotKind) -> bool {
        match kind {
            SlotKind::Notifications => self.running(kind) < NOTIFICATIONS_MAX,
            SlotKind::Alerts => self.running(kind) < ALERTS_MAX,
            SlotKind::Pushes(_) => {
                self.running(kind) < PUSHES_OF_OWNER_MAX && self.pushes() < PUSHES_MAX
            }
        }
    }

    fn wait(&mut self, key: Key, kind: SlotKind) {
        if self.waiting.iter().any(|(known, _)| *known == key) {
            return;
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((key, kind))
        } else {
            self.left_out = true
        }
    }
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when there may be something to do.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// There are subscriptions.
    pub(in crate::delivery) fn some(&self) {
        self.state().any = true;
    }

    /// A receiver of alerts is new, or has something to be sent.
    pub(in crate::delivery) fn look_for(&self, receiver_id: ReceiverId) {
        let mut state = self.state();
        state.any = true;
        if state.receivers.len() < CHANGED_MAX {
            _ = state.receivers.insert(receiver_id)
        } else {
            state.due_at(Timestamp(0))
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The rows of a message changed.
    pub(crate) fn changed(&self, message_id: &MessageId) {
        let mut state = self.state();
        if !state.any {
            return;
        }
        if state.changed.len() < CHANGED_MAX {
            _ = state.changed.insert(message_id.clone())
        } else {
            state.due_at(Timestamp(0))
        }
        drop(state);
        self.wake.notify_one();
    }

    /// A subscription of a task is new.
    pub(crate) fn look(&self, task_id: &TaskId) {
        let mut state = self.state();
        state.any = true;
        if state.asked.len() < CHANGED_MAX {
            _ = state.asked.insert(task_id.clone())
        } else {
            state.due_at(Timestamp(0))
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Everything is to be looked at then.
    pub(in crate::delivery) fn due_at(&self, at: Timestamp) {
        self.state().due_at(at);
        self.wake.notify_one();
    }

    /// When everything is to be looked at.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.state().due
    }

    /// Where to look now; what is said here is forgotten.
    pub(super) fn next(&self, all: bool) -> Look {
        let mut state = self.state();
        let messages = mem::take(&mut state.changed);
        let tasks = mem::take(&mut state.asked);
        let receivers = mem::take(&mut state.receivers);
        if all {
            state.due = None;
            Look::All
        } else {
            Look::At {
                messages: messages.into_iter().collect(),
                tasks,
                receivers,
            }
        }
    }

    /// Takes those off the queue for which there are slots now. When the queue is empty and some did not fit into it,
    /// everything is looked at then.
    pub(super) fn next_waiting(&self, then: Timestamp) -> Vec<Key> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut pushes = PUSHES_MAX.saturating_sub(state.pushes());
        let mut taken: Vec<SlotKind> = Vec::new();
        let mut next = Vec::new();
        for (key, kind) in mem::take(&mut state.waiting) {
            let ahead = taken.iter().filter(|other| **other == kind).count();
            let running = state.running(&kind) + ahead;
            let free = match &kind {
                SlotKind::Notifications => running < NOTIFICATIONS_MAX,
                SlotKind::Alerts => running < ALERTS_MAX,
                SlotKind::Pushes(_) => running < PUSHES_OF_OWNER_MAX && pushes > 0,
            };
            if !free {
                state.waiting.push_back((key, kind));
                continue;
            }
            if matches!(kind, SlotKind::Pushes(_)) {
                pushes -= 1;
            }
            taken.push(kind);
            next.push(key);
        }
        if next.is_empty() && state.waiting.is_empty() && mem::take(&mut state.left_out) {
            state.due_at(then);
        }
        next
    }

    /// A slot for a delivery; without a free one it waits.
    pub(in crate::delivery) fn take(self: &Arc<Self>, key: Key, kind: SlotKind) -> Option<Slot> {
        let mut state = self.state();
        if let Some(going) = state.going.get_mut(&key) {
            going.again = true;
            return None;
        }
        if !state.is_free(&kind) {
            state.wait(key, kind);
            return None;
        }
        let going = Going { kind, again: false };
        state.going.insert(key.clone(), going);
        Some(Slot {
            slots: Arc::clone(self),
            key,
        })
    }
}

impl Slot {
    /// Whether it was asked for again since the rows were read.
    pub(in crate::delivery) fn asked_again(&self) -> bool {
        let mut state = self.slots.state();
        let going = state.going.get_mut(&self.key);
        going.is_some_and(|going| mem::take(&mut going.again))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        let again = state.going.remove(&self.key).is_some_and(|it| it.again);
        let others = !state.waiting.is_empty() || state.left_out;
        drop(state);
        match (&self.key, again) {
            (Key::Task(task_id, _), true) => self.slots.look(task_id),
            (Key::Receiver(receiver_id), true) => self.slots.look_for(receiver_id.clone()),
            (_, false) if others => self.slots.wake.notify_one(),
            (_, false) => {}
        }
    }
}
