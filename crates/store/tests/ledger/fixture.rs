//! A store under test: how it is opened, and how it is opened again as after a restart.

use crate::given::key;
use bridge_core::port::Ledger;
use bridge_core::value::{NodeId, NodeInfo};
use bridge_sim::postgres::Server;
use bridge_store::{Options, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger};
use bridge_testkit::MemoryLedger;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The node that a store of a fleet is opened for.
const NODE: &str = "n1";

pub(crate) trait Fixture {
    type L: Ledger;

    /// An empty store.
    fn open() -> Self;

    /// Opens the same rows again; the handle before is fenced off.
    fn reopen(&mut self);

    fn ledger(&self) -> &Self::L;
}

/// One that outlives its process.
pub(crate) trait Durable: Fixture {
    /// How many commits a transition and a hundred that wait behind it may take.
    const COMMITS_OF_A_HUNDRED: RangeInclusive<u64>;

    /// Commits so far.
    fn commits(&self) -> u64;
}

pub(crate) struct InMemory(MemoryLedger);

impl Fixture for InMemory {
    type L = MemoryLedger;

    fn open() -> Self {
        Self(MemoryLedger::new())
    }

    fn reopen(&mut self) {
        self.0 = self.0.reopen().unwrap();
    }

    fn ledger(&self) -> &MemoryLedger {
        &self.0
    }
}

/// A node over rows in memory, with a lease that never ends.
pub(crate) struct InFleet(MemoryLedger);

fn join(ledger: &MemoryLedger) -> MemoryLedger {
    ledger
        .join(&NodeId::new(NODE), NodeInfo::default(), i64::MAX)
        .unwrap()
}

impl Fixture for InFleet {
    type L = MemoryLedger;

    fn open() -> Self {
        Self(join(&MemoryLedger::new()))
    }

    fn reopen(&mut self) {
        self.0 = join(&self.0);
    }

    fn ledger(&self) -> &MemoryLedger {
        &self.0
    }
}

pub(crate) struct OnDisk {
    ledger: SqliteLedger,
    directory: TempDir,
}

impl OnDisk {
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("ledger.db")
    }
}

impl Fixture for OnDisk {
    type L = SqliteLedger;

    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let ledger = SqliteLedger::open(path, &key(), Options::default()).unwrap();
        Self { ledger, directory }
    }

    fn reopen(&mut self) {
        self.ledger = SqliteLedger::open(self.path(), &key(), Options::default()).unwrap();
    }

    fn ledger(&self) -> &SqliteLedger {
        &self.ledger
    }
}

/// A database of its own on the server that the tests of this binary share.
pub(crate) struct OnPostgres {
    ledger: PostgresLedger,
    database: Database,
}

/// A database that goes with its test.
pub(crate) struct Database {
    pub(crate) name: String,
}

impl Database {
    /// With the tables in it, and nothing else.
    fn copied() -> Self {
        static TEMPLATE: OnceLock<()> = OnceLock::new();
        let server = Server::shared().unwrap();
        TEMPLATE.get_or_init(|| {
            server.create_database("tables", None).unwrap();
            drop(open(&server.url_of("tables")));
        });
        Self::create(Some("tables"))
    }

    /// With nothing in it.
    pub(crate) fn empty() -> Self {
        Self::create(None)
    }

    fn create(template: Option<&str>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let server = Server::shared().unwrap();
        server.create_database(&name, template).unwrap();
        Self { name }
    }

    pub(crate) fn url(&self) -> String {
        Server::shared().unwrap().url_of(&self.name)
    }

    pub(crate) fn psql(&self, statements: &str) -> String {
        let server = Server::shared().unwrap();
        server.psql(&self.name, statements).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = Server::shared().unwrap().drop_database(&self.name);
    }
}

fn open(url: &str) -> PostgresLedger {
    let url = PostgresUrl::new(url).unwrap();
    // What is counted in batches must not depend on how busy this machine is.
    let options = PostgresOptions {
        lease: Duration::from_secs(300),
        ..PostgresOptions::default()
    };
    PostgresLedger::open(&url, &NodeId::new(NODE), &key(), options).unwrap()
}

impl OnPostgres {
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }
}

impl Fixture for OnPostgres {
    type L = PostgresLedger;

    fn open() -> Self {
        let database = Database::copied();
        let ledger = open(&database.url());
        Self { ledger, database }
    }

    fn reopen(&mut self) {
        self.ledger = open(&self.database.url());
    }

    fn ledger(&self) -> &PostgresLedger {
        &self.ledger
    }
}

impl Durable for OnDisk {
    const COMMITS_OF_A_HUNDRED: RangeInclusive<u64> = 2..=2;

    fn commits(&self) -> u64 {
        self.ledger.commits()
    }
}

impl Durable for OnPostgres {
    /// A batch is bounded by time too, and this machine may be busy.
    const COMMITS_OF_A_HUNDRED: RangeInclusive<u64> = 2..=50;

    fn commits(&self) -> u64 {
        self.ledger.commits()
    }
}
