//! The audit record of a ledger's file, read beside a daemon if one runs.

use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, for_check, read_only};
use crate::key::AuditPublicKey;
use crate::sql::audit::{self, AuditRecord};
use std::path::Path;

/// Whose key signed the record of the ledger at `path`, by the ledger's own account. `None` where nobody did, or there is
/// no ledger.
pub fn audit_signer(path: &Path) -> Result<Option<AuditPublicKey>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let conn = read_only(path).map_err(|error| OpenError::sqlite(path, error))?;
    migrate::check_ours(&conn, path, MIGRATIONS)?;
    let signer = audit::named_signer((&conn).into());
    signer.map_err(|error| OpenError::damaged(path, error.to_string()))
}

/// Reads the record of the ledger at `path` and goes along its chain, beside a daemon if one runs. `None` where there is
/// no ledger yet. Without a key the one is believed that the ledger names.
pub fn audit(
    path: &Path,
    limit: u32,
    key: Option<&AuditPublicKey>,
) -> Result<Option<AuditRecord>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let sqlite = |error| OpenError::sqlite(path, error);
    let mut conn = for_check(path).map_err(sqlite)?;
    migrate::check_ours(&conn, path, MIGRATIONS)?;
    // One view of both tables: a daemon may write meanwhile.
    let transaction = conn.transaction().map_err(sqlite)?;
    let record = audit::record((&*transaction).into(), limit, key);
    record
        .map(Some)
        .map_err(|error| OpenError::damaged(path, error.to_string()))
}
