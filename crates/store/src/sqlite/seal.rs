//! The credentials in a ledger's file, looked at beside a daemon if one runs.

use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, for_check};
use crate::key::LedgerKey;
use crate::sql::seal::{self, SealedPushes};
use std::path::Path;

/// Looks at the credentials of the ledger at `path`, beside a daemon if one runs. `None` where there is no ledger.
pub fn sealed_pushes(path: &Path, key: &LedgerKey) -> Result<Option<SealedPushes>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let conn = for_check(path).map_err(|error| OpenError::sqlite(path, error))?;
    migrate::check_ours(&conn, path, MIGRATIONS)?;
    seal::pushes((&conn).into(), key)
        .map(Some)
        .map_err(|error| OpenError::damaged(path, error.to_string()))
}
