//! One transition as a job for the writer: its result waits here until its batch is on disk.
//!
//! Batches, savepoints and commits are the writer's; what a transition does is the core's.

use super::rows::SqliteRows;
use super::writer::Job;
use bridge_core::port::{Committed, LedgerError};
use bridge_core::step::{RunError, Transition};
use bridge_core::value::Timestamp;
use tokio::sync::oneshot;

/// What the caller gets.
pub(super) type Verdict<T> = Result<Committed<<T as Transition>::Outcome>, LedgerError>;

/// A transition on its way through a batch.
pub(super) struct TransitionJob<T: Transition> {
    progress: Progress<T>,
    now: Timestamp,
    caller: oneshot::Sender<Verdict<T>>,
}

enum Progress<T: Transition> {
    Waiting(T),
    Running,
    Ran(Committed<T::Outcome>),
}

impl<T: Transition> TransitionJob<T> {
    /// The job and where its verdict will arrive.
    pub(super) fn new(transition: T, now: Timestamp) -> (Self, oneshot::Receiver<Verdict<T>>) {
        let (caller, verdict) = oneshot::channel();
        let job = Self {
            progress: Progress::Waiting(transition),
            now,
            caller,
        };
        (job, verdict)
    }
}

impl<T: Transition> Job for TransitionJob<T> {
    fn run(&mut self, rows: &mut SqliteRows<'_>) -> Result<(), LedgerError> {
        match std::mem::replace(&mut self.progress, Progress::Running) {
            Progress::Waiting(transition) => {
                let decision = transition.run(rows, self.now).map_err(refused)?;
                self.progress = Progress::Ran(Committed {
                    outcome: decision.outcome,
                    actions: decision.actions,
                });
                Ok(())
            }
            Progress::Running | Progress::Ran(_) => Err(ran_already()),
        }
    }

    fn resolve(self: Box<Self>, verdict: Result<(), LedgerError>) {
        let verdict = match (verdict, self.progress) {
            (Ok(()), Progress::Ran(committed)) => Ok(committed),
            (Ok(()), Progress::Waiting(_) | Progress::Running) => Err(ran_already()),
            (Err(error), _) => Err(error),
        };
        // A caller that went away does not undo what is on disk.
        let _ = self.caller.send(verdict);
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
