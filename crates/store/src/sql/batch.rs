//! Jobs and the batches in which a writer commits them, on either engine.

use super::bounded::BoundedReceiver;
use super::rows::SqlRows;
use bridge_core::port::LedgerError;
use bridge_core::step::Action;
use std::any::Any;
use std::time::Duration;

/// Jobs that may wait for the writer; further callers wait outside.
pub(crate) const QUEUE_MAX: usize = 1024;

/// With so many jobs in one commit, the next ones are expected at once: each caller goes on with its next step.
pub(crate) const CROWD: usize = 8;

/// How long the writer then waits for one more job to share the fsync: much shorter than an fsync takes.
const MOMENT: Duration = Duration::from_micros(50);

/// One unit of work inside a batch.
pub(crate) trait Job: Send {
    /// Does the work and keeps the result; an error undoes it.
    fn run(&mut self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError>;

    /// Writes what it decided once more, over the same rows: the transaction in which it ran was rolled back.
    fn write_again(&self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError>;

    /// Gets ready to run once more: its transaction is gone, and others may have written since.
    fn reset(&mut self);

    /// Its transition's verb.
    fn kind(&self) -> &'static str;

    /// What it leaves to do after the commit, once it ran.
    fn actions(&self) -> &[Action];

    /// Passes the result to the caller, after the commit.
    fn resolve(self: Box<Self>, result: Result<(), LedgerError>);
}

/// The jobs of one commit, in the order they run.
pub(crate) struct Batch<'q> {
    pub(crate) jobs: Vec<Box<dyn Job>>,
    /// How many jobs it may have.
    pub(crate) max: usize,
    /// Queue from which more jobs join while the first ones run; `None` after a small batch.
    pub(crate) crowd: Option<&'q BoundedReceiver<Box<dyn Job>>>,
}

impl<'q> Batch<'q> {
    /// What waits now.
    pub(crate) fn of(
        first: Box<dyn Job>,
        receiver: &'q BoundedReceiver<Box<dyn Job>>,
        max: usize,
        crowd: bool,
    ) -> Self {
        let mut jobs = vec![first];
        while jobs.len() < max
            && let Ok(job) = receiver.try_recv()
        {
            jobs.push(job);
        }
        Self {
            jobs,
            max,
            crowd: crowd.then_some(receiver),
        }
    }

    /// The job with this number; in a crowd it may arrive within a moment.
    pub(crate) fn get(&mut self, number: usize) -> Option<&mut dyn Job> {
        if number >= self.jobs.len()
            && self.jobs.len() < self.max
            && let Some(receiver) = self.crowd
            && let Ok(job) = receiver.recv_timeout(MOMENT)
        {
            self.jobs.push(job);
        }
        Some(self.jobs.get_mut(number)?.as_mut())
    }
}

/// Result of one job of a batch.
pub(crate) type JobResult = Result<(), LedgerError>;

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> LedgerError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word");
    tracing::error!(
        panic = said,
        "a database transition panicked and was undone"
    );
    LedgerError::Unavailable {
        what: format!("the transition panicked ({said}) and was undone; this is a bug"),
    }
}
