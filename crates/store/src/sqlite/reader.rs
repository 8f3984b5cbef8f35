//! Readers: a few threads with read-only connections, so that a question never waits behind the writer.
//!
//! Each question sees one committed snapshot from its first row to its last.

use super::line::{Closed, Line, Outlet, line};
use super::rows::SqliteRows;
use super::sql;
use bridge_core::port::{LedgerError, Read, RowsError};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::sync::oneshot;

/// Questions that may wait for a reader; further callers wait outside.
const QUEUE_MAX: usize = 256;

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the readers.
#[derive(Debug)]
pub(super) struct Readers {
    questions: Line<Question>,
}

impl Readers {
    /// Starts one thread per connection.
    pub(super) fn start(connections: Vec<Connection>) -> std::io::Result<Self> {
        let (questions, outlet) = line(QUEUE_MAX);
        let outlet = Arc::new(Mutex::new(outlet));
        for (index, conn) in connections.into_iter().enumerate() {
            let outlet = Arc::clone(&outlet);
            thread::Builder::new()
                .name(format!("ledger-reader-{index}"))
                .spawn(move || serve(&conn, &outlet))?;
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
        let question: Question = Box::new(move |conn| {
            // The caller may have gone away; then nobody needs the answer.
            let _ = caller.send(snapshot(conn, query));
        });
        let put = self.questions.put(question).await;
        put.map_err(|Closed| unavailable("its readers have ended; restart the daemon"))?;
        let answer = answer.await;
        answer.map_err(|_| unavailable("the reader ended while it read"))?
    }
}

fn snapshot<V>(
    conn: &Connection,
    query: impl FnOnce(&dyn Read) -> Result<V, RowsError>,
) -> Result<V, LedgerError> {
    conn.execute_batch("BEGIN").map_err(sql::failed)?;
    let found = query(&SqliteRows::new(conn));
    close(conn);
    Ok(found?)
}

/// Ends the read transaction; nothing was written, so there is nothing to lose.
fn close(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("ROLLBACK")
    {
        tracing::warn!(%error, "ledger reader could not end its snapshot");
    }
}

fn serve(conn: &Connection, questions: &Mutex<Outlet<Question>>) {
    while let Some(question) = next(questions) {
        if catch_unwind(AssertUnwindSafe(|| question(conn))).is_err() {
            tracing::error!("a ledger read panicked; this is a bug");
            close(conn);
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
