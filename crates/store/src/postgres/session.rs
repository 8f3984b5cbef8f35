//! One connection, used by one thread: statements are prepared once, and sent without waiting until an answer is needed.
//!
//! A write is queued, and checked by the next read or by [`Session::settle`]. After a failure the server refuses everything
//! until the transaction is rolled back, and so does the session.

use super::clock::steady_ms;
use super::connect::{PostgresUrl, setup};
use super::dialect;
use super::fault::{Trouble, class_of, rows_error};
use super::foresight::{self, Answer, Foresight, Question, Tables};
use super::value::{Bound, BoundValues, SessionRow};
use crate::sql::{Params, failed};
use bridge_core::port::RowsError;
use bridge_core::value::NodeId;
use futures_util::TryStreamExt;
use rusqlite::types::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, Row, Statement};

/// How much longer than the server's own limit an answer is waited for.
const GRACE: Duration = Duration::from_secs(5);

/// What a queued statement must do.
#[derive(Debug)]
pub(crate) enum Expected {
    /// Write any number of rows.
    Any,
    /// Write exactly one row; `what` names it.
    One { what: String },
    /// Extend the node's lease, and tell the database's clock.
    Fence,
}

/// The node may write: the database's clock then, and our steady one when we heard of it, both in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct FenceAnswer {
    pub(super) theirs: i64,
    pub(super) ours: i64,
}

/// Why a session goes no further until it is rolled back or replaced.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The job whose statement failed; `None` for those of the batch itself.
    pub(super) job: Option<usize>,
    pub(super) error: RowsError,
    pub(super) trouble: Option<Trouble>,
}

/// A statement that the server knows.
struct Prepared {
    /// As the tables have it.
    sql: Rc<str>,
    statement: Statement,
    order: Vec<usize>,
    /// What it reads, and what it writes.
    tables: Tables,
}

type Sent = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>>>>;

/// A statement that was sent and not answered yet.
struct Pending {
    answer: Sent,
    expected: Expected,
    job: Option<usize>,
}

/// How a read-only session begins anew on another connection.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// What a connection knows.
struct Link {
    client: Arc<Client>,
    writes: HashMap<String, Rc<Prepared>>,
    reads: HashMap<String, Rc<Prepared>>,
}

/// One connection and what was sent over it.
pub(crate) struct Session {
    runtime: Runtime,
    url: PostgresUrl,
    /// Which node's.
    node: NodeId,
    statement_max: Duration,
    /// Instead of it, for a while.
    allowed: Cell<Option<Duration>>,
    link: RefCell<Link>,
    pending: RefCell<Vec<Pending>>,
    failure: RefCell<Option<Failure>>,
    job: Cell<Option<usize>>,
    fence: Cell<Option<FenceAnswer>>,
    trips: Cell<u64>,
    foresight: RefCell<Foresight>,
    /// It only reads, and nothing of its snapshot was answered yet.
    untouched: Cell<bool>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, over a runtime of this thread. Statements may take `statement_max`.
    pub(super) fn connect(
        runtime: Runtime,
        url: &PostgresUrl,
        node: &NodeId,
        statement_max: Duration,
    ) -> Result<Self, Error> {
        let link = link(&runtime, url, statement_max)?;
        Ok(Self {
            runtime,
            url: url.clone(),
            node: node.clone(),
            statement_max,
            allowed: Cell::new(None),
            link: RefCell::new(link),
            pending: RefCell::default(),
            failure: RefCell::default(),
            job: Cell::new(None),
            fence: Cell::new(None),
            trips: Cell::new(0),
            foresight: RefCell::default(),
            untouched: Cell::new(false),
        })
    }

    /// The node whose session it is.
    pub(crate) fn node(&self) -> &NodeId {
        &self.node
    }

    /// How long an answer is waited for from now on, where the server has another limit than usual.
    pub(super) fn allow(&self, max: Option<Duration>) {
        self.allowed.set(max);
    }

    /// Whose statements come next.
    pub(super) fn job(&self, job: Option<usize>) {
        self.job.set(job);
    }

    /// Round trips so far.
    pub(super) fn trips(&self) -> u64 {
        self.trips.get()
    }

    /// What the newest fence returned.
    pub(super) fn fence(&self) -> Option<FenceAnswer> {
        self.fence.get()
    }

