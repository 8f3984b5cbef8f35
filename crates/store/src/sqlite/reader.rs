//! ReaderPool: a few threads with read-only connections, so that a read never waits behind the writer.
//!
//! Each read sees one committed snapshot, and is aborted when it holds it too long: the log can't be emptied behind an
//! open snapshot.

use super::gauge::Gauge;
use crate::key::LedgerKey;
use crate::sql;
use crate::sql::bounded::{BoundedReceiver, BoundedSender, Closed, bounded};
use crate::sql::rows::{SqlRows, Undo};
use bridge_core::port::{LedgerError, Read, RowsError};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// SQLite's steps between two looks at the deadline.
const STEPS_PER_LOOK: i32 = 1_000;

/// Jobs that may wait for a reader; further callers wait for a place in the queue.
const QUEUE_MAX: usize = 256;

type ReadJob = Box<dyn FnOnce(&ReaderThread) + Send>;

/// One connection and the deadline of its present job.
struct ReaderThread {
    conn: Connection,
    key: LedgerKey,
    deadline: Deadline,
    gauge: Gauge,
}

/// End of the present job, in milliseconds since the reader started.
#[derive(Clone)]
struct Deadline {
    began: Instant,
    max: Duration,
    end: Arc<AtomicU64>,
}

impl Deadline {
    fn new(max: Duration) -> Self {
        Self {
            began: Instant::now(),
            max,
            end: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    fn start(&self) {
        let end = self.began.elapsed().saturating_add(self.max).as_millis();
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        self.end.store(end, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.began.elapsed().as_millis() > u128::from(self.end.load(Ordering::Relaxed))
    }
}

/// Handle to the reader threads.
#[derive(Debug)]
pub(super) struct ReaderPool {
    jobs: BoundedSender<ReadJob>,
}

impl ReaderPool {
    /// Starts one thread per connection.
    pub(super) fn start(
        connections: Vec<Connection>,
        key: &LedgerKey,
        max: Duration,
        gauge: &Gauge,
    ) -> std::io::Result<Self> {
        let (jobs, receiver) = bounded(QUEUE_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for (index, conn) in connections.into_iter().enumerate() {
            let receiver = Arc::clone(&receiver);
            let reader = ReaderThread {
                conn,
                key: key.clone(),
                deadline: Deadline::new(max),
                gauge: gauge.clone(),
            };
            thread::Builder::new()
                .name(format!("ledger-reader-{index}"))
                .spawn(move || reader.serve(&receiver))?;
        }
        Ok(Self { jobs })
    }

    /// Runs one read.
    pub(super) async fn ask<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job: ReadJob = Box::new(move |reader| {
            // The caller may have gone away.
            let _ = caller.send(reader.answer(query));
        });
        let sent = self.jobs.send(job).await;
        sent.map_err(|Closed| unavailable("its readers have ended; restart the daemon"))?;
        let answer = answer.await;
        answer.map_err(|_| unavailable("the reader ended while it read"))?
    }
}

impl ReaderThread {
    fn serve(mut self, jobs: &Mutex<BoundedReceiver<ReadJob>>) {
        let deadline = self.deadline.clone();
        let watched = self
            .conn
            .progress_handler(STEPS_PER_LOOK, Some(move || deadline.is_over()));
        if let Err(error) = watched {
            tracing::warn!(%error, "database reads have no time limit");
        }
        while let Some(job) = next(jobs) {
            if catch_unwind(AssertUnwindSafe(|| job(&self))).is_err() {
                tracing::error!("a database read panicked; this is a bug");
                self.close();
            }
        }
    }

    fn answer<V>(
        &self,
        query: impl FnOnce(&dyn Read) -> Result<V, RowsError>,
    ) -> Result<V, LedgerError> {
        self.deadline.start();
        let found = self.snapshot(query);
        if let Err(error) = &found {
            self.gauge.observe(error);
        }
        found
    }

    fn snapshot<V>(
        &self,
        query: impl FnOnce(&dyn Read) -> Result<V, RowsError>,
    ) -> Result<V, LedgerError> {
        sql::run((&self.conn).into(), "BEGIN", [])?;
        let found = query(&SqlRows::new(
            (&self.conn).into(),
            &self.key,
            Undo::Transaction,
        ));
        self.close();
        Ok(found?)
    }

    /// Ends the read transaction; nothing was written, so there is nothing to lose.
    fn close(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = sql::run((&self.conn).into(), "ROLLBACK", [])
        {
            tracing::warn!(%error, "database reader could not end its snapshot");
        }
    }
}

fn next(jobs: &Mutex<BoundedReceiver<ReadJob>>) -> Option<ReadJob> {
    jobs.lock().ok()?.recv()
}

fn unavailable(what: &str) -> LedgerError {
    LedgerError::Unavailable {
        what: what.to_owned(),
    }
}
