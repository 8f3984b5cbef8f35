//! The one writer: a thread that owns the write connection and commits what waits in groups.
//!
//! A job that fails undoes only itself: the transaction is begun anew, and what the jobs before it decided is written
//! again. No caller gets a result before its commit is on disk. What a job does is `job`'s business.

use super::gauge::Gauge;
use crate::key::LedgerKey;
use crate::sql;
use crate::sql::batch::{Batch, CROWD, Job, JobResult, QUEUE_MAX, panicked};
use crate::sql::bounded::{BoundedReceiver, BoundedSender, Closed, bounded};
use crate::sql::rows::{SqlRows, Undo, Undone};
use bridge_core::port::{LedgerError, RowsError};
use bridge_core::value::Epoch;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

/// Jobs in one commit: enough to share an fsync, few enough that the first does not wait long.
const BATCH_MAX: usize = 256;

/// Quiet time after which the writer moves the log into the database.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Handle to the writer thread.
#[derive(Debug)]
pub(super) struct WriterHandle {
    jobs: BoundedSender<Box<dyn Job>>,
    commits: Arc<AtomicU64>,
}

impl WriterHandle {
    /// Starts the thread over a connection that is set up and belongs to `epoch`.
    pub(super) fn start(
        conn: Connection,
        key: LedgerKey,
        epoch: Epoch,
        gauge: Gauge,
    ) -> std::io::Result<Self> {
        let (jobs, receiver) = bounded(QUEUE_MAX);
        let commits = Arc::new(AtomicU64::new(0));
        let service = WriterThread {
            conn,
            key,
            epoch,
            commits: Arc::clone(&commits),
            gauge,
        };
        thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || service.serve(&receiver))?;
        Ok(Self { jobs, commits })
    }

    /// Queues a job. A queued job runs even if its caller has gone away.
    pub(super) async fn submit(&self, job: Box<dyn Job>) -> Result<(), LedgerError> {
        self.jobs.send(job).await.map_err(|Closed| gone())
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// The error after the thread has ended.
pub(super) fn gone() -> LedgerError {
    LedgerError::Unavailable {
        what: "its writer has ended; restart the daemon".to_owned(),
    }
}

/// The thread's own state.
struct WriterThread {
    conn: Connection,
    key: LedgerKey,
    epoch: Epoch,
    commits: Arc<AtomicU64>,
    gauge: Gauge,
}

impl WriterThread {
    fn serve(self, jobs: &BoundedReceiver<Box<dyn Job>>) {
        let mut clean = true;
        let mut last = 0;
        loop {
            let first = if clean {
                jobs.recv().ok_or(RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(IDLE_AFTER)
            };
            match first {
                Ok(first) => {
                    last = self.batch(Batch::of(first, jobs, BATCH_MAX, last >= CROWD));
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

    /// Returns the number of jobs.
    fn batch(&self, mut batch: Batch<'_>) -> usize {
        self.gauge.commit_begins();
        let committed = self.commit(&mut batch);
        self.gauge.commit_ended();
        let batch = batch.jobs;
        let jobs = batch.len();
        match committed {
            Ok(results) => {
                for (job, result) in batch.into_iter().zip(results) {
                    if let Err(error) = &result {
                        self.gauge.observe(error);
                    }
                    job.resolve(result);
                }
            }
            Err(error) => {
                tracing::warn!(jobs, %error, "database batch failed; nothing of it was written");
                self.roll_back();
                self.gauge.observe(&error);
                for job in batch {
                    job.resolve(Err(error.clone()));
                }
            }
        }
        jobs
    }

    /// One result per job once the commit is on disk; an error when nothing was written.
    fn commit(&self, batch: &mut Batch<'_>) -> Result<Vec<JobResult>, LedgerError> {
        self.begin()?;
        let mut results: Vec<JobResult> = Vec::with_capacity(batch.jobs.len());
        let mut undo = Undo::Transaction;
        while let Some(job) = batch.get(results.len()) {
            let (result, undone) = self.job(job, undo)?;
            if undone == Undone::NotYet {
                // Recorded at once: the rest of the batch may fail too.
                if let Err(error) = &result {
                    self.gauge.observe(error);
                }
                self.execute("ROLLBACK")?;
                self.begin()?;
                self.write_again(&batch.jobs, &results)?;
                // One that fails is rare, and two in a batch must not cost it twice.
                undo = Undo::Savepoint;
            }
            results.push(result);
        }
        self.execute("COMMIT")?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(results)
    }

    fn begin(&self) -> Result<(), LedgerError> {
        self.execute("BEGIN IMMEDIATE")?;
        self.check_epoch()
    }

    /// Runs one job. An error undoes the whole batch.
    fn job(&self, job: &mut dyn Job, undo: Undo) -> Result<(JobResult, Undone), LedgerError> {
        let mut rows = SqlRows::new((&self.conn).into(), &self.key, undo);
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

    /// Repeats the writes of the jobs that succeeded, in their order.
    fn write_again(
        &self,
        batch: &[Box<dyn Job>],
        results: &[JobResult],
    ) -> Result<(), LedgerError> {
        for (job, result) in batch.iter().zip(results) {
            if result.is_ok() {
                let mut rows = SqlRows::new((&self.conn).into(), &self.key, Undo::Transaction);
                let wrote = catch_unwind(AssertUnwindSafe(|| job.write_again(&mut rows)));
                wrote.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))?;
            }
        }
        Ok(())
    }

    fn check_epoch(&self) -> Result<(), LedgerError> {
        let found =
            sql::number((&self.conn).into(), "SELECT epoch FROM instance", [])?.unwrap_or(0);
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
            tracing::error!(%error, "database could not roll back");
        }
    }
}

/// Moves what it can from the log into the database, without waiting for readers.
fn checkpoint(conn: &Connection) {
    let done = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = done {
        tracing::warn!(%error, "database checkpoint failed; it will be tried again");
    }
}

#[cfg(test)]
mod tests;
