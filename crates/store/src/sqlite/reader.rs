//! Readers: a few threads with read-only connections, so that a question never waits behind the writer.
//!
//! Each question sees one committed snapshot from its first row to its last, and is ended when it holds it too long:
//! the log can't be emptied behind an open snapshot.

use super::gauge::Gauge;
use super::line::{Closed, Line, Outlet, line};
use super::rows::{SqliteRows, Undo};
use super::sql;
use crate::key::LedgerKey;
use bridge_core::port::{LedgerError, Read, RowsError};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// SQLite's steps between two looks at the clock.
const STEPS_PER_LOOK: i32 = 1_000;

/// Questions that may wait for a reader; further callers wait outside.
const QUEUE_MAX: usize = 256;

type Question = Box<dyn FnOnce(&Reader) + Send>;

/// One connection and the time by which its present question must be answered.
struct Reader {
    conn: Connection,
    key: LedgerKey,
    clock: Clock,
    gauge: Gauge,
}

/// When a question must end, in milliseconds since the reader began.
#[derive(Clone)]
struct Clock {
    began: Instant,
    max: Duration,
    end: Arc<AtomicU64>,
}

impl Clock {
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

/// The way to the readers.
#[derive(Debug)]
pub(super) struct Readers {
    questions: Line<Question>,
}

impl Readers {
    /// Starts one thread per connection.
    pub(super) fn start(
        connections: Vec<Connection>,
        key: &LedgerKey,
        max: Duration,
        gauge: &Gauge,
    ) -> std::io::Result<Self> {
        let (questions, outlet) = line(QUEUE_MAX);
        let outlet = Arc::new(Mutex::new(outlet));
        for (index, conn) in connections.into_iter().enumerate() {
            let outlet = Arc::clone(&outlet);
            let reader = Reader {
                conn,
                key: key.clone(),
                clock: Clock::new(max),
                gauge: gauge.clone(),
            };
            thread::Builder::new()
                .name(format!("ledger-reader-{index}"))
                .spawn(move || reader.serve(&outlet))?;
        }
        Ok(Self { questions })
    }

    /// Asks one question.
    pub(super) async fn ask<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let question: Question = Box::new(move |reader| {
            // The caller may have gone away; then nobody needs the answer.
            let _ = caller.send(reader.answer(query));
        });
        let put = self.questions.put(question).await;
        put.map_err(|Closed| unavailable("its readers have ended; restart the daemon"))?;
        let answer = answer.await;
        answer.map_err(|_| unavailable("the reader ended while it read"))?
    }
}

impl Reader {
    fn serve(mut self, questions: &Mutex<Outlet<Question>>) {
        let clock = self.clock.clone();
        let watched = self
            .conn
            .progress_handler(STEPS_PER_LOOK, Some(move || clock.is_over()));
        if let Err(error) = watched {
            tracing::warn!(%error, "ledger reads have no time limit");
        }
        while let Some(question) = next(questions) {
            if catch_unwind(AssertUnwindSafe(|| question(&self))).is_err() {
                tracing::error!("a ledger read panicked; this is a bug");
                self.close();
            }
        }
    }

    fn answer<V>(
        &self,
        query: impl FnOnce(&dyn Read) -> Result<V, RowsError>,
    ) -> Result<V, LedgerError> {
        self.clock.start();
        let found = self.snapshot(query);
        if let Err(error) = &found {
            self.gauge.heard(error);
        }
        found
    }

    fn snapshot<V>(
        &self,
        query: impl FnOnce(&dyn Read) -> Result<V, RowsError>,
    ) -> Result<V, LedgerError> {
        sql::run(&self.conn, "BEGIN", [])?;
        let found = query(&SqliteRows::new(&self.conn, &self.key, Undo::Transaction));
        self.close();
        Ok(found?)
    }

    /// Ends the read transaction; nothing was written, so there is nothing to lose.
    fn close(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = sql::run(&self.conn, "ROLLBACK", [])
        {
            tracing::warn!(%error, "ledger reader could not end its snapshot");
        }
    }
}

fn next(questions: &Mutex<Outlet<Question>>) -> Option<Question> {
    questions.lock().ok()?.take()
}

fn unavailable(what: &str) -> LedgerError {
    LedgerError::Unavailable {
        what: what.to_owned(),
    }
}
