//! All mailboxes of one connection, and who hears a question of Codex.
//!
//! A question for a thread that nobody follows waits a while for a follower: after a broken connection Codex asks again
//! as soon as the thread is loaded, which may be before it is known which of its turns is ours.

use crate::account::Account;
use crate::host::wall_now;
use crate::mailbox::{Frame, Mailbox};
use crate::questions::{self, Questions};
use bridge_codex::rpc::RawId;
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::{Notification, ServerRequest, ThreadId};
use bridge_core::port::{AskedRef, TurnEvent};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// All mailboxes of one connection, by thread. Where both locks are held, `by_thread` is the outer one.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    by_thread: Mutex<HashMap<ThreadId, Arc<Mailbox>>>,
    questions: Mutex<Questions>,
    account: Arc<Account>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailboxes {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            ..Self::default()
        }
    }

    /// Opens a mailbox for a turn that is about to start on an idle thread.
    pub(crate) fn open(&self, fold: TurnFold, thread: ThreadId, frame: Frame) -> Arc<Mailbox> {
        self.insert(Mailbox::folding(fold, frame), thread)
    }

    /// Opens a mailbox for a thread that is about to be looked at; nothing that comes meanwhile is missed.
    pub(crate) fn open_early(&self, thread: ThreadId, frame: Frame) -> Arc<Mailbox> {
        self.insert(Mailbox::early(frame), thread)
    }

    fn insert(&self, mailbox: Mailbox, thread: ThreadId) -> Arc<Mailbox> {
        let mailbox = Arc::new(mailbox);
        let mut boxes = locked(&self.by_thread);
        let mut questions = locked(&self.questions);
        for request in questions.take_unheard(&thread) {
            mailbox.ask(&request);
            questions.heard(request);
        }
        boxes.insert(thread, Arc::clone(&mailbox));
        mailbox
    }

    /// Closes a mailbox, unless another one took its place.
    pub(crate) fn close(&self, thread: &ThreadId, mailbox: &Arc<Mailbox>) {
        let mut boxes = locked(&self.by_thread);
        let present = boxes.get(thread);
        if present.is_some_and(|present| Arc::ptr_eq(present, mailbox)) {
            boxes.remove(thread);
            let mut questions = locked(&self.questions);
            for request in mailbox.take_untold() {
                questions.unheard(request, Instant::now());
            }
        }
    }

    /// Whether a turn of this thread is followed or looked at.
    pub(crate) fn has(&self, thread: &ThreadId) -> bool {
        locked(&self.by_thread).contains_key(thread)
    }

    /// Whether nothing is followed or looked at.
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.by_thread).is_empty()
    }

    fn of(&self, thread: Option<&ThreadId>) -> Option<Arc<Mailbox>> {
        locked(&self.by_thread).get(thread?).cloned()
    }

    pub(crate) fn deliver(&self, notification: &Notification) {
        let Some(mailbox) = self.of(notification.thread_id()) else {
            if let Notification::ServerRequestResolved(resolved) = notification {
                locked(&self.questions).close(&resolved.request_id);
            }
            return;
        };
        if let Notification::ServerRequestResolved(resolved) = notification {
            let open = locked(&self.questions).close(&resolved.request_id);
            // One that we answered is not open any more.
            if let Some(request) = open {
                mailbox.resolve(&request);
            }
        }
        let resets_at = self.account.resets_at(wall_now());
        mailbox.deliver(notification, resets_at);
    }

    /// Hands a question to the follower of its thread, or keeps it for one; gives it back when nobody will ever hear
    /// it or nobody can decide it.
    pub(crate) fn ask(
        &self,
        request: ServerRequest,
        now: Instant,
    ) -> Result<(), Box<ServerRequest>> {
        let boxes = locked(&self.by_thread);
        let mailbox = request.thread_id().and_then(|thread| boxes.get(thread));
        let mailbox = mailbox.filter(|mailbox| !mailbox.is_over());
        let mut questions = locked(&self.questions);
        if request.thread_id().is_none() || questions.is_full() {
            return Err(Box::new(request));
        }
        if !questions::is_decidable(&request) {
            if let Some(mailbox) = mailbox {
                mailbox.tell_declined(&request);
            }
            return Err(Box::new(request));
        }
        match mailbox {
            Some(mailbox) => {
                mailbox.ask(&request);
                questions.heard(request);
            }
            None => {
                tracing::warn!(method = %request.method, "codex asks, and nobody follows that turn yet");
                questions.unheard(request, now);
            }
        }
        Ok(())
    }

    /// Questions that waited too long for a follower.
    pub(crate) fn expire(&self, now: Instant) -> Vec<ServerRequest> {
        locked(&self.questions).expire(now)
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        locked(&self.questions).next_expiry()
    }

    /// A question that is still asked.
    pub(crate) fn question(&self, to: &AskedRef) -> Option<ServerRequest> {
        locked(&self.questions).find(to).cloned()
    }

    /// Whoever takes a question out answers it; false when somebody else did, or Codex settled it.
    pub(crate) fn take(&self, id: &RawId) -> bool {
        locked(&self.questions).close(id).is_some()
    }

    /// The connection is gone: every follower hears it.
    pub(crate) fn lose_all(&self, why: &str) {
        for (_, mailbox) in locked(&self.by_thread).drain() {
            mailbox.push(TurnEvent::Lost {
                why: why.to_owned(),
            });
        }
    }
}
