//! What becomes of a task that panics: it is logged and counted, and what it worked on is taken up again.
//!
//! Registries of tasks give an entry back when its task is dropped, so a panic blocks no conversation. `rescue` then finds
//! the rows that nobody works on, as after a failure of the ledger.

use crate::Daemon;
use crate::term::escape_line;
use bridge_core::port::{Agent, Ledger, Sink};
use futures_util::FutureExt;
use std::any::Any;
use std::collections::HashMap;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pause before what a task worked on is taken up again; doubles with each panic of the same subject in a row.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: as long as a reply that its platform refuses waits at most.
const PAUSE_MAX: Duration = Duration::from_secs(900);
/// Subjects whose panics are counted one by one; others pause as after their first.
const SUBJECTS_MAX: usize = 1_024;

/// Panics since the start.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    total: AtomicU64,
    /// In a row, by message or conversation.
    in_a_row: Mutex<HashMap<String, u32>>,
}

impl Panics {
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts one; tells how long to pause.
    fn count(&self, subject: String) -> Duration {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut in_a_row = self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        let doublings = if in_a_row.len() < SUBJECTS_MAX || in_a_row.contains_key(&subject) {
            let times = in_a_row.entry(subject).or_default();
            *times += 1;
            *times - 1
        } else {
            0
        };
        let factor = 2_u32.saturating_pow(doublings);
        PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX)
    }

    /// A task of this subject ended well.
    fn forget(&self, subject: &impl Display) {
        // Hardly ever is there anything to forget.
        if self.total() > 0 {
            let mut in_a_row = self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
            in_a_row.remove(&subject.to_string());
        }
    }
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    escape_line(text.unwrap_or("it said nothing")).into_owned()
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Starts a task that works on a message or a conversation.
    pub(crate) fn spawn_for(
        self: &Arc<Self>,
        subject: impl Display + Send + Sync + 'static,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let daemon = Arc::clone(self);
        self.tasks.spawn(async move {
            match AssertUnwindSafe(task).catch_unwind().await {
                Ok(()) => daemon.panics.forget(&subject),
                Err(panic) => {
                    let then = "what it worked on is taken up again after a pause";
                    let pause = daemon.count_panic(&subject, panic.as_ref(), then);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => daemon.turns.recheck(),
                        () = daemon.stopping.cancelled() => {}
                    }
                }
            }
        });
    }

    /// `then` says what happens now to what it worked on.
    pub(crate) fn count_panic(
        &self,
        subject: &impl Display,
        panic: &(dyn Any + Send),
        then: &str,
    ) -> Duration {
        let pause = self.panics.count(subject.to_string());
        let pause_secs = pause.as_secs();
        tracing::error!(%subject, panic = words(panic), pause_secs, "a task panicked; this is a bug of codex-bridge, please report it; {then}");
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f10_pauses_grow_until_a_task_succeeds() {
        let panics = Panics::default();
        let pauses: Vec<u64> = (0..12)
            .map(|_| panics.count("c".to_owned()).as_secs())
            .collect();
        assert_eq!(pauses[..4], [1, 2, 4, 8]);
        assert_eq!(pauses[11], 900);
        assert_eq!(panics.count("other".to_owned()), PAUSE_MIN);
        panics.forget(&"c");
        assert_eq!(panics.count("c".to_owned()), PAUSE_MIN);
        assert_eq!(panics.total(), 14);
    }
}