    /// Forgets the newest fence.
    pub(super) fn unfenced(&self) {
        self.fence.set(None);
    }

    /// What went wrong, once; statements are sent again afterwards.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }

    /// Begins a snapshot of what is committed.
    pub(super) fn begin_snapshot(&self) -> Result<(), RowsError> {
        self.untouched.set(true);
        self.control(SNAPSHOT)
    }

    /// Ends it. There is nothing to lose, so nothing is waited for but the connection.
    pub(super) fn end_snapshot(&self) {
        self.untouched.set(false);
        self.roll_back();
    }

    /// A job of this kind begins, and its statements come next.
    pub(super) fn job_begins(&self, job: usize, kind: &'static str) {
        self.job(Some(job));
        self.foresight.borrow_mut().begin(kind);
    }

    /// It ended well.
    pub(super) fn job_ended(&self) {
        self.foresight.borrow_mut().learn();
    }

    /// What was read may be otherwise now.
    pub(super) fn forget(&self) {
        self.foresight.borrow_mut().forget();
    }

    /// Asks, and waits for the answer.
    pub(crate) fn query(&self, sql: &str, params: &impl Params) -> Result<Answer, RowsError> {
        let found = self.ask(sql, params);
        let found = match found {
            Err(_) if self.untouched.get() && self.is_lost() => {
                self.start_over()?;
                self.ask(sql, params)?
            }
            found => found?,
        };
        self.untouched.set(false);
        Ok(found)
    }

    fn ask(&self, sql: &str, params: &impl Params) -> Result<Answer, RowsError> {
        let prepared = self.prepared(sql, &Expected::Any)?;
        let question = Question {
            sql: Rc::clone(&prepared.sql),
            values: bound(params, &prepared)?,
        };
        let known = self.foresight.borrow().answer(&question);
        let answer = match known {
            Some(answer) => answer,
            None => self.ask_with_others(&prepared, &question)?,
        };
        let mut foresight = self.foresight.borrow_mut();
        foresight.asked(question, prepared.tables, Rc::clone(&answer));
        Ok(answer)
    }

    /// Sends what is likely to be asked next with it.
    fn ask_with_others(
        &self,
        prepared: &Rc<Prepared>,
        question: &Question,
    ) -> Result<Answer, RowsError> {
        let (Ok(answer) | Err(answer)) = send(self.answer(prepared, question.values.clone()));
        let mut others = Vec::new();
        for (other, tables) in self.foresight.borrow().expected(question) {
            let Some(prepared) = self.link.borrow().reads.get(&*other.sql).cloned() else {
                continue;
            };
            // Values that do not fit are not sent.
            if let Ok(sent) = send(self.answer(&prepared, other.values.clone())) {
                others.push((other, tables, sent));
            }
        }
        let (rows, others) = self.trip(async {
            let rows = answer.await?;
            let mut answers = Vec::new();
            for (other, tables, sent) in others {
                match sent.await {
                    Ok(rows) => answers.push(Some((other, tables, rows))),
                    Err(error) if class_of(&error).is_some() => return Err(error),
                    Err(_) => answers.push(None),
                }
            }
            Ok((rows, answers))
        })?;
        let mut foresight = self.foresight.borrow_mut();
        for known in others {
            let Some((other, tables, rows)) = known else {
                foresight.unlearn();
                drop(foresight);
                return Err(self.guessed_wrong());
            };
            foresight.keep(other, tables, read(rows));
        }
        let answer = read(rows);
        foresight.keep(question.clone(), prepared.tables, Rc::clone(&answer));
        Ok(answer)
    }

    /// The server minded a read that was not asked for yet, and has given the transaction up.
    fn guessed_wrong(&self) -> RowsError {
        let error = RowsError::Backend {
            what: "a read that was sent early failed; the batch is run again".to_owned(),
        };
        self.failure.replace(Some(Failure {
            job: None,
            error: error.clone(),
            trouble: Some(Trouble::Again),
        }));
        error
    }

