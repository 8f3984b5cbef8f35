//! A store under test: how it is opened, and how it is opened again as after a restart.

use crate::given::key;
use bridge_core::port::Ledger;
use bridge_store::{Options, SqliteLedger};
use bridge_testkit::MemoryLedger;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) trait Fixture {
    type L: Ledger;

    /// An empty store.
    fn open() -> Self;

    /// Opens the same rows again; the handle before is fenced off.
    fn reopen(&mut self);

    fn ledger(&self) -> &Self::L;
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
