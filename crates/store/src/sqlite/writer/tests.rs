//! The writer when the disk does not do what it should: whole batches fail, and work goes on afterwards.

use super::*;
use crate::key::for_tests;
use crate::sqlite::gauge::Limits;
use crate::sqlite::open::{Options, open};
use bridge_core::step::Action;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// SQL as a job; the result arrives as it would for a transition.
struct Sql(&'static str, oneshot::Sender<Result<(), LedgerError>>);

impl Job for Sql {
    fn run(&mut self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError> {
        let ran = rows.execute_batch(self.0);
        Ok(ran?)
    }

    fn write_again(&self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError> {
        let ran = rows.execute_batch(self.0);
        Ok(ran?)
    }

    fn reset(&mut self) {}

    fn kind(&self) -> &'static str {
        "sql"
    }

    fn actions(&self) -> &[Action] {
        &[]
    }

    fn resolve(self: Box<Self>, result: Result<(), LedgerError>) {
        let _ = self.1.send(result);
    }
}

type ResultReceiver = oneshot::Receiver<Result<(), LedgerError>>;

fn sql(statement: &'static str) -> (Box<dyn Job>, ResultReceiver) {
    let (caller, result) = oneshot::channel();
    (Box::new(Sql(statement, caller)), result)
}

fn service() -> (WriterThread, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let opened = open(&path, &for_tests(), Options::default()).unwrap();
    let service = WriterThread {
        key: for_tests(),
        conn: opened.writer,
        epoch: opened.epoch,
        commits: Arc::new(AtomicU64::new(0)),
        gauge: Gauge::new(&path, Limits::default()),
    };
    (service, directory)
}

/// Jobs that wait in a bounded, and what becomes of them.
fn handed_in(
    statements: impl Iterator<Item = &'static str>,
) -> (BoundedReceiver<Box<dyn Job>>, Vec<ResultReceiver>) {
    let (jobs, receiver) = bounded(QUEUE_MAX);
    let mut results = Vec::new();
    for statement in statements {
        let (job, result) = sql(statement);
        results.push(result);
        let mut sent = std::pin::pin!(jobs.send(job));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(sent.as_mut().poll(&mut context).is_ready());
    }
    (receiver, results)
}

/// Runs statements as one batch and gives each its result.
fn batch(service: &WriterThread, statements: &[&'static str]) -> Vec<Result<(), LedgerError>> {
    let (receiver, results) = handed_in(statements.iter().copied());
    let first = receiver.try_recv().unwrap();
    service.batch(Batch::of(first, &receiver, BATCH_MAX, false));
    let got = results.into_iter().map(|mut result| result.try_recv());
    got.map(Result::unwrap).collect()
}

fn cursors(service: &WriterThread) -> i64 {
    let count = crate::sql::number((&service.conn).into(), "SELECT count(*) FROM cursor", []);
    count.unwrap().unwrap()
}

const GOOD: &str = "INSERT INTO cursor VALUES (hex(randomblob(8)), 'p', NULL, 0)";
const BROKEN: &str =
    "INSERT INTO cursor VALUES ('b', 'p', NULL, 0); INSERT INTO nowhere VALUES (1)";

#[test]
fn a_failing_job_undoes_only_itself() {
    let (service, _directory) = service();
    let results = batch(&service, &[GOOD, BROKEN, GOOD, BROKEN, GOOD]);
    let good: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, true, false, true]);
    assert_eq!(cursors(&service), 3);
    assert_eq!(service.commits.load(Ordering::Relaxed), 1);
}

#[test]
fn batch_admits_late_jobs_up_to_limit() {
    let (service, _directory) = service();
    let statements = [BROKEN].into_iter().chain(std::iter::repeat_n(GOOD, 299));
    let (receiver, results) = handed_in(statements);
    let (first, result) = sql(GOOD);
    // None of the others was there when it began.
    let crowd = Batch {
        jobs: vec![first],
        max: BATCH_MAX,
        crowd: Some(&receiver),
    };
    assert_eq!(service.batch(crowd), BATCH_MAX);
    let good = |mut result: ResultReceiver| match result.try_recv() {
        Ok(result) => Some(result.is_ok()),
        Err(_not_yet) => None,
    };
    assert_eq!(good(result), Some(true));
    let received: Vec<Option<bool>> = results.into_iter().map(good).collect();
    assert_eq!(
        received[0],
        Some(false),
        "it came in behind the first and failed"
    );
    assert!(
        received[1..BATCH_MAX - 1]
            .iter()
            .all(|received| *received == Some(true))
    );
    assert!(received[BATCH_MAX - 1..].iter().all(Option::is_none));
    assert_eq!(cursors(&service), i64::try_from(BATCH_MAX - 1).unwrap());
}

/// Writes, and then has a bug.
struct Falls(oneshot::Sender<Result<(), LedgerError>>);

impl Job for Falls {
    fn run(&mut self, rows: &mut SqlRows<'_>) -> Result<(), LedgerError> {
        rows.execute_batch(GOOD)?;
        panic!("on purpose")
    }

    fn write_again(&self, _rows: &mut SqlRows<'_>) -> Result<(), LedgerError> {
        panic!("it did not run to its end")
    }

    fn reset(&mut self) {}

    fn kind(&self) -> &'static str {
        "sql"
    }

    fn actions(&self) -> &[Action] {
        &[]
    }

    fn resolve(self: Box<Self>, result: Result<(), LedgerError>) {
        let _ = self.0.send(result);
    }
}

