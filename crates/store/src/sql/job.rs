//! One transition as a job for the writer: its result waits here until its batch is on disk.
//!
//! Batches, undoing and commits are the writer's; what a transition does is the core's.

use super::batch::Job;
use super::rows::SqlRows;
use bridge_core::port::{Committed, LedgerError, Rows, TRACE};
use bridge_core::step::{Action, RunError, Transition};
use bridge_core::value::Timestamp;
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::Level;

/// What the caller gets.
pub(crate) type TransitionResult<T> = Result<Committed<<T as Transition>::Outcome>, LedgerError>;

/// A transition on its way through a batch.
pub(crate) struct TransitionJob<T: Transition> {
    progress: JobProgress<T>,
    /// What it was, where it may have to be run again.
    kept: Option<T>,
    now: Timestamp,
    caller: oneshot::Sender<TransitionResult<T>>,
    timing: Option<JobTiming>,
}

/// Times of a job; recorded only while its trace target is enabled.
struct JobTiming {
    handed_in: Instant,
    began: Instant,
    ran: Instant,
}

impl JobTiming {
    fn start() -> Option<Self> {
        let now = tracing::enabled!(target: TRACE, Level::DEBUG).then(Instant::now)?;
        Some(Self {
            handed_in: now,
            began: now,
            ran: now,
        })
    }

    /// The wait covers the queue and the jobs before it in its batch; the rest covers its own work, the jobs behind it
    /// and the commit with its fsync.
    fn trace(&self, at: &'static str, transition: &'static str) {
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

enum JobProgress<T: Transition> {
    Waiting(T),
    Running,
    /// It wrote its changes; they are not on disk yet.
    Ran(Committed<T::Outcome>),
}

impl<T: Transition> TransitionJob<T> {
    /// The job and where its result will arrive.
    pub(crate) fn new(
        transition: T,
        now: Timestamp,
    ) -> (Self, oneshot::Receiver<TransitionResult<T>>) {
        let (caller, result) = oneshot::channel();
        let job = Self {
            progress: JobProgress::Waiting(transition),
            kept: None,
            now,
            caller,
            timing: JobTiming::start(),
        };
        (job, result)
    }

    /// The same, for a writer that runs a batch again when it loses its connection.
    pub(crate) fn repeatable(
        transition: T,
        now: Timestamp,
    ) -> (Self, oneshot::Receiver<TransitionResult<T>>) {
        let kept = Some(transition.clone());
        let (job, result) = Self::new(transition, now);
        (Self { kept, ..job }, result)
    }
}

impl<T: Transition> Job for TransitionJob<T> {
    fn run(&mut self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError> {
        if let Some(timing) = &mut self.timing {
            timing.began = Instant::now();
        }
        match std::mem::replace(&mut self.progress, JobProgress::Running) {
            JobProgress::Waiting(transition) => {
                let decision = transition.run(rows, self.now).map_err(refused);
                if let Some(timing) = &mut self.timing {
                    timing.ran = Instant::now();
                }
                let decision = decision?;
                let committed = Committed {
                    outcome: decision.outcome,
                    actions: decision.actions,
                    changes: decision.changes,
                };
                self.progress = JobProgress::Ran(committed);
                Ok(())
            }
            JobProgress::Running | JobProgress::Ran(_) => Err(ran_already()),
        }
    }

    fn write_again(&self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError> {
        let JobProgress::Ran(committed) = &self.progress else {
            return Err(ran_already());
        };
        for change in &committed.changes {
            rows.apply(change)?;
        }
        Ok(())
    }

    fn reset(&mut self) {
        if let (JobProgress::Running | JobProgress::Ran(_), Some(kept)) =
            (&self.progress, &self.kept)
        {
            self.progress = JobProgress::Waiting(kept.clone());
        }
    }

    fn kind(&self) -> &'static str {
        T::NAME
    }

    fn actions(&self) -> &[Action] {
        match &self.progress {
            JobProgress::Ran(committed) => &committed.actions,
            JobProgress::Waiting(_) | JobProgress::Running => &[],
        }
    }

    fn resolve(self: Box<Self>, result: Result<(), LedgerError>) {
        let result = match (result, self.progress) {
            (Ok(()), JobProgress::Ran(committed)) => Ok(committed),
            (Ok(()), JobProgress::Waiting(_) | JobProgress::Running) => Err(ran_already()),
            (Err(error), _) => Err(error),
        };
        let at = match &result {
            Ok(_) => "commit",
            Err(_) => "refused",
        };
        // A caller that went away does not undo what is on disk.
        let _ = self.caller.send(result);
        if let Some(timing) = &self.timing {
            timing.trace(at, T::NAME);
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
