//! `backup` and `recover`: the operator's care for the ledger, without a daemon's help.
//!
//! The store makes backups and recoveries; here are their paths, their texts and the JSON.

use crate::cli::{BackupArgs, Common, RecoverArgs};
use anyhow::Context;
use bridge_core::value::Timestamp;
use bridge_daemon::config::{ConfigError, Environment};
use bridge_daemon::ledger_key::{KeyLocation, KeyNotFound};
use bridge_daemon::state::StateDir;
use bridge_daemon::term::{escape, escape_line};
use bridge_store::sqlite::{self, Backup, Existing, Recovered, RecoveryNotice, RecoveryReport};
use bridge_store::{AuditPublicKey, KeyAge};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Most messages that the text names; JSON has them all.
const NAMED_MAX: usize = 20;

/// What `recover` says where it does not find the key: to sign with another one is for people to decide.
const NAME_THE_KEY: &str = "name its file with --key-file (the one of `LoadCredential=` where the service has it as a credential), or go on under another key with --new-key: then credentials of push notifications can't be read, and the audit does not count as signed before this";

/// Runs `backup`.
pub(crate) fn backup(
    args: &BackupArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let made = back_up(args, common, environment)?;
    args.output
        .show(&BackupReport::of(&made), ExitCode::SUCCESS, |_| {
            escape(&backup_words(&made)).into_owned()
        })
}

/// What `backup --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BackupReport {
    /// The copy.
    path: PathBuf,
    bytes: u64,
    messages: u64,
    schema_version: i64,
    key: BackupKey,
}

/// What is needed to read a backup's secrets; it is not in the backup.
#[derive(Debug, Serialize, JsonSchema)]
struct BackupKey {
    /// Where the key should be.
    path: Option<PathBuf>,
    /// Whether it is there.
    found: bool,
    /// Whose key signed the record of acts.
    signer: Option<String>,
}

impl BackupReport {
    fn of(backed_up: &BackedUp) -> Self {
        let BackedUp { made, signer, key } = backed_up;
        Self {
            path: made.path.clone(),
            bytes: made.bytes,
            messages: made.messages,
            schema_version: made.version,
            key: BackupKey {
                path: key.as_ref().ok().map(|key| key.path().to_owned()),
                found: backed_up.key_is_here().is_ok(),
                signer: signer.map(|signer| signer.to_string()),
            },
        }
    }
}

/// A backup, and what it needs to be read.
struct BackedUp {
    made: Backup,
    /// Whose key signed its record.
    signer: Option<AuditPublicKey>,
    /// Where the key should be, or why that is unknown.
    key: Result<KeyLocation, ConfigError>,
}

impl BackedUp {
    fn key_is_here(&self) -> Result<&Path, KeyNotFound> {
        let unknown = |error: &ConfigError| KeyNotFound {
            signer: self.signer,
            why: error.to_string(),
        };
        let place = self.key.as_ref().map_err(unknown)?;
        place.load_signer(self.signer).map(|_| place.path())
    }
}

