//! What the loop of push notifications knows beside the rows: where to look, who is being told, and who waits for a place
//! among those. All of it may be lost: the next walk over the rows finds it again.

use bridge_core::value::{MessageId, TaskId, Timestamp};
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Receivers that are called at the same time.
const GOING_MAX: usize = 16;
/// Receivers of one owner among them: one that is slow does not hold up the others.
const GOING_OF_OWNER_MAX: usize = 4;
/// Messages and tasks whose change is remembered one by one; beyond it everything is looked at.
const CHANGED_MAX: usize = 1_024;
/// Those who wait for a place by name; beyond it everything is looked at when all of them had theirs.
const WAITING_MAX: usize = 1_024;

/// A configuration by its task and name.
pub(super) type Key = (TaskId, String);

/// What the loop knows.
#[derive(Debug, Default)]
pub(crate) struct Pushing {
    wake: Notify,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// There are configurations; without any nothing is looked at.
    any: bool,
    /// Messages that changed.
    changed: HashSet<MessageId>,
    /// Tasks whose configurations are new, or were asked for while they were told.
    asked: HashSet<TaskId>,
    /// When everything is to be looked at: a pause is over, or there was too much to remember.
    due: Option<Timestamp>,
    /// Those that are being told now.
    going: HashMap<Key, Going>,
    /// Those that found no place, with their owners; who came first has the next one.
    waiting: VecDeque<(Key, String)>,
    /// There were more of them.
    left_out: bool,
}

#[derive(Debug)]
struct Going {
    owner: String,
    /// Somebody asked for it again meanwhile.
    again: bool,
}

/// Where to look.
#[derive(Debug)]
pub(super) enum Look {
    All,
    At {
        messages: Vec<MessageId>,
        tasks: HashSet<TaskId>,
    },
}

/// One that is being told, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pushing: Arc<Pushing>,
    pub(super) key: Key,
}

impl Known {
    fn due_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn of_owner(&self, owner: &str) -> usize {
        let of = self.going.values().filter(|going| going.owner == owner);
        of.count()
    }

    fn wait(&mut self, key: Key, owner: &str) {
        if self.waiting.iter().any(|(known, _)| *known == key) {
            return;
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((key, owner.to_owned()))
        } else {
            self.left_out = true
        }
    }
}

impl Pushing {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when there may be something to do.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// There are configurations.
    pub(super) fn some(&self) {
        self.known().any = true;
    }

    /// The rows of a message changed.
    pub(crate) fn changed(&self, message_id: &MessageId) {
        let mut known = self.known();
        if !known.any {
            return;
        }
        if known.changed.len() < CHANGED_MAX {
            _ = known.changed.insert(message_id.clone())
        } else {
            known.due_at(Timestamp(0))
        }
        drop(known);
        self.wake.notify_one();
    }

    /// A configuration of a task is new.
    pub(super) fn look(&self, task_id: &TaskId) {
        let mut known = self.known();
        known.any = true;
        if known.asked.len() < CHANGED_MAX {
            _ = known.asked.insert(task_id.clone())
        } else {
            known.due_at(Timestamp(0))
        }
        drop(known);
        self.wake.notify_one();
    }

    /// Everything is to be looked at then.
    pub(super) fn due_at(&self, at: Timestamp) {
        self.known().due_at(at);
        self.wake.notify_one();
    }

    /// When everything is to be looked at.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.known().due
    }

    /// Where to look now; what is said here is forgotten.
    pub(super) fn next(&self, all: bool) -> Look {
        let mut known = self.known();
        let messages = mem::take(&mut known.changed);
        let tasks = mem::take(&mut known.asked);
        if all {
            known.due = None;
            Look::All
        } else {
            Look::At {
                messages: messages.into_iter().collect(),
                tasks,
            }
        }
    }

    /// Those of the waiting for whom there are places now. When nobody waits any more and some could not be remembered,
    /// everything is looked at then.
    pub(super) fn next_waiting(&self, then: Timestamp) -> Vec<Key> {
        let mut guard = self.known();
        let known = &mut *guard;
        let mut free = GOING_MAX.saturating_sub(known.going.len());
        let mut owners: HashMap<String, usize> = HashMap::new();
        let mut next = Vec::new();
        for (key, owner) in mem::take(&mut known.waiting) {
            let going = known.of_owner(&owner);
            let theirs = owners.entry(owner.clone()).or_insert(going);
            if free == 0 || *theirs >= GOING_OF_OWNER_MAX {
                known.waiting.push_back((key, owner));
                continue;
            }
            *theirs += 1;
            free -= 1;
            next.push(key);
        }
        if next.is_empty() && known.waiting.is_empty() && mem::take(&mut known.left_out) {
            known.due_at(then);
        }
        next
    }

    /// A place for one that has something to tell; without a free one it waits.
    pub(super) fn take(self: &Arc<Self>, key: Key, owner: &str) -> Option<Place> {
        let mut known = self.known();
        if let Some(going) = known.going.get_mut(&key) {
            going.again = true;
            return None;
        }
        if known.of_owner(owner) >= GOING_OF_OWNER_MAX || known.going.len() >= GOING_MAX {
            known.wait(key, owner);
            return None;
        }
        let going = Going {
            owner: owner.to_owned(),
            again: false,
        };
        known.going.insert(key.clone(), going);
        Some(Place {
            pushing: Arc::clone(self),
            key,
        })
    }
}

impl Place {
    /// Whether somebody asked for it meanwhile; asked when there seemed to be nothing more to tell.
    pub(super) fn asked_again(&self) -> bool {
        let mut known = self.pushing.known();
        let going = known.going.get_mut(&self.key);
        going.is_some_and(|going| mem::take(&mut going.again))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut known = self.pushing.known();
        let again = known.going.remove(&self.key).is_some_and(|it| it.again);
        let others = !known.waiting.is_empty() || known.left_out;
        drop(known);
        match again {
            true => self.pushing.look(&self.key.0),
            false if others => self.pushing.wake.notify_one(),
            false => {}
        }
    }
}
