//! A database that is lent for a while: it has no ledger before, and none afterwards.

use super::connect::{PostgresUrl, SCHEMA};
use super::copied::{CopiedDatabase, DatabaseUse};
use super::error::OpenError;
use super::examine::{beside_a_runtime, examine};

/// How long what still uses the ledger may keep it from being removed.
const LOCK_MAX_SECS: u32 = 30;

/// A database that was empty.
#[derive(Debug)]
pub struct LentDatabase(PostgresUrl);

impl LentDatabase {
    /// Takes a database that must be empty.
    pub fn take(url: PostgresUrl) -> Result<Self, OpenError> {
        let found = examine(&url)?;
        if found.schema != 0 {
            let place = found.place;
            return Err(OpenError::NotEmpty { place });
        }
        Ok(Self(url))
    }

    /// Removes the ledger that was made in it meanwhile.
    pub fn give_back(self) -> Result<(), OpenError> {
        beside_a_runtime(&self.0, || {
            let found = CopiedDatabase::connect(&self.0, DatabaseUse::Copy)?;
            found.database().run(&format!(
                "SET lock_timeout = '{LOCK_MAX_SECS}s'; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
            ))
        })
    }

    /// Database and host, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.0.place()
    }
}
