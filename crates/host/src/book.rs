//! What one connection knows of its threads: which it has loaded, and on which a turn runs, whoever began it.

use crate::power::{Allowed, Reported};
use bridge_codex::wire::notification::ThreadSettingsUpdated;
use bridge_codex::wire::thread::ThreadStatus;
use bridge_codex::wire::{Notification, ThreadId};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The threads of one connection; there are only those that were started or resumed over it.
#[derive(Debug, Default)]
pub(crate) struct ThreadBook {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    loaded: HashMap<ThreadId, Allowed>,
    busy: HashSet<ThreadId>,
}

impl ThreadBook {
    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread was loaded over this connection, so that its news arrives here, and may do just this since.
    pub(crate) fn is_loaded(&self, thread: &ThreadId, allowed: &Allowed) -> bool {
        self.locked().loaded.get(thread) == Some(allowed)
    }

    /// Whether this connection has anything to do with a thread.
    pub(crate) fn knows(&self, thread: &ThreadId) -> bool {
        self.locked().loaded.contains_key(thread)
    }

    /// A thread was loaded over this connection, and may do this.
    pub(crate) fn loaded(&self, thread: ThreadId, status: &ThreadStatus, allowed: Allowed) {
        let mut inner = self.locked();
        inner.note(&thread, is_busy(status));
        inner.loaded.insert(thread, allowed);
    }

    /// Codex says that it has not loaded the thread after all.
    pub(crate) fn unloaded(&self, thread: &ThreadId) {
        let mut inner = self.locked();
        inner.loaded.remove(thread);
        inner.busy.remove(thread);
    }

    /// Whether a turn runs on a thread: Codex would put another one into it without a word.
    pub(crate) fn is_busy(&self, thread: &ThreadId) -> bool {
        self.locked().busy.contains(thread)
    }

    pub(crate) fn notice(&self, notification: &Notification) {
        if let Notification::ThreadSettingsUpdated(update) = notification {
            self.locked().compare(update);
        }
        let (thread, busy) = match notification {
            Notification::TurnStarted(notice) => (&notice.thread_id, true),
            Notification::TurnCompleted(notice) => (&notice.thread_id, false),
            Notification::ThreadStatusChanged(notice) => {
                (&notice.thread_id, is_busy(&notice.status))
            }
            Notification::ThreadClosed(notice) => (&notice.thread_id, false),
            // An end that can't be read is an end.
            Notification::Malformed {
                method,
                thread_id: Some(thread),
                ..
            } if method == "turn/completed" => (thread, false),
            _ => return,
        };
        self.locked().note(thread, busy);
    }
}

impl Inner {
    /// Somebody gave the thread more power: it counts as not loaded, so that it is compared before its next turn.
    fn compare(&mut self, update: &ThreadSettingsUpdated) {
        let reported = Reported::from(&update.thread_settings);
        let exceeded = self
            .loaded
            .get(&update.thread_id)
            .and_then(|allowed| allowed.exceeded_by(reported));
        if let Some(why) = exceeded {
            tracing::error!(why, thread = %update.thread_id.as_str(), "a thread was given more power than configured");
            self.loaded.remove(&update.thread_id);
        }
    }

    fn note(&mut self, thread: &ThreadId, busy: bool) {
        match busy {
            true => self.busy.insert(thread.clone()),
            false => self.busy.remove(thread),
        };
    }
}

fn is_busy(status: &ThreadStatus) -> bool {
    match status {
        ThreadStatus::Active { .. } => true,
        ThreadStatus::NotLoaded
        | ThreadStatus::Idle
        | ThreadStatus::SystemError
        | ThreadStatus::Other(_) => false,
    }
}