    /// Queues a write.
    pub(crate) fn write(
        &self,
        sql: &str,
        params: &impl Params,
        expected: Expected,
    ) -> Result<(), RowsError> {
        let prepared = self.prepared(sql, &expected)?;
        let values = bound(params, &prepared)?;
        let answer = self.answer(&prepared, values);
        self.foresight.borrow_mut().writes(prepared.tables);
        self.queue(answer, expected)
    }

    /// Queues statements without values, such as the end of a transaction.
    pub(crate) fn control(&self, statements: &str) -> Result<(), RowsError> {
        let client = Arc::clone(&self.link.borrow().client);
        let statements = statements.to_owned();
        let answer = Box::pin(async move {
            client.batch_execute(&statements).await?;
            Ok(Vec::new())
        });
        self.queue(answer, Expected::Any)
    }

    /// Waits until everything that was queued is answered.
    pub(super) fn settle(&self) -> Result<(), RowsError> {
        if self.pending.borrow().is_empty() {
            return self.unfailed();
        }
        self.trip(async { Ok(()) })
    }

    /// The connection itself, for what is moved in bulk. Everything that was queued is answered.
    pub(super) fn client(&self) -> Result<Arc<Client>, RowsError> {
        self.settle()?;
        Ok(Arc::clone(&self.link.borrow().client))
    }

    /// Waits for an answer to what was sent over [`Session::client`].
    pub(super) fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, RowsError> {
        let answered = self.runtime.block_on(answer);
        answered.map_err(|error| rows_error(&error, &Expected::Any))
    }

    fn queue(&self, answer: Sent, expected: Expected) -> Result<(), RowsError> {
        self.unfailed()?;
        let (Ok(answer) | Err(answer)) = send(answer);
        self.pending.borrow_mut().push(Pending {
            answer,
            expected,
            job: self.job.get(),
        });
        Ok(())
    }

    fn answer(&self, prepared: &Rc<Prepared>, values: Vec<Value>) -> Sent {
        let values: Vec<Bound> = values.into_iter().map(Bound).collect();
        let client = Arc::clone(&self.link.borrow().client);
        let prepared = Rc::clone(prepared);
        Box::pin(async move {
            let rows = client.query_raw(&prepared.statement, values).await?;
            rows.try_collect().await
        })
    }

    fn prepared(&self, sql: &str, expected: &Expected) -> Result<Rc<Prepared>, RowsError> {
        self.unfailed()?;
        let of_one = matches!(expected, Expected::One { .. });
        if let Some(known) = self.link.borrow_mut().statements(of_one).get(sql) {
            return Ok(Rc::clone(known));
        }
        let client = Arc::clone(&self.link.borrow().client);
        let dialect = dialect::statement(sql);
        let text = if of_one {
            dialect::of_one_row(&dialect.text)
        } else {
            dialect.text
        };
        let statement = self.trip(async move { client.prepare(&text).await })?;
        let prepared = Rc::new(Prepared {
            sql: sql.into(),
            tables: foresight::tables_of(sql),
            statement,
            order: dialect.order,
        });
        let mut link = self.link.borrow_mut();
        let known = link.statements(of_one);
        known.insert(sql.to_owned(), Rc::clone(&prepared));
        Ok(prepared)
    }

    /// Sends, and waits for everything that was sent.
    fn trip<T>(&self, last: impl Future<Output = Result<T, Error>>) -> Result<T, RowsError> {
        self.unfailed()?;
        self.trips.set(self.trips.get() + 1);
        let mut last = Box::pin(last);
        let mut context = Context::from_waker(Waker::noop());
        let early = last.as_mut().poll(&mut context);
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        let max = self.allowed.get().unwrap_or(self.statement_max);
        let patience = max.saturating_add(GRACE);
        let answered = self.runtime.block_on(async {
            let all = async {
                for one in pending {
                    self.check(one).await?;
                }
                let last = match early {
                    Poll::Ready(answered) => answered,
                    Poll::Pending => last.await,
                };
                last.map_err(|error| self.failed(self.job.get(), &error, &Expected::Any))
            };
            let answered = tokio::time::timeout(patience, all).await;
            answered.unwrap_or_else(|_late| Err(self.silent()))
        });
        answered.map_err(|failure| {
            let error = failure.error.clone();
            self.failure.replace(Some(failure));
            error
        })
    }

