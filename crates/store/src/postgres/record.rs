//! The audit record of a database, read beside the daemons that share it.

use super::connect::PostgresUrl;
use super::copied::{CopiedDatabase, DatabaseUse};
use super::error::OpenError;
use crate::key::AuditPublicKey;
use crate::sql::audit::{self, AuditRecord};
use std::thread;

/// Reads the record of a database and goes along its chain. `None` where no daemon has opened it yet. Without a key the one
/// is believed that the database names.
pub fn audit(
    url: &PostgresUrl,
    limit: u32,
    key: Option<&AuditPublicKey>,
) -> Result<Option<AuditRecord>, OpenError> {
    let read = || {
        let database = CopiedDatabase::connect(url, DatabaseUse::Look)?;
        if database.version()? == 0 {
            return Ok(None);
        }
        let record = audit::record(database.conn(), limit, key);
        record.map(Some).map_err(OpenError::rows(&url.place()))
    };
    // A connection blocks, and the caller may be in a runtime.
    thread::scope(|scope| scope.spawn(read).join())
        .unwrap_or_else(|_| Err(OpenError::failed(&url.place(), super::gone())))
}
