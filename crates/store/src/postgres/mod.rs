//! The ledger on PostgreSQL: one database for a fleet of nodes, of which one writes at a time.
//!
//! Opening is in `open`, the writer's batches in `writer`, what the engines have in common in [`crate::sql`]. `dialect` and
//! `value` are all that is between a statement of the tables and this engine.

mod bulk;
mod clock;
mod connect;
mod copied;
mod dialect;
mod error;
mod examine;
mod fault;
mod foresight;
mod lent;
mod live;
mod open;
mod reader;
mod record;
mod schema;
mod session;
mod tls;
mod value;
mod wakeups;
mod writer;

pub(crate) use bulk::BulkTable;
pub use connect::PostgresUrl;
pub(crate) use copied::{CopiedDatabase, DatabaseUse};
pub use error::PostgresOpenError;
pub use examine::{DatabaseReport, examine};
pub use lent::LentDatabase;
pub use live::{LiveNote, SaidPart, piece};
pub use record::audit;
pub(crate) use session::{Expected, Session};
pub(crate) use value::SessionRow;
pub use wakeups::{Wakeup, Wakeups};

use crate::key::LedgerKey;
use crate::sql::batch::{Job, QUEUE_MAX};
use crate::sql::bounded::{BoundedReceiver, BoundedSender, Closed, bounded};
use crate::sql::job::TransitionJob;
use crate::sqlite::{Gauge, Limits};
use bridge_core::port::{Committed, Lease, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::{RunError, Transition, Tx};
use bridge_core::value::{Epoch, NodeId, Timestamp};
use connect::STATEMENT_MAX;
use open::{Database, Found, Opener};
use reader::ReaderPool;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use wakeups::Listener;
use writer::{WriterFigures, WriterThread};

/// How a ledger on PostgreSQL is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Threads that read beside the writer; at least one is started.
    pub readers: u8,
    /// How long one statement of a question may take, before the server ends it.
    pub read_max: Duration,
    /// How long a node may be silent before another one takes over what it has.
    pub lease: Duration,
    /// Limits beyond which nothing more should be taken in; those of a disk mean nothing here.
    pub limits: Limits,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            readers: 2,
            read_max: Duration::from_secs(30),
            lease: Duration::from_secs(15),
            limits: Limits::default(),
        }
    }
}

/// A ledger in a database of PostgreSQL. Handles share it; it closes when the last one is dropped.
#[derive(Clone, Debug)]
pub struct PostgresLedger {
    shared: Arc<PostgresState>,
}

#[derive(Debug)]
struct PostgresState {
    epoch: Epoch,
    warnings: Vec<String>,
    jobs: BoundedSender<Box<dyn Job>>,
    figures: Arc<WriterFigures>,
    readers: ReaderPool,
    gauge: Gauge,
    /// Started when somebody first wants to hear.
    listener: Mutex<Option<Listener>>,
    url: PostgresUrl,
    node: NodeId,
    lease: Duration,
}

impl PostgresLedger {
    /// Opens the ledger for a node, creating or migrating the schema, and takes over from an earlier opening of that node.
    /// All nodes of a fleet need the same key.
    ///
    /// It blocks on the server; call it before the runtime is busy.
    pub fn open(
        url: &PostgresUrl,
        node: &NodeId,
        key: &LedgerKey,
        options: PostgresOptions,
    ) -> Result<Self, PostgresOpenError> {
        let start = |source| PostgresOpenError::Threads { source };
        let (jobs, receiver) = bounded(QUEUE_MAX);
        let figures = Arc::new(WriterFigures::default());
        let gauge = Gauge::without_file(options.limits);
        let starter = Starter {
            url: url.clone(),
            node: node.clone(),
            key: key.clone(),
            lease: options.lease,
            figures: Arc::clone(&figures),
            gauge: gauge.clone(),
        };
        let (opened, found) = sync_channel(1);
        thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || starter.serve(&opened, &receiver))
            .map_err(start)?;
        let ended = || PostgresOpenError::failed(&url.place(), gone());
        let Found { epoch, warnings } = found.recv().map_err(|_| ended())??;
        let readers = ReaderPool::start(options.readers, url, node, key, options.read_max, &gauge);
        let shared = PostgresState {
            epoch,
            warnings,
            jobs,
            figures,
            readers: readers.map_err(start)?,
            gauge,
            listener: Mutex::default(),
            url: url.clone(),
            node: node.clone(),
            lease: options.lease,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// What can be lived with and should be changed, in sentences for the operator.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// Database and host, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.shared.url.place()
    }