fn back_up(
    args: &BackupArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<BackedUp> {
    let state = state(common, environment)?;
    let to = match &args.file {
        Some(file) => file.clone(),
        None => default_place(&state)?,
    };
    let existing = if args.replace {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let made = sqlite::back_up(&state.ledger(), &to, existing)?;
    Ok(BackedUp {
        signer: sqlite::audit_signer(&made.path)?,
        key: common.find_key(environment, &state),
        made,
    })
}

/// `backups/ledger-<time>.db` in the state directory, which is as private as the ledger.
fn default_place(state: &StateDir) -> anyhow::Result<PathBuf> {
    let directory = state.root().join("backups");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .with_context(|| format!("create {}", directory.display()))?;
    // With milliseconds: two backups within a second are two files.
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ");
    Ok(directory.join(format!("ledger-{now}.db")))
}

fn backup_words(backed_up: &BackedUp) -> String {
    let key = match backed_up.key_is_here() {
        Ok(path) => format!(
            "not in it; keep a copy of {} elsewhere: without it credentials of push notifications can't be read, and the audit goes on under another signature",
            path.display()
        ),
        Err(not_here) => {
            format!("not in it; {not_here}: what is encrypted in this backup needs it")
        }
    };
    let made = &backed_up.made;
    format!(
        "the database is backed up and checked\n  file      {}\n  size      {} KiB\n  messages  {}\n  key       {key}",
        made.path.display(),
        made.bytes.div_ceil(1024),
        made.messages
    )
}

/// Runs `recover`.
pub(crate) fn recover(
    args: &RecoverArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let report = try_recover(args, common, environment)?;
    args.output.show(&report, ExitCode::SUCCESS, |report| {
        escape(&recovered_words(report)).into_owned()
    })
}

/// What `recover --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecoverReport {
    #[serde(flatten)]
    recovered: Recovered,
    /// Where a key was made because there was none.
    key_made: Option<PathBuf>,
}

/// The lock is held meanwhile, so that no daemon writes to what is read. Gives where a key was made, too.
fn try_recover(
    args: &RecoverArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<RecoverReport> {
    let state = StateDir::prepare(state(common, environment)?.root())?;
    let _lock = state.lock()?;
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let from = args.from.as_deref();
    let place = match &args.key_file {
        Some(path) => KeyLocation::named(path),
        None => common.find_key(environment, &state)?,
    };
    let mut key_made = None;
    let key = |signer| match place.load_signer(signer) {
        Err(not_here) if !args.new_key => Err(format!("{not_here}; {NAME_THE_KEY}")),
        Err(_) => {
            let key = place.load_or_create().map_err(|error| error.to_string())?;
            key_made = (key.age() == KeyAge::New).then(|| place.path().to_owned());
            Ok(key)
        }
        Ok(key) => Ok(key),
    };
    let recovered = sqlite::recover(&state.ledger(), key, from, &state.work(), now)?;
    Ok(RecoverReport {
        recovered,
        key_made,
    })
}

fn recovered_words(report: &RecoverReport) -> String {
    let key = match &report.key_made {
        Some(path) => format!(
            "\nthe database's key was missing, and a new one was made at {}: credentials that were encrypted with the old one can't be read, and the audit goes on under the new one\n",
            path.display()
        ),
        None => String::new(),
    };
    let words = match &report.recovered {
        Recovered::Sound { messages } => format!(
            "the database is sound ({messages} messages); nothing was done\nTo go back to a backup all the same, move the database away first: what is not finished in a backup may have run since, and counts as failed"
        ),
        Recovered::Finished { damaged } => format!(
            "an earlier recovery was cut at its end, which is done now; the new database is in place{}",
            kept(damaged.as_deref())
        ),
        Recovered::Done(report) => report_words(report),
    };
    words + &key
}

fn report_words(report: &RecoveryReport) -> String {
    let mut words = format!(
        "a new database is in place, with {} messages{}\n",
        report.messages,
        kept(report.damaged.as_deref())
    );
    let mut section = |title: &str, lines: &mut dyn Iterator<Item = String>| {
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            return;
        }
        words.push_str(&format!("\n{title}:\n"));
        for line in lines.iter().take(NAMED_MAX) {
            words.push_str(&format!("  {line}\n"));
        }
        if let Some(more) = lines.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            words.push_str(&format!("  and {more} more; `--json` names them all\n"));
        }
    };
    section("what was wrong", &mut report.findings.iter().cloned());
    let rows = report.tables.iter().map(|table| {
        let (name, kept, filled) = (&table.table, table.kept, table.from_backup);
        let holes = if table.holes {
            ", parts could not be read"
        } else {
            ""
        };
        let dropped = table.dropped;
        format!("{name:<14}{kept:>8} kept, {filled} from the backup, {dropped} dropped{holes}")
    });
    section(
        "rows",
        &mut rows.filter(|line| {
            !line.contains(" 0 kept, 0 from the backup, 0 dropped") || line.contains("parts")
        }),
    );
    let named =
        |notice: &RecoveryNotice| format!("{}  {}", notice.message_id, escape_line(&notice.what));
    section(
        "failed messages now (`codex-bridge retry ID` runs one again, if you know that it did not)",
        &mut report.buried.iter().map(named),
    );
    section(
        "kept with something missing",
        &mut report.incomplete.iter().map(named),
    );
    section("lost", &mut report.lost.iter().cloned());
    section(
        "holes in the audit (`codex-bridge audit`)",
        &mut report.audit_cuts.iter().cloned(),
    );
    words
}

fn kept(damaged: Option<&Path>) -> String {
    damaged.map_or_else(String::new, |path| {
        format!("; the damaged one is kept as {}", path.display())
    })
}

/// The state directory, which must exist: a mistyped one is not created.
fn state(common: &Common, environment: &Environment) -> anyhow::Result<StateDir> {
    let root = environment.state_dir(common.state_dir.as_deref())?;
    StateDir::existing(&root).may_enter()?;
    if !root.is_dir() {
        anyhow::bail!(
            "there is no state directory at {}: name it with --state-dir or CODEX_BRIDGE_STATE_DIR",
            root.display()
        );
    }
    Ok(StateDir::existing(&root))
}
