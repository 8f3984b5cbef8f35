//! One transition as a job for the writer: its result waits here until its batch is on disk.
//!
//! Batches, undoing and commits are the writer's; what a transition does is the core's.

use super::rows::SqliteRows;
use super::writer::Job;
use bridge_core::port::{Change, Committed, LedgerError, Rows, TRACE};
use bridge_core::step::{RunError, Transition};
use bridge_core::value::Timestamp;
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::Level;

/// What the caller gets.
pub(super) type Verdict<T> = Result<Committed<<T as Transition>::Outcome>, LedgerError>;

/// A transition on its way through a batch.
pub(super) struct TransitionJob<T: Transition> {
    progress: Progress<T>,
    now: Timestamp,
    caller: oneshot::Sender<Verdict<T>>,
    watch: Option<Watch>,
}

/// When it was handed in, began to run and was through; only where somebody wants to know.
struct Watch {
    handed_in: Instant,
    began: Instant,
    ran: Instant,
}

impl Watch {
    fn start() -> Option<Self> {
        let now = tracing::enabled!(target: TRACE, Level::DEBUG).then(Instant::now)?;
        Some(Self {
            handed_in: now,
            began: now,
            ran: now,
        })
    }

    /// What it waited for is the line, and the jobs before it in its batch; what it took is its own work, the jobs
    /// behind it, and the commit with its fsync.
    fn tell(&self, at: &'static str, transition: &'static str) {
        let waited = self.began.duration_since(self.handed_in);
        let own = self.ran.duration_since(self.began);
        tracing::debug!(
            target: TRACE,
            at,
            transition,
            waited_us = waited.as_micros(),
            own_us = own.as_micros(),
            took_us = self.began.elapsed().as_micros(),
        );
    }
}

enum Progress<T: Transition> {
    Waiting(T),
    Running,
    /// With what it wrote, until that is on disk.
    Ran(Committed<T::Outcome>, Vec<Change>),
}

impl<T: Transition> TransitionJob<T> {
    /// The job and where its verdict will arrive.
    pub(super) fn new(transition: T, now: Timestamp) -> (Self, oneshot::Receiver<Verdict<T>>) {
        let (caller, verdict) = oneshot::channel();
        let job = Self {
            progress: Progress::Waiting(transition),
            now,
            caller,
            watch: Watch::start(),
        };
        (job, verdict)
    }
}

impl<T: Transition> Job for TransitionJob<T> {
    fn run(&mut self, rows: &mut SqliteRows<'_>) -> Result<(), LedgerError> {
        if let Some(watch) = &mut self.watch {
            watch.began = Instant::now();
        }
        match std::mem::replace(&mut self.progress, Progress::Running) {
            Progress::Waiting(transition) => {
                let decision = transition.run(rows, self.now).map_err(refused);
                if let Some(watch) = &mut self.watch {
                    watch.ran = Instant::now();
                }
                let decision = decision?;
                let committed = Committed {
                    outcome: decision.outcome,
                    actions: decision.actions,
                };
                self.progress = Progress::Ran(committed, decision.changes);
                Ok(())
            }
            Progress::Running | Progress::Ran(..) => Err(ran_already()),
        }
    }

    fn write_again(&self, rows: &mut SqliteRows<'_>) -> Result<(), LedgerError> {
        let Progress::Ran(_, changes) = &self.progress else {
            return Err(ran_already());
        };
        for change in changes {
            rows.apply(change)?;
        }
        Ok(())
    }

    fn resolve(self: Box<Self>, verdict: Result<(), LedgerError>) {
        let verdict = match (verdict, self.progress) {
            (Ok(()), Progress::Ran(committed, _)) => Ok(committed),
            (Ok(()), Progress::Waiting(_) | Progress::Running) => Err(ran_already()),
            (Err(error), _) => Err(error),
        };
        let at = match &verdict {
            Ok(_) => "commit",
            Err(_) => "refused",
        };
        // A caller that went away does not undo what is on disk.
        let _ = self.caller.send(verdict);
        if let Some(watch) = &self.watch {
            watch.tell(at, T::NAME);
        }
    }
}

fn refused(error: RunError) -> LedgerError {
    match error {
        RunError::Refused(refused) => LedgerError::Refused(refused),
        RunError::Rows(rows) => LedgerError::Rows(rows),
    }
}

fn ran_already() -> LedgerError {
    LedgerError::Unavailable {
        what: "a job was run out of order; this is a bug".to_owned(),
    }
}