#[test]
fn panicking_job_rolls_back_only_itself() {
    let (service, _directory) = service();
    let (_jobs, receiver) = bounded(QUEUE_MAX);
    let (caller, mut fell) = oneshot::channel();
    let (before, mut before_it) = sql(GOOD);
    let (behind, mut behind_it) = sql(GOOD);
    let mut batch = Batch::of(before, &receiver, BATCH_MAX, false);
    batch.jobs.push(Box::new(Falls(caller)));
    batch.jobs.push(behind);
    service.batch(batch);
    assert!(before_it.try_recv().unwrap().is_ok());
    assert!(behind_it.try_recv().unwrap().is_ok());
    let error = fell.try_recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(cursors(&service), 2);
}

#[test]
fn failed_commit_fails_whole_batch() {
    let (service, _directory) = service();
    let orphan =
        "PRAGMA defer_foreign_keys = ON; INSERT INTO answer VALUES ('nobody', 1, 'live', '', 0, 1)";
    let results = batch(&service, &[GOOD, orphan, GOOD]);
    for result in results {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
    }
    assert_eq!(cursors(&service), 0);
    assert_eq!(batch(&service, &[GOOD]), [Ok(())]);
    assert_eq!(cursors(&service), 1);
}

#[test]
fn writes_resume_after_full_disk() {
    let (service, _directory) = service();
    service
        .conn
        .execute_batch("PRAGMA max_page_count = 1")
        .unwrap();
    let big = "INSERT INTO cursor VALUES ('big', hex(randomblob(100000)), NULL, 0)";
    let results = batch(&service, &[GOOD, big, GOOD]);
    let error = results[1].clone().unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    let kept = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(cursors(&service), i64::try_from(kept).unwrap());
    service
        .conn
        .execute_batch("PRAGMA max_page_count = 100000")
        .unwrap();
    assert_eq!(batch(&service, &[big]), [Ok(())]);
}

#[test]
fn rolled_back_transaction_fails_whole_batch() {
    let (service, _directory) = service();
    let results = batch(
        &service,
        &[GOOD, "ROLLBACK; INSERT INTO nowhere VALUES (1)", GOOD],
    );
    for result in results {
        assert!(result.is_err());
    }
    assert_eq!(cursors(&service), 0);
    assert_eq!(batch(&service, &[GOOD]), [Ok(())]);
}

#[tokio::test]
async fn callers_hear_that_the_writer_has_ended() {
    let (jobs, receiver) = bounded(QUEUE_MAX);
    let writer = WriterHandle {
        jobs,
        commits: Arc::new(AtomicU64::new(0)),
    };
    let (job, result) = sql(GOOD);
    writer.submit(job).await.unwrap();
    drop(receiver);
    assert!(result.await.is_err());
    let (job, _verdict) = sql(GOOD);
    assert_eq!(writer.submit(job).await, Err(gone()));
}

#[test]
fn an_idle_writer_empties_the_log() {
    let (service, _directory) = service();
    assert_eq!(batch(&service, &[GOOD]), [Ok(())]);
    checkpoint(&service.conn);
    let left = service
        .conn
        .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
            Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?)
        });
    assert_eq!(left, Ok(0));
}
