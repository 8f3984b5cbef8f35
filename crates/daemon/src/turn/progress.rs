//! A line in the chat while a turn takes long: what Codex does, and for how long already. It may be lost, it is
//! never tried again, and no turn waits for it.
//!
//! Only where a person waits: an agent would answer it. Nothing while a person is asked something.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::follow::Followed;
use bridge_core::deadline::after;
use bridge_core::port::{Agent, Ledger, Sink, Standing};
use bridge_core::value::{RequestState, SenderKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a platform may take to show a line.
const HINT_PATIENCE: Duration = Duration::from_secs(10);
/// Farther away than any turn can last.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// When a chat is shown what a long turn does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressTimes {
    /// After how long for the first time; `None` is never.
    pub(crate) after: Option<Duration>,
    /// And then again after as long.
    pub(crate) every: Duration,
}

/// When the next line about one turn is due.
#[derive(Debug)]
pub(crate) struct Progress {
    next: Instant,
    every: Duration,
}

impl Progress {
    /// Lines count from the turn's beginning, also when it is followed again after a restart: those whose time
    /// passed meanwhile are left out.
    pub(crate) fn new(times: ProgressTimes, gone: Duration, now: Instant) -> Self {
        let every = times.every.max(Duration::from_secs(1));
        let Some(first) = times.after else {
            return Self {
                next: after(now, NEVER),
                every,
            };
        };
        let mut due = first;
        if due < gone {
            let missed = gone.saturating_sub(due).as_secs() / every.as_secs().max(1);
            let rounds = u32::try_from(missed.saturating_add(1)).unwrap_or(u32::MAX);
            due = due.saturating_add(every.saturating_mul(rounds));
        }
        Self {
            next: after(now, due.saturating_sub(gone).min(NEVER)),
            every,
        }
    }

    /// When to look.
    pub(crate) fn wake(&self) -> Instant {
        self.next
    }

    /// The line is being written; the next one is due later.
    pub(crate) fn shown(&mut self, now: Instant) {
        self.next = after(now, self.every);
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Shows in the chat what a turn does, beside it: only where a person waits, and not while they are asked something.
    pub(crate) fn tell_progress(self: &Arc<Self>, turn: &Followed) {
        let (daemon, claimed) = (Arc::clone(self), Arc::clone(&turn.claimed));
        if claimed.message.kind == SenderKind::Agent {
            return;
        }
        let line = self.progress_line(turn);
        self.tasks.spawn(async move {
            let message_id = &claimed.message.message_id;
            let id = message_id.clone();
            let requests = daemon.ledger.read(move |rows| rows.standings(&id)).await;
            let is_open = |request: &Standing| request.state == RequestState::Open;
            if !requests.is_ok_and(|requests| !requests.iter().any(is_open)) {
                return;
            }
            let hint = daemon.sink.hint(&claimed.message, &line);
            match tokio::time::timeout(HINT_PATIENCE, hint).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, %message_id, "a line about a long turn was not shown"),
                Err(_) => tracing::debug!(%message_id, "the platform took too long for a line about a long turn"),
            }
        });
    }

    fn progress_line(&self, turn: &Followed) -> String {
        // The nearest minute: a line that is due after three must not say two for a millisecond.
        let minutes = now()
            .since_ms(turn.started_at)
            .max(0)
            .saturating_add(30_000)
            / 60_000;
        let doing = self.turns.running.doing(turn.message_id());
        format!("Still working, {minutes} min so far: {doing}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: ProgressTimes = ProgressTimes {
        after: Some(Duration::from_secs(180)),
        every: Duration::from_secs(300),
    };

    fn first(gone_secs: u64) -> u64 {
        let now = Instant::now();
        let progress = Progress::new(TIMES, Duration::from_secs(gone_secs), now);
        (progress.wake() - now).as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn lines_keep_their_times_over_a_restart() {
        assert_eq!(first(0), 180);
        assert_eq!(first(100), 80);
        assert_eq!(first(180), 0);
        assert_eq!(first(181), 299, "180 has passed, 480 is next");
        assert_eq!(first(500), 280, "480 has passed, 780 is next");
        let off = ProgressTimes {
            after: None,
            ..TIMES
        };
        let progress = Progress::new(off, Duration::ZERO, Instant::now());
        assert!(progress.wake() > Instant::now() + NEVER / 2);
        let (every, now) = (Duration::from_secs(u64::MAX), Instant::now());
        let after = Some(every);
        let mut f10 = Progress::new(ProgressTimes { after, every }, Duration::ZERO, now);
        f10.shown(now);
        assert!(f10.wake() > now + NEVER / 2);
    }
}