    /// How the ledger is, for intake and for people: how long commits take. Its disk and the soundness of its files are the
    /// server's.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        self.shared.gauge.clone()
    }

    /// Commits so far: how well transitions share them.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.figures.commits.load(Ordering::Relaxed)
    }

    /// How often the writer waited for the server so far.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.shared.figures.trips.load(Ordering::Relaxed)
    }

    /// Hears what other nodes commit, from now on.
    pub fn wakeups(&self) -> std::io::Result<Wakeups> {
        let listener = self.shared.listener.lock();
        let mut listener = listener.unwrap_or_else(PoisonError::into_inner);
        let started = match listener.take() {
            Some(started) => started,
            None => Listener::start(&self.shared.url, &self.shared.node)?,
        };
        Ok(listener.insert(started).wakeups())
    }

    /// Tells the nodes that listen something of a running turn. It may be lost; false where there is no room for it now.
    #[must_use]
    pub fn tell_nodes(&self, note: LiveNote) -> bool {
        let listener = self.shared.listener.lock();
        let listener = listener.unwrap_or_else(PoisonError::into_inner);
        listener
            .as_ref()
            .is_some_and(|listener| listener.tell(note))
    }
}

/// A transition that changes nothing: its batch has the fence alone.
#[derive(Clone, Copy, Debug)]
struct Renew;

impl Transition for Renew {
    type Outcome = ();
    const NAME: &'static str = "renew";

    fn apply(self, _tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        Ok(())
    }
}

/// Opens on the writer's own thread: a connection belongs to one thread.
struct Starter {
    url: PostgresUrl,
    node: NodeId,
    key: LedgerKey,
    lease: Duration,
    figures: Arc<WriterFigures>,
    gauge: Gauge,
}

type Opened = SyncSender<Result<Found, PostgresOpenError>>;

impl Starter {
    fn serve(self, opened: &Opened, jobs: &BoundedReceiver<Box<dyn Job>>) {
        // Whoever opened it may have gone away.
        match self.open() {
            Ok((session, found)) => {
                let writer = WriterThread {
                    session,
                    key: self.key,
                    node: self.node,
                    lease: self.lease,
                    epoch: found.epoch,
                    figures: self.figures,
                    gauge: self.gauge,
                };
                let _ = opened.send(Ok(found));
                writer.serve(jobs);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        }
    }

    fn open(&self) -> Result<(Session, Found), PostgresOpenError> {
        let runtime = session::runtime();
        let runtime = runtime.map_err(|source| PostgresOpenError::Threads { source })?;
        let place = self.url.place();
        let session = Session::connect(runtime, &self.url, &self.node, STATEMENT_MAX)
            .map_err(|error| open::refused(place.clone(), error))?;
        let opener = Opener {
            database: Database {
                session: &session,
                place,
            },
            node: &self.node,
            lease: self.lease,
            key: &self.key,
        };
        let found = opener.open()?;
        Ok((session, found))
    }
}

/// The error after the writer's thread has ended.
fn gone() -> LedgerError {
    LedgerError::Unavailable {
        what: "its writer has ended; restart the daemon".to_owned(),
    }
}

impl Ledger for PostgresLedger {
    /// Dropping the future does not undo a transition that was handed in: it may still be committed, and
    /// recovery finds its rows.
    async fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        let (job, result) = TransitionJob::repeatable(transition, now);
        let queued = self.shared.jobs.send(Box::new(job)).await;
        queued.map_err(|Closed| gone())?;
        result.await.map_err(|_| gone())?
    }

    async fn read<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        self.shared.readers.ask(query).await
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// Every commit renews the lease too; a node that has nothing to write calls this a few times per lease.
    async fn renew(&self) -> Result<Option<Lease>, LedgerError> {
        self.transact(Renew, Timestamp(0)).await?;
        let now = self.shared.figures.clock.now();
        let now = now.ok_or_else(|| LedgerError::Unavailable {
            what: "it has not said yet what time it is; ask again".to_owned(),
        })?;
        Ok(Some(Lease {
            length: self.shared.lease,
            now,
        }))
    }
}