    async fn check(&self, pending: Pending) -> Result<(), Failure> {
        let Pending {
            answer,
            expected,
            job,
        } = pending;
        let rows = answer
            .await
            .map_err(|error| self.failed(job, &error, &expected))?;
        if !matches!(expected, Expected::Fence) {
            return Ok(());
        }
        let clock: Option<i64> = rows.first().and_then(|row| row.try_get(0).ok());
        match clock {
            Some(theirs) => {
                let ours = steady_ms();
                self.fence.set(Some(FenceAnswer { theirs, ours }));
                Ok(())
            }
            None => Err(Failure {
                job: None,
                error: RowsError::Backend {
                    what: "this node may not write any more".to_owned(),
                },
                trouble: Some(Trouble::Fenced),
            }),
        }
    }

    fn failed(&self, job: Option<usize>, error: &Error, expected: &Expected) -> Failure {
        Failure {
            job,
            trouble: class_of(error),
            error: rows_error(error, expected),
        }
    }

    fn silent(&self) -> Failure {
        Failure {
            job: None,
            error: RowsError::Backend {
                what: "the database did not answer in time".to_owned(),
            },
            trouble: Some(Trouble::Lost),
        }
    }

    fn unfailed(&self) -> Result<(), RowsError> {
        match &*self.failure.borrow() {
            Some(failure) => Err(failure.error.clone()),
            None => Ok(()),
        }
    }

    fn is_lost(&self) -> bool {
        let failure = self.failure.borrow();
        let trouble = failure.as_ref().and_then(|failure| failure.trouble);
        trouble == Some(Trouble::Lost)
    }

    /// A snapshot of which nothing was seen yet is as good on another connection.
    fn start_over(&self) -> Result<(), RowsError> {
        self.reconnect()
            .map_err(|error| rows_error(&error, &Expected::Any))?;
        self.control(SNAPSHOT)
    }

    /// Goes on with another connection. What was not answered is forgotten; the server undoes what was not committed.
    pub(super) fn reconnect(&self) -> Result<(), Error> {
        let link = link(&self.runtime, &self.url, self.statement_max)?;
        self.take_failure();
        self.pending.borrow_mut().clear();
        self.unfenced();
        self.forget();
        self.link.replace(link);
        Ok(())
    }

    /// Ends the transaction, and whatever was wrong with it. Should the connection be gone, the next statement says so.
    pub(super) fn roll_back(&self) {
        self.forget();
        self.take_failure();
        self.pending.borrow_mut().clear();
        let rolled_back = self.control("ROLLBACK").and_then(|()| self.settle());
        if let Err(error) = rolled_back {
            tracing::debug!(%error, "a transaction could not be rolled back; the server does it");
        }
        self.take_failure();
    }
}

impl Link {
    fn statements(&mut self, of_one: bool) -> &mut HashMap<String, Rc<Prepared>> {
        if of_one {
            &mut self.writes
        } else {
            &mut self.reads
        }
    }
}

/// Sends it, which its first poll does. `Err` has the answer already: why it could not be sent.
fn send(mut sent: Sent) -> Result<Sent, Sent> {
    let mut context = Context::from_waker(Waker::noop());
    match sent.as_mut().poll(&mut context) {
        Poll::Pending => Ok(sent),
        Poll::Ready(answered) => Err(Box::pin(std::future::ready(answered))),
    }
}

fn read(rows: Vec<Row>) -> Answer {
    Rc::new(rows.into_iter().map(SessionRow::new).collect())
}

fn bound(params: &impl Params, prepared: &Prepared) -> Result<Vec<Value>, RowsError> {
    let mut values = BoundValues::default();
    let bound = params.bind_all(&mut values);
    let values = bound.and_then(|()| values.in_order(&prepared.order));
    values.map_err(failed)
}

/// What a session's thread drives its connection with.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Connects, and says what a session needs.
fn link(runtime: &Runtime, url: &PostgresUrl, statement_max: Duration) -> Result<Link, Error> {
    let client = runtime.block_on(async {
        let (client, driver) = url.connect().await?;
        tokio::spawn(driver.run());
        client.batch_execute(&setup(statement_max)).await?;
        Ok::<_, Error>(client)
    })?;
    Ok(Link {
        client: Arc::new(client),
        writes: HashMap::new(),
        reads: HashMap::new(),
    })
}
