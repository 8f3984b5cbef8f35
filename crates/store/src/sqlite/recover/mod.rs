//! Recovery of a damaged ledger: what can be read is brought over into a new one, what could run twice is made safe,
//! and the damaged file is kept.
//!
//! Reading is in `salvage`, making safe in `mend`, the swap of files in `swap`. Nothing here writes to the damaged
//! file. The caller holds the state directory: no daemon may run.

mod mend;
mod report;
mod salvage;
mod swap;

pub use report::{Notice, Recovered, Report, TableReport};

use super::check::{self, Soundness};
use super::files::{beside, claim_scratch, log_of, name_new, remove_if_there};
use super::inspect::{Depth, Inspection, inspect};
use super::log::{self, Log};
use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, expect_released, recovered_place};
use crate::key::{AuditPublicKey, LedgerKey};
use bridge_core::value::Timestamp;
use rusqlite::Connection;
use salvage::{Origin, Salvage, Source};
use std::io;
use std::path::{Path, PathBuf};

/// Why there was no recovery. The damaged ledger is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// There is nothing to recover.
    #[error("there is no ledger at {}, and no backup was named; `codex-bridge run` makes a new one", path.display())]
    NoLedger {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The backup is not there.
    #[error("there is no backup at {}; nothing was changed", path.display())]
    NoBackup {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Not one row could be read.
    #[error("nothing can be read from {}; nothing was changed. Name a backup with `--from`, or move the file away and start anew", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
    },
    /// What was brought over is not sound; this is a bug.
    #[error("the recovered ledger is not sound ({}) and was not used; nothing was changed. This is a bug, please report it", findings.join("; "))]
    Unsound {
        /// What is wrong with it.
        findings: Vec<String>,
    },
    /// The file system said no.
    #[error("cannot {doing} {}: {source}; nothing was changed. Check its owner, its permissions and free space", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The new ledger could not be written.
    #[error("cannot write the recovered ledger: {0}; nothing was changed")]
    Write(#[from] rusqlite::Error),
    /// There is no key to carry the record of acts on with.
    #[error("{why}; nothing was changed")]
    Key {
        /// Why not.
        why: String,
    },
    /// It is not ours, or not yet.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Recovers the ledger at `ledger` if it is damaged; the holes are filled from `backup`. A conversation whose row is
/// lost gets a working directory below `work_root`. The record of acts is carried on under the key, which is only asked
/// for when there is something to do, and by whose signature the record has, if that can be read.
pub fn recover(
    ledger: &Path,
    key: impl FnOnce(Option<AuditPublicKey>) -> Result<LedgerKey, String>,
    backup: Option<&Path>,
    work_root: &Path,
    now: Timestamp,
) -> Result<Recovered, RecoverError> {
    if let Some(path) = backup.filter(|path| !path.exists()) {
        let path = path.to_owned();
        return Err(RecoverError::NoBackup { path });
    }
    expect_released(ledger)?;
    backup.map(expect_released).transpose()?;
    let findings = match inspect(ledger, Depth::Thorough)? {
        Inspection::RecoveryCut => {
            let damaged = swap::put_in_place(ledger).map_err(file("put in place", ledger))?;
            return Ok(Recovered::Finished { damaged });
        }
        Inspection::Sound { messages } => return Ok(Recovered::Sound { messages }),
        Inspection::Missing if backup.is_none() => {
            let path = ledger.to_owned();
            return Err(RecoverError::NoLedger { path });
        }
        Inspection::Missing => vec!["it is gone".to_owned()],
        Inspection::Damaged { findings } => findings,
    };
    let sources = open_sources(ledger, backup);
    let signer = sources.iter().find_map(Source::signer);
    let key = key(signer).map_err(|why| RecoverError::Key { why })?;
    let partial = beside(ledger, ".recovering");
    let setting = mend::Setting {
        work_root,
        now,
        key: &key,
        log_broken: log_is_broken(ledger),
    };
    let built = build(sources, &setting, backup.unwrap_or(ledger), &partial);
    if built.is_err() {
        // What remains is ours and useless; the error says what happened.
        let _left = remove_if_there(&partial);
    }
    let mut report = built?;
    name_new(&partial, &recovered_place(ledger)).map_err(file("name", &partial))?;
    report.damaged = swap::put_in_place(ledger).map_err(file("put in place", ledger))?;
    report.findings = findings;
    Ok(Recovered::Done(Box::new(report)))
}

/// Writes a whole new ledger at `partial`. The sources are closed with it: SQLite must not have the damaged ledger open
/// when it is moved away.
fn build(
    sources: Vec<Source>,
    setting: &mend::Setting<'_>,
    last: &Path,
    partial: &Path,
) -> Result<Report, RecoverError> {
    let scratch = claim_scratch(partial).map_err(file("write", partial))?;
    let version = sources
        .iter()
        .find_map(|source| source.version)
        .unwrap_or(usize::MAX)
        .clamp(1, MIGRATIONS.len());
    let (migrations, newer) = MIGRATIONS.split_at(version);
    let mut new = Connection::open(partial)?;
    new.execute_batch("PRAGMA synchronous = OFF")?;
    migrate::bring_up(&mut new, partial, migrations)?;
    new.execute_batch("PRAGMA foreign_keys = OFF; BEGIN")?;
    let mut salvage = Salvage::into(&new)?;
    for source in &sources {
        salvage.take(source)?;
    }
    if sources.is_empty() || salvage.has_nothing() {
        let path = last.to_owned();
        return Err(RecoverError::Unreadable { path });
    }
    let found = salvage.finish(&sources)?;
    for migration in newer {
        new.execute_batch(migration)?;
    }
    new.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    let report = mend::mend(&new, found, setting)?;
    new.execute_batch("COMMIT")?;
    match check::thoroughly(&new) {
        Ok(Soundness::Sound) => {}
        Ok(Soundness::Damaged { findings }) => return Err(RecoverError::Unsound { findings }),
        Err(error) => {
            let findings = vec![error.to_string()];
            return Err(RecoverError::Unsound { findings });
        }
    }
    new.close().map_err(|(_, error)| error)?;
    scratch.sync_all().map_err(file("sync", partial))?;
    Ok(report)
}

fn log_is_broken(ledger: &Path) -> bool {
    !matches!(log::examine(&log_of(ledger)), Ok(Log::Whole))
}

/// The damaged ledger first, because its rows are newer; then the backup.
fn open_sources(ledger: &Path, backup: Option<&Path>) -> Vec<Source> {
    [
        Some((ledger, Origin::Ledger)),
        backup.map(|path| (path, Origin::Backup)),
    ]
    .into_iter()
    .flatten()
    .filter_map(|(path, origin)| Source::open(path, origin))
    .collect()
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecoverError + use<> {
    let path = path.to_owned();
    move |source| RecoverError::File {
        doing,
        path,
        source,
    }
}
