//! The one writer: a thread that owns the write connection and commits what waits in groups.
//!
//! A job that fails undoes only itself: the transaction is begun anew, and what the jobs before it decided is written
//! again. Nobody hears of a result before the commit that holds it is on disk. What a job does is `job`'s business.

use super::gauge::Gauge;
use super::line::{Closed, Line, Outlet, line};
use super::rows::{SqliteRows, Undo, Undone};
use super::sql;
use crate::key::LedgerKey;
use bridge_core::port::{LedgerError, RowsError};
use bridge_core::value::Epoch;
use rusqlite::Connection;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

/// Jobs that may wait for the writer; further callers wait outside.
const QUEUE_MAX: usize = 1024;

/// Jobs in one commit: enough to share an fsync, few enough that the first does not wait long.
const BATCH_MAX: usize = 256;

/// So many jobs in one commit are a crowd, and whoever of it was answered comes back at once with the next step.
const CROWD: usize = 8;

/// How long the next job of a crowd is waited for, so that it shares the fsync: much shorter than one takes.
const MOMENT: Duration = Duration::from_micros(50);

/// Quiet time after which the writer moves the log into the database.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// One unit of work inside a batch.
pub(super) trait Job: Send {
    /// Does the work and keeps the result; an error undoes it.
    fn run(&mut self, rows: &mut SqliteRows<'_>) -> Result<(), LedgerError>;

    /// Writes what it decided once more, over the same rows: the transaction in which it ran was rolled back.
    fn write_again(&self, rows: &mut SqliteRows<'_>) -> Result<(), LedgerError>;

    /// The verdict, after the commit: the caller may know the result, or why there is none.
    fn resolve(self: Box<Self>, verdict: Result<(), LedgerError>);
}

/// The way to the writer.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Line<Box<dyn Job>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread over a connection that is set up and belongs to `epoch`.
    pub(super) fn start(
        conn: Connection,
        key: LedgerKey,
        epoch: Epoch,
        gauge: Gauge,
    ) -> std::io::Result<Self> {
        let (jobs, outlet) = line(QUEUE_MAX);
        let commits = Arc::new(AtomicU64::new(0));
        let service = BridgeService {
            conn,
            key,
            epoch,
            commits: Arc::clone(&commits),
            gauge,
        };
        thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || service.serve(&outlet))?;
        Ok(Self { jobs, commits })
    }

    /// Hands a job in. Once it is in, it runs, even if nobody waits for its verdict any more.
    pub(super) async fn submit(&self, job: Box<dyn Job>) -> Result<(), LedgerError> {
        self.jobs.put(job).await.map_err(|Closed| gone())
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// What callers hear when the thread has ended.
pub(super) fn gone() -> LedgerError {
    LedgerError::Unavailable {
        what: "its writer has ended; restart the daemon".to_owned(),
    }
}

/// The jobs of one commit, in the order they run.
struct Batch<'q> {
    jobs: Vec<Box<dyn Job>>,
    /// Where more of a crowd come in while the first ones run; a job that came alone waits for nobody.
    crowd: Option<&'q Outlet<Box<dyn Job>>>,
}

impl<'q> Batch<'q> {
    /// What waits now.
    fn of(first: Box<dyn Job>, outlet: &'q Outlet<Box<dyn Job>>, crowd: bool) -> Self {
        let mut jobs = vec![first];
        while jobs.len() < BATCH_MAX
            && let Ok(job) = outlet.take_waiting()
        {
            jobs.push(job);
        }
        Self {
            jobs,
            crowd: crowd.then_some(outlet),
        }
    }

