//! A look at a database beside the daemons that share it: what a daemon would find. Nothing is changed.

use super::connect::PostgresUrl;
use super::copied::{CopiedDatabase, DatabaseUse};
use super::error::OpenError;
use super::schema::known;
use std::thread;

/// What a daemon would find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Database and host.
    pub place: String,
    /// The version of its schema; 0 where it is empty.
    pub schema: i64,
    /// The newest version that this program knows.
    pub known: i64,
    /// Nodes that run and could not use the schema that this program brings.
    pub older_nodes: Vec<String>,
    /// What can be lived with, and should be changed.
    pub warnings: Vec<String>,
}

/// Looks at a database as a daemon does that opens it.
pub fn examine(url: &PostgresUrl) -> Result<DatabaseReport, OpenError> {
    let look = || {
        let found = CopiedDatabase::connect(url, DatabaseUse::Look)?;
        let database = found.database();
        database.expect_writable()?;
        let schema = database.version()?;
        Ok(DatabaseReport {
            place: url.place(),
            schema,
            known: known(),
            older_nodes: database.nodes_that_must_end()?,
            warnings: database.warnings()?,
        })
    };
    beside_a_runtime(url, look)
}

/// A connection blocks, and the caller may be in a runtime.
pub(super) fn beside_a_runtime<T: Send>(
    url: &PostgresUrl,
    ask: impl FnOnce() -> Result<T, OpenError> + Send,
) -> Result<T, OpenError> {
    thread::scope(|scope| scope.spawn(ask).join())
        .unwrap_or_else(|_| Err(OpenError::failed(&url.place(), super::gone())))
}
