//! Recovery of a damaged ledger: what can be read is brought over into a new one, what could run twice is made safe,
//! and the damaged file is kept.
//!
//! Reading is in `salvage`, making safe in `mend`. Nothing here writes to the damaged
//! file. The caller holds the state directory: no daemon may run.

mod mend;
mod salvage;

use super::check::{self, Depth, Inspection, Soundness, inspect};
use super::files::{
    beside, claim_scratch, log_index_of, log_of, name_new, remove_if_there, stamp, sync_directory,
};
use super::log::{self, Log};
use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, expect_released, recovered_place};
use crate::key::{AuditPublicKey, LedgerKey};
use bridge_core::value::Timestamp;
use rusqlite::Connection;
use salvage::{RowOrigin, Salvage, SalvageSource};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// How a recovery ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Recovered {
    /// Nothing is wrong; nothing was done.
    Sound {
        /// How many messages the ledger holds.
        messages: u64,
    },
    /// An earlier recovery had been cut at its very end, which is done now.
    Finished {
        /// Where the damaged ledger is.
        damaged: Option<PathBuf>,
    },
    /// A new ledger is in place.
    #[serde(rename = "recovered")]
    Done(Box<RecoveryReport>),
}

/// Outcome of a recovery that built a new ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveryReport {
    /// Where the damaged ledger is; absent if there was none.
    pub damaged: Option<PathBuf>,
    /// What was wrong with it.
    pub findings: Vec<String>,
    /// Messages in the new ledger.
    pub messages: u64,
    /// Row by row, per table.
    pub tables: Vec<TableReport>,
    /// Messages that are dead letters now, because running them could have run something twice.
    pub buried: Vec<RecoveryNotice>,
    /// Messages that are kept with something missing.
    pub incomplete: Vec<RecoveryNotice>,
    /// Ids of messages that are known to have been there and are gone.
    pub lost: Vec<String>,
    /// Where the record of acts has holes.
    pub audit_cuts: Vec<String>,
}

/// The rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TableReport {
    pub table: String,
    /// Rows that were brought over from the damaged ledger.
    pub kept: u64,
    /// Rows that only the backup had.
    pub from_backup: u64,
    /// Rows that could be read and do not fit: their message is lost, or their values can't be.
    pub dropped: u64,
    /// Whether parts of the table could not be read.
    pub holes: bool,
}

/// A remark about one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveryNotice {
    pub message_id: String,
    pub what: String,
}

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
    /// The file system refused.
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
            let damaged = put_in_place(ledger).map_err(file("put in place", ledger))?;
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
    let signer = sources.iter().find_map(SalvageSource::signer);
    let key = key(signer).map_err(|why| RecoverError::Key { why })?;
    let partial = beside(ledger, ".recovering");
    let settings = mend::RecoverSettings {
        work_root,
        now,
        key: &key,
        log_broken: log_is_broken(ledger),
    };
    let built = build(sources, &settings, backup.unwrap_or(ledger), &partial);
    if built.is_err() {
        // What remains is ours and useless; the error says what happened.
        let _left = remove_if_there(&partial);
    }
    let mut report = built?;
    name_new(&partial, &recovered_place(ledger)).map_err(file("name", &partial))?;
    report.damaged = put_in_place(ledger).map_err(file("put in place", ledger))?;
    report.findings = findings;
    Ok(Recovered::Done(Box::new(report)))
}

/// Writes a whole new ledger at `partial`. The sources are closed with it: SQLite must not have the damaged ledger open
/// when it is moved away.
fn build(
    sources: Vec<SalvageSource>,
    settings: &mend::RecoverSettings<'_>,
    last: &Path,
    partial: &Path,
) -> Result<RecoveryReport, RecoverError> {
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
    let report = mend::mend(&new, found, settings)?;
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
fn open_sources(ledger: &Path, backup: Option<&Path>) -> Vec<SalvageSource> {
    [
        Some((ledger, RowOrigin::Ledger)),
        backup.map(|path| (path, RowOrigin::Backup)),
    ]
    .into_iter()
    .flatten()
    .filter_map(|(path, origin)| SalvageSource::open(path, origin))
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

/// Puts the recovered ledger in the place of the damaged one and returns the new path of the damaged one, if there was
/// one. Each step can be interrupted and repeated.
///
/// While the recovered file waits under its own name, nobody opens the ledger. The damaged file gets its new name before
/// its old one is taken, and its log is moved before the new ledger appears: SQLite would replay an old log into a new
/// file.
fn put_in_place(ledger: &Path) -> io::Result<Option<PathBuf>> {
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
