//! A few threads with a connection each, so that a read never waits behind the writer. Each read sees one committed snapshot.

use super::connect::PostgresUrl;
use super::fault::chain;
use super::session::{Session, runtime};
use crate::key::LedgerKey;
use crate::sql::bounded::{BoundedReceiver, BoundedSender, Closed, bounded};
use crate::sql::rows::{SqlRows, Undo};
use crate::sqlite::Gauge;
use bridge_core::port::{LedgerError, Read, RowsError};
use bridge_core::value::NodeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// Jobs that may wait for a reader; further callers wait for a place in the queue.
const QUEUE_MAX: usize = 256;

/// One connection, made when it is first needed.
struct ReaderThread {
    url: PostgresUrl,
    node: NodeId,
    key: LedgerKey,
    read_max: Duration,
    gauge: Gauge,
    session: Option<Session>,
}

type ReadJob = Box<dyn FnOnce(&mut ReaderThread) + Send>;

/// Handle to the reader threads.
#[derive(Debug)]
pub(super) struct ReaderPool {
    jobs: BoundedSender<ReadJob>,
}

impl ReaderPool {
    pub(super) fn start(
        threads: u8,
        url: &PostgresUrl,
        node: &NodeId,
        key: &LedgerKey,
        read_max: Duration,
        gauge: &Gauge,
    ) -> std::io::Result<Self> {
        let (jobs, receiver) = bounded(QUEUE_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for index in 0..threads.max(1) {
            let receiver = Arc::clone(&receiver);
            let (url, node) = (url.clone(), node.clone());
            let (key, gauge) = (key.clone(), gauge.clone());
            thread::Builder::new()
                .name(format!("ledger-reader-{index}"))
                .spawn(move || {
                    let reader = ReaderThread {
                        url,
                        node,
                        key,
                        read_max,
                        gauge,
                        session: None,
                    };
                    reader.serve(&receiver);
                })?;
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
            let found = reader.answer(query);
            if let Err(error) = &found {
                reader.gauge.observe(error);
            }
            // The caller may have gone away.
            let _ = caller.send(found);
        });
        let sent = self.jobs.send(job).await;
        sent.map_err(|Closed| unavailable("its readers have ended; restart the daemon"))?;
        let answer = answer.await;
        answer.map_err(|_| unavailable("the reader ended while it read"))?
    }
}

impl ReaderThread {
    fn serve(mut self, jobs: &Mutex<BoundedReceiver<ReadJob>>) {
        while let Some(job) = next(jobs) {
            if catch_unwind(AssertUnwindSafe(|| job(&mut self))).is_err() {
                tracing::error!("a database read panicked; this is a bug");
            }
            if let Some(session) = &self.session {
                session.end_snapshot();
            }
        }
    }

    /// The snapshot is ended when the caller has its answer.
    fn answer<V>(
        &mut self,
        query: impl FnOnce(&dyn Read) -> Result<V, RowsError>,
    ) -> Result<V, LedgerError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.connect()?,
        };
        let session = self.session.insert(session);
        session.begin_snapshot()?;
        let rows = SqlRows::new((&*session).into(), &self.key, Undo::Transaction);
        Ok(query(&rows)?)
    }

    fn connect(&self) -> Result<Session, LedgerError> {
        let runtime = runtime().map_err(|error| unavailable(&error.to_string()))?;
        let session = Session::connect(runtime, &self.url, &self.node, self.read_max);
        session.map_err(|error| unavailable(&chain(&error)))
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
