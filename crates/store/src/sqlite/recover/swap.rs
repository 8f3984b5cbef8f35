//! Puts a recovered ledger in the place of the damaged one, in steps that can be cut anywhere and done again.
//!
//! While the recovered file waits under its own name, the ledger is not opened by anybody. The damaged file has its
//! new name before its old one is taken, and its log is moved before the new ledger appears, because SQLite would
//! play an old log into a new file.

use crate::sqlite::files::{log_index_of, log_of, stamp, sync_directory};
use crate::sqlite::open::recovered_place;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Gives where the damaged ledger is now, if there was one.
pub(super) fn put_in_place(ledger: &Path) -> io::Result<Option<PathBuf>> {
    let recovered = recovered_place(ledger);
    let made = fs::metadata(&recovered)?.modified()?;
    let made = jiff::Timestamp::try_from(made).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let damaged = damaged_name(ledger, &stamp(made));
    if ledger.exists() && !damaged.exists() {
        set_aside(ledger, &damaged)?;
    }
    for side in [log_of, log_index_of] {
        if side(ledger).exists() {
            fs::rename(side(ledger), side(&damaged))?;
        }
    }
    sync_directory(ledger)?;
    fs::rename(&recovered, ledger)?;
    sync_directory(ledger)?;
    Ok(damaged.exists().then_some(damaged))
}

/// `ledger.damaged-<time>.db` beside `ledger.db`.
fn damaged_name(ledger: &Path, stamp: &str) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let (stem, extension) = (part(ledger.file_stem()), part(ledger.extension()));
    ledger.with_file_name(format!("{stem}.damaged-{stamp}.{extension}"))
}

/// A second name for the damaged file; a copy where there are no second names.
fn set_aside(ledger: &Path, damaged: &Path) -> io::Result<()> {
    if fs::hard_link(ledger, damaged).is_ok() {
        return Ok(());
    }
    fs::copy(ledger, damaged)?;
    fs::File::open(damaged)?.sync_all()
}
