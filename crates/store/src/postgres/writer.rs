//! The node's one writer: a thread that commits what waits in groups, one transaction of the whole fleet at a time.
//!
//! A batch begins with the fleet's lock and the node's fence, sent together with its first read. A job that fails undoes only
//! itself. A transaction that is lost before its commit is run again from its transitions, which are pure; a commit whose
//! answer was lost is looked up by the number that the fence wrote.

use super::clock::DatabaseClock;
use super::connect::STANDSTILL_MAX;
use super::fault::{Trouble, chain};
use super::open::{begin, clock, fenced};
use super::session::{Expected, Failure, Session};
use super::wakeups;
use crate::key::LedgerKey;
use crate::sql::batch::{Batch, CROWD, Job, JobResult, panicked};
use crate::sql::bounded::BoundedReceiver;
use crate::sql::rows::{SqlRows, Undo};
use crate::sql::{self, params};
use crate::sqlite::Gauge;
use bridge_core::port::{LedgerError, RowsError};
use bridge_core::value::{Epoch, NodeId};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Jobs in one commit: enough to share it. How long other nodes wait for it is bounded by time.
const BATCH_MAX: usize = 256;

/// After this part of a lease no further job joins a batch: other nodes wait for it, and must renew theirs in time.
const BATCHES_PER_LEASE: u32 = 75;

/// The first and the longest wait between two attempts to reach the server.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// So many times a node that stands still must be cut off within a lease.
const STANDSTILLS_PER_LEASE: u32 = 4;

/// How long this node may stand still inside a batch: all others wait for it meanwhile and can't renew their leases, so
/// it must be a small part of one.
pub(super) fn standstill_max(lease: Duration) -> Duration {
    STANDSTILL_MAX.min(lease / STANDSTILLS_PER_LEASE)
}

/// The fence: it fails for an opening that was taken over and for one whose lease has ended, and says what time it is.
const FENCE: &str = concat!(
    "UPDATE node SET batch = ?1, lease_until = ",
    clock!(),
    " + ?2 WHERE node_id = ?3 AND epoch = ?4 AND state <> 'left' AND lease_until > ",
    clock!(),
    " RETURNING ",
    clock!()
);

/// Figures that a writer shares with whoever asks for them.
#[derive(Debug, Default)]
pub(super) struct WriterFigures {
    pub(super) commits: AtomicU64,
    pub(super) trips: AtomicU64,
    pub(super) clock: DatabaseClock,
}

/// The thread's own state.
pub(super) struct WriterThread {
    pub(super) session: Session,
    pub(super) key: LedgerKey,
    pub(super) node: NodeId,
    pub(super) lease: Duration,
    pub(super) epoch: Epoch,
    pub(super) figures: Arc<WriterFigures>,
    pub(super) gauge: Gauge,
}

/// Why a batch was not committed by this attempt.
enum Stop {
    /// Nothing of it will be written.
    Failed(LedgerError),
    /// Nothing of it was written; it can be run again on another connection.
    Lost(LedgerError),
    /// Nothing of it was written; run it again.
    Again(LedgerError),
    /// Nothing of it was written; run it again, each job with its own savepoint.
    Careful,
    /// The answer to the commit was lost.
    Unknown(LedgerError, Vec<JobResult>),
}

/// How far an attempt is.
struct Progress {
    results: Vec<JobResult>,
    /// Each job has its own savepoint, and is checked before the next one: after a first failure, because two in a batch must
    /// not cost it twice.
    careful: bool,
}