    /// The job with this number, which in a crowd may come within a moment.
    fn get(&mut self, number: usize) -> Option<&mut dyn Job> {
        if number >= self.jobs.len()
            && self.jobs.len() < BATCH_MAX
            && let Some(outlet) = self.crowd
            && let Ok(job) = outlet.take_within(MOMENT)
        {
            self.jobs.push(job);
        }
        Some(self.jobs.get_mut(number)?.as_mut())
    }
}

/// What a job's caller may know.
type Verdict = Result<(), LedgerError>;

/// The thread's own state.
struct BridgeService {
    conn: Connection,
    key: LedgerKey,
    epoch: Epoch,
    commits: Arc<AtomicU64>,
    gauge: Gauge,
}

impl BridgeService {
    fn serve(self, jobs: &Outlet<Box<dyn Job>>) {
        let mut clean = true;
        let mut last = 0;
        loop {
            let first = if clean {
                jobs.take().ok_or(RecvTimeoutError::Disconnected)
            } else {
                jobs.take_within(IDLE_AFTER)
            };
            match first {
                Ok(first) => {
                    last = self.batch(Batch::of(first, jobs, last >= CROWD));
                    clean = false;
                }
                Err(RecvTimeoutError::Timeout) => {
                    checkpoint(&self.conn);
                    clean = true;
                    last = 0;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Gives how many jobs it was.
    fn batch(&self, mut batch: Batch<'_>) -> usize {
        self.gauge.commit_begins();
        let committed = self.commit(&mut batch);
        self.gauge.commit_ended();
        let batch = batch.jobs;
        let jobs = batch.len();
        match committed {
            Ok(verdicts) => {
                for (job, verdict) in batch.into_iter().zip(verdicts) {
                    if let Err(error) = &verdict {
                        self.gauge.heard(error);
                    }
                    job.resolve(verdict);
                }
            }
            Err(error) => {
                tracing::warn!(jobs, %error, "ledger batch failed; nothing of it was written");
                self.roll_back();
                self.gauge.heard(&error);
                for job in batch {
                    job.resolve(Err(error.clone()));
                }
            }
        }
        jobs
    }

    /// One verdict per job once the commit is on disk; an error when nothing was written.
    fn commit(&self, batch: &mut Batch<'_>) -> Result<Vec<Verdict>, LedgerError> {
        self.begin()?;
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(batch.jobs.len());
        let mut undo = Undo::Transaction;
        while let Some(job) = batch.get(verdicts.len()) {
            let (verdict, undone) = self.job(job, undo)?;
            if undone == Undone::NotYet {
                // Whatever becomes of the batch, what this one met is known.
                if let Err(error) = &verdict {
                    self.gauge.heard(error);
                }
                self.execute("ROLLBACK")?;
                self.begin()?;
                self.write_again(&batch.jobs, &verdicts)?;
                // One that fails is rare, and two in a batch must not cost it twice.
                undo = Undo::Savepoint;
            }
            verdicts.push(verdict);
        }
        self.execute("COMMIT")?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(verdicts)
    }

    fn begin(&self) -> Result<(), LedgerError> {
        self.execute("BEGIN IMMEDIATE")?;
        self.check_epoch()
    }

    /// Runs one job. An error undoes the whole batch.
    fn job(&self, job: &mut dyn Job, undo: Undo) -> Result<(Verdict, Undone), LedgerError> {
        let mut rows = SqliteRows::new(&self.conn, &self.key, undo);
        let ran = catch_unwind(AssertUnwindSafe(|| job.run(&mut rows)));
        let ran = ran.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        match ran {
            Ok(()) => {
                rows.keep()?;
                Ok((Ok(()), Undone::Alone))
            }
            // A full disk or a failing one makes SQLite give up the transaction, with all jobs in it.
            Err(error) if self.conn.is_autocommit() => Err(error),
            Err(error) => {
                let undone = rows.undo()?;
                Ok((Err(error), undone))
            }
        }
    }

    /// What the jobs with a good verdict wrote, in their order.
    fn write_again(&self, batch: &[Box<dyn Job>], verdicts: &[Verdict]) -> Result<(), LedgerError> {
        for (job, verdict) in batch.iter().zip(verdicts) {
            if verdict.is_ok() {
                let mut rows = SqliteRows::new(&self.conn, &self.key, Undo::Transaction);
                let wrote = catch_unwind(AssertUnwindSafe(|| job.write_again(&mut rows)));
                wrote.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))?;
            }
        }
        Ok(())
    }

    fn check_epoch(&self) -> Result<(), LedgerError> {
        let found = sql::number(&self.conn, "SELECT epoch FROM instance", [])?.unwrap_or(0);
        if found == self.epoch.0 {
            return Ok(());
        }
        Err(LedgerError::Fenced {
            found,
            ours: self.epoch.0,
        })
    }

    fn execute(&self, statement: &str) -> Result<(), RowsError> {
        let mut statement = self.conn.prepare_cached(statement).map_err(sql::failed)?;
        statement.execute([]).map_err(sql::failed)?;
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "ledger could not roll back");
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> LedgerError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word");
    tracing::error!(panic = said, "a ledger transition panicked and was undone");
    LedgerError::Unavailable {
        what: format!("the transition panicked ({said}) and was undone; this is a bug"),
    }
}

/// Moves what it can from the log into the database, without waiting for readers.
fn checkpoint(conn: &Connection) {
    let done = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = done {
        tracing::warn!(%error, "ledger checkpoint failed; it will be tried again");
    }
}

#[cfg(test)]
mod tests;