impl WriterThread {
    pub(super) fn serve(self, jobs: &BoundedReceiver<Box<dyn Job>>) {
        let mut waiting: VecDeque<Box<dyn Job>> = VecDeque::new();
        let (mut last, mut number) = (0, 0);
        while let Some(first) = waiting.pop_front().or_else(|| jobs.recv()) {
            let mut batch = Batch::of(first, jobs, BATCH_MAX, last >= CROWD);
            batch.jobs.splice(1..1, waiting.drain(..));
            self.gauge.commit_begins();
            let committed = self.commit(&mut batch, &mut number);
            self.gauge.commit_ended();
            let trips = self.session.trips();
            self.figures.trips.store(trips, Ordering::Relaxed);
            last = batch.jobs.len();
            match committed {
                Ok(results) => {
                    self.figures.commits.fetch_add(1, Ordering::Relaxed);
                    waiting = batch.jobs.split_off(results.len()).into();
                    for (job, result) in batch.jobs.into_iter().zip(results) {
                        if let Err(error) = &result {
                            self.gauge.observe(error);
                        }
                        job.resolve(result);
                    }
                }
                Err(error) => {
                    tracing::warn!(jobs = last, %error, "database batch failed");
                    self.gauge.observe(&error);
                    for job in batch.jobs {
                        job.resolve(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// One result per job of the front of the batch once the commit is on disk; an error when nothing was written.
    fn commit(
        &self,
        batch: &mut Batch<'_>,
        number: &mut i64,
    ) -> Result<Vec<JobResult>, LedgerError> {
        let mut patience = Patience::new(self.lease);
        let mut careful = false;
        loop {
            *number += 1;
            let stop = match self.attempt(batch, *number, careful) {
                Ok(results) => return Ok(results),
                Err(stop) => stop,
            };
            match stop {
                Stop::Failed(error) => {
                    self.session.roll_back();
                    return Err(error);
                }
                Stop::Lost(error) => self.reconnect(error, &mut patience)?,
                Stop::Again(error) => {
                    patience.pause(&error)?;
                    self.session.roll_back();
                }
                Stop::Careful => {
                    careful = true;
                    self.session.roll_back();
                }
                Stop::Unknown(error, results) => {
                    if self.was_committed(*number, error, &mut patience)? {
                        return Ok(results);
                    }
                }
            }
            for job in &mut batch.jobs {
                job.reset();
            }
        }
    }

    fn attempt(
        &self,
        batch: &mut Batch<'_>,
        number: i64,
        careful: bool,
    ) -> Result<Vec<JobResult>, Stop> {
        let began = Instant::now();
        let begun = self.begin(number);
        begun.map_err(|error| self.stop(error.into()))?;
        let mut progress = Progress {
            results: Vec::new(),
            careful,
        };
        while progress.results.is_empty() || began.elapsed() < self.lease / BATCHES_PER_LEASE {
            let at = progress.results.len();
            if batch.get(at).is_none() {
                break;
            }
            self.job(batch, at, &mut progress)?;
        }
        self.finish(batch, progress)
    }

    /// Sent with the first read of the first job.
    fn begin(&self, number: i64) -> Result<(), RowsError> {
        let session = &self.session;
        session.job(None);
        session.forget();
        session.unfenced();
        session.control(&format!(
            "{}; SET LOCAL idle_in_transaction_session_timeout = {}",
            begin(),
            standstill_max(self.lease).as_millis()
        ))?;
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        let values = params![number, lease, self.node.as_str(), self.epoch.0];
        session.write(FENCE, &values, Expected::Fence)?;
        session.control("SAVEPOINT batch")
    }

    /// Runs one job and adds its result; the failure of an earlier one comes to light here too.
    fn job(&self, batch: &mut Batch<'_>, at: usize, progress: &mut Progress) -> Result<(), Stop> {
        let session = &self.session;
        let Some(job) = batch.get(at) else {
            return Ok(());
        };
        session.job_begins(at, job.kind());
        if progress.careful {
            let begun = session.control("SAVEPOINT job");
            begun.map_err(|error| self.stop(error.into()))?;
        }
        let mut rows = SqlRows::new(session.into(), &self.key, Undo::Transaction);
        let ran = catch_unwind(AssertUnwindSafe(|| job.run(&mut rows)));
        let ran = ran.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        let wrote = rows.wrote();
        let checked = if ran.is_ok() && !progress.careful {
            Ok(())
        } else {
            session.settle()
        };
        match (ran, checked) {
            (Ok(()), Ok(())) => {
                session.job_ended();
                progress.results.push(Ok(()));
            }
            (Err(error), Ok(())) if !wrote => progress.results.push(Err(error)),
            (Err(error), Ok(())) => self.without(batch, progress, (at, error), at)?,
            (_, Err(error)) => {
                let failed = self.failed_job(error)?;
                self.without(batch, progress, failed, at)?;
            }
        }
        Ok(())
    }

    /// Which job failed and why; an error where it is about the whole batch.
    fn failed_job(&self, error: RowsError) -> Result<(usize, LedgerError), Stop> {
        match self.session.take_failure() {
            Some(Failure {
                job: Some(job),
                error,
                trouble: None,
            }) => Ok((job, error.into())),
            Some(failure) => Err(self.trouble(failure)),
            None => Err(Stop::Failed(error.into())),
        }
    }

    /// Undoes a job and what came behind it, up to the one at `at`, which is to run again.
    fn without(
        &self,
        batch: &mut Batch<'_>,
        progress: &mut Progress,
        (failed, error): (usize, LedgerError),
        at: usize,
    ) -> Result<(), Stop> {
        let session = &self.session;
        let undo = if progress.careful {
            "ROLLBACK TO SAVEPOINT job; RELEASE SAVEPOINT job"
        } else {
            "ROLLBACK TO SAVEPOINT batch"
        };
        session.forget();
        let undone = session.control(undo);
        undone.map_err(|error| self.stop(error.into()))?;
        if !progress.careful {
            progress.results.truncate(failed);
            self.write_again(&batch.jobs, &progress.results)?;
            let behind = batch.jobs.iter_mut().take(at + 1).skip(failed + 1);
            behind.for_each(|job| job.reset());
            progress.careful = true;
        }
        progress.results.push(Err(error));
        Ok(())
    }

    /// Repeats the writes of the jobs that succeeded, in their order. The lock was held all the time, so what they read is
    /// still so.
    fn write_again(&self, batch: &[Box<dyn Job>], results: &[JobResult]) -> Result<(), Stop> {
        for (at, (job, result)) in batch.iter().zip(results).enumerate() {
            if result.is_err() {
                continue;
            }
            self.session.job(Some(at));
            let mut rows = SqlRows::new((&self.session).into(), &self.key, Undo::Transaction);
            let wrote = catch_unwind(AssertUnwindSafe(|| job.write_again(&mut rows)));
            let wrote = wrote.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
            wrote.map_err(|error| self.stop(error))?;
        }
        let settled = self.session.settle();
        settled.map_err(|error| self.stop(error.into()))
    }

    fn finish(&self, batch: &Batch<'_>, progress: Progress) -> Result<Vec<JobResult>, Stop> {
        let session = &self.session;
        session.job(None);
        if session.fence().is_none() {
            // Nothing was read, so the fence was not seen yet; a commit must not go past it.
            session
                .settle()
                .map_err(|error| self.unsettled(error, progress.careful))?;
        }
        let ran = batch.jobs.iter().zip(&progress.results);
        let ran = ran.filter(|(_, result)| result.is_ok());
        let actions = ran.flat_map(|(job, _)| job.actions());
        let sent = wakeups::send(session, &self.node, actions)
            .and_then(|()| session.control("COMMIT"))
            .and_then(|()| session.settle());
        let Err(error) = sent else {
            self.figures.clock.learn(session.fence());
            return Ok(progress.results);
        };
        match self.unsettled(error, progress.careful) {
            Stop::Lost(error) => Err(Stop::Unknown(error, progress.results)),
            stop => Err(stop),
        }
    }

    /// What a failure at the end of a batch means: the server has undone all of it.
    fn unsettled(&self, error: RowsError, careful: bool) -> Stop {
        match self.failed_job(error) {
            Ok(_) if !careful => Stop::Careful,
            Ok((_, error)) => Stop::Failed(error),
            Err(stop) => stop,
        }
    }

    fn stop(&self, error: LedgerError) -> Stop {
        match self.session.take_failure() {
            Some(failure) => self.trouble(failure),
            None => Stop::Failed(error),
        }
    }

    fn trouble(&self, failure: Failure) -> Stop {
        let error = failure.error.into();
        match failure.trouble {
            Some(Trouble::Lost) => Stop::Lost(error),
            Some(Trouble::Again) => Stop::Again(error),
            Some(Trouble::Fenced) => {
                self.session.job(None);
                Stop::Failed(fenced(&self.session, &self.node, self.epoch))
            }
            None => Stop::Failed(error),
        }
    }

    /// Connects again, for as long as a lease lasts: afterwards this opening is fenced anyway.
    fn reconnect(&self, why: LedgerError, patience: &mut Patience) -> Result<(), LedgerError> {
        tracing::debug!(error = %why, "the connection to the database is lost, and made again");
        let mut why = why;
        loop {
            patience.pause(&why)?;
            match self.session.reconnect() {
                Ok(()) => return Ok(()),
                Err(error) => {
                    why = LedgerError::Unavailable {
                        what: chain(&error),
                    };
                }
            }
        }
    }

    /// Whether the batch with this number was committed. The lock is free only when the server is done with it.
    fn was_committed(
        &self,
        number: i64,
        why: LedgerError,
        patience: &mut Patience,
    ) -> Result<bool, LedgerError> {
        let mut why = why;
        loop {
            self.reconnect(why, patience).map_err(unknown)?;
            match self.look_up() {
                Ok((epoch, _)) if epoch != self.epoch.0 => {
                    return Err(LedgerError::Fenced {
                        found: epoch,
                        ours: self.epoch.0,
                    });
                }
                Ok((_, newest)) => {
                    let committed = newest == number;
                    tracing::info!(committed, "the answer to a commit was lost, and looked up");
                    self.session.roll_back();
                    return Ok(committed);
                }
                Err(error) => why = error.into(),
            }
        }
    }

    /// The epoch of the node's opening, and the number of its newest commit.
    fn look_up(&self) -> Result<(i64, i64), RowsError> {
        self.session.job(None);
        self.session.control(&begin())?;
        let query = "SELECT epoch, batch FROM node WHERE node_id = ?1";
        let node = [self.node.as_str()];
        let found = sql::one((&self.session).into(), query, node, |row| {
            let epoch = row.get(0).map_err(sql::failed)?;
            Ok((epoch, row.get(1).map_err(sql::failed)?))
        })?;
        Ok(found.unwrap_or_default())
    }
}

/// How long a batch is tried for.
struct Patience {
    began: Instant,
    max: Duration,
    pause: Duration,
}

impl Patience {
    fn new(max: Duration) -> Self {
        Self {
            began: Instant::now(),
            max,
            pause: Duration::ZERO,
        }
    }

    /// Waits before another attempt, a little longer each time; an error when there has been enough of it.
    fn pause(&mut self, why: &LedgerError) -> Result<(), LedgerError> {
        if self.began.elapsed() >= self.max {
            return Err(LedgerError::Unavailable {
                what: format!(
                    "it was tried for {} s, and nothing was written ({why}); check the database's server",
                    self.max.as_secs()
                ),
            });
        }
        thread::sleep(self.pause);
        self.pause = self.pause.saturating_mul(2).clamp(PAUSE_MIN, PAUSE_MAX);
        Ok(())
    }
}

/// The database did not come back to tell. By now this opening's lease has ended, and what is written is in the rows.
fn unknown(error: LedgerError) -> LedgerError {
    LedgerError::Unavailable {
        what: format!(
            "the answer to a commit was lost, and the database could not be asked since ({error}); whether it was written is in the rows when it is back"
        ),
    }
}
