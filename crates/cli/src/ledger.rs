//! `ledger copy`: the database as a whole, between a file and PostgreSQL.
//!
//! The store copies and compares; here are the two places, their locks, and what must be brought along by hand.

use crate::audit::verdict;
use crate::cli::{Common, CopyArgs, LedgerCommand};
use anyhow::bail;
use bridge_core::value::{Incarnation, NodeId, Timestamp};
use bridge_daemon::config::{self, Environment, Loaded};
use bridge_daemon::ledger_key::KeyLocation;
use bridge_daemon::state::{Lock, StateDir};
use bridge_daemon::term::escape;
use bridge_daemon::{database_url, node_id};
use bridge_host::process;
use bridge_store::copy::{CopiedTable, CopyReport, NodeShare};
use bridge_store::{LedgerCopy, LedgerPlace, PostgresUrl};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Digits of a digest that people are shown; JSON has all of them.
const DIGEST_SHOWN: usize = 16;

/// How the address of a destination is given.
const NAME_THE_DATABASE: &str =
    "set CODEX_BRIDGE_LEDGER_COPY_URL to its address and say `--to postgres`";

/// Runs a command about the database as a whole.
pub(crate) fn run(
    command: &LedgerCommand,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let LedgerCommand::Copy(args) = command;
    let view = copy(args, common, environment)?;
    args.output.show(&view, ExitCode::SUCCESS, |view| {
        escape(&in_words(view)).into_owned()
    })
}

/// What `ledger copy --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CopyView {
    /// File, or database and host.
    from: String,
    to: String,
    /// Each has the same digest in both.
    tables: Vec<CopiedTable>,
    /// Messages that are not finished; the copy's daemon goes on with them.
    unfinished: u64,
    audit: AuditState,
    key: CopyKey,
    files: CopyFiles,
    threads: CopyThreads,
}

/// The record of acts, which is the same in both.
#[derive(Debug, Serialize, JsonSchema)]
struct AuditState {
    /// Whether the record is whole.
    ok: bool,
    said: String,
}

/// What is needed to read the secrets of the copy; it is not in the copy.
#[derive(Debug, Serialize, JsonSchema)]
struct CopyKey {
    /// Where the source's key should be.
    path: PathBuf,
    /// Whose key signed the record of acts.
    signer: Option<String>,
    /// Why that key is not there.
    missing: Option<String>,
    /// Where the daemon of a new state directory looks for it; absent where that is for the configuration of each node.
    wanted_at: Option<PathBuf>,
}

/// Files that rows name.
#[derive(Debug, Serialize, JsonSchema)]
struct CopyFiles {
    /// This machine's copies of files that came with messages or go with answers.
    directory: PathBuf,
    /// Messages and replies that name some.
    named: u64,
    /// Files that are in the database, and so in the copy.
    stored: u64,
    /// Working directories of conversations that were given no other place.
    work: PathBuf,
}

/// Threads of conversations. Codex keeps them.
#[derive(Debug, Serialize, JsonSchema)]
struct CopyThreads {
    conversations: u64,
    /// Of them in the database too, piece by piece, for other nodes.
    stored: u64,
    /// Where Codex keeps them.
    codex_homes: Vec<PathBuf>,
    /// Which nodes had conversations.
    nodes: Vec<NodeShare>,
    /// The node that the daemon with the file becomes.
    home: Option<String>,
    /// Conversations that are at home there.
    at_home: u64,
}

fn copy(args: &CopyArgs, common: &Common, environment: &Environment) -> anyhow::Result<CopyView> {
    let (file, state_dir) = (common.config.as_deref(), common.state_dir.as_deref());
    let loaded = config::load(file, environment, state_dir)?;
    let state = StateDir::existing(&environment.state_dir(state_dir)?);
    let to = destination(&args.to, environment)?;
    let from = match database_url(&loaded.config)? {
        Some(url) => LedgerPlace::Postgres(Box::new(url)),
        None => LedgerPlace::Sqlite(state.ledger()),
    };
    let _locks = (lock(&from)?, lock(&to)?);
    let configured = loaded.config.daemon.key_file.as_deref();
    let place = KeyLocation::of(configured, environment.credentials_dir(), &state);
    let key = place.load().ok().map(|key| key.public());
    let becomes = becomes(&loaded, &state, &from, &to)?;
    let copy = LedgerCopy {
        from: &from,
        to: &to,
        key: key.as_ref(),
        is_running: &is_running,
        becomes: becomes.as_ref(),
        progress: &|_| (),
        now: Timestamp(jiff::Timestamp::now().as_millisecond()),
    };
    let report = copy.run()?;
    Ok(CopyView::of(
        &loaded,
        &state,
        &place,
        [&from, &to],
        becomes,
        report,
    ))
}

/// Where `--to` points.
fn destination(to: &str, environment: &Environment) -> anyhow::Result<LedgerPlace> {
    if to == "postgres" {
        let Some(url) = environment.ledger_copy_url() else {
            bail!("CODEX_BRIDGE_LEDGER_COPY_URL is not set; {NAME_THE_DATABASE}");
        };
        return Ok(LedgerPlace::Postgres(Box::new(PostgresUrl::new(&url)?)));
    }
    if !to.contains("://") {
        return Ok(LedgerPlace::Sqlite(std::path::absolute(to)?));
    }
    if has_password(to) {
        bail!(
            "the address on the command line has a password, which every user of this machine can read there; nothing was done. Change that password if others use this machine, and {NAME_THE_DATABASE}"
        );
    }
    Ok(LedgerPlace::Postgres(Box::new(PostgresUrl::new(to)?)))
}

/// Whether an address has a password in front of its host or among its parameters.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let named = parameters
        .split('&')
        .any(|parameter| parameter.starts_with("password=") || parameter.contains('@'));
    let user = place.rsplit_once('@').map(|(user, _)| user);
    named || user.is_some_and(|user| user.contains(':'))
}

/// Keeps a daemon from the directory of a file meanwhile. One in which no daemon ever ran has no lock.
fn lock(place: &LedgerPlace) -> anyhow::Result<Option<Lock>> {
    let LedgerPlace::Sqlite(path) = place else {
        return Ok(None);
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    if !directory.is_dir() {
        bail!(
            "there is no directory {}; name another one, or make it with `mkdir -m 700`",
            directory.display()
        );
    }
    let state = StateDir::existing(directory);
    state.may_enter()?;
    if !state.root().join("lock").exists() {
        return Ok(None);
    }
    Ok(Some(state.lock()?))
}

/// The node that this machine's daemon becomes with the copy.
fn becomes(
    loaded: &Loaded,
    state: &StateDir,
    from: &LedgerPlace,
    to: &LedgerPlace,
) -> anyhow::Result<Option<NodeId>> {
    match (from, to) {
        (LedgerPlace::Sqlite(path), LedgerPlace::Postgres(_)) if path.exists() => {
            node_id(&loaded.config, state).map(Some)
        }
        _ => Ok(None),
    }
}

/// Whether a process that the database knows is one of this machine, and alive.
fn is_running(incarnation: &Incarnation) -> bool {
    let here = process::boot_id().is_ok_and(|boot| boot == incarnation.boot_id);
    here && process::alive(&incarnation.keeper)
}

fn named(place: &LedgerPlace) -> String {
    match place {
        LedgerPlace::Sqlite(path) => path.display().to_string(),
        LedgerPlace::Postgres(url) => url.place(),
    }
}

impl CopyView {
    fn of(
        loaded: &Loaded,
        state: &StateDir,
        key: &KeyLocation,
        [from, to]: [&LedgerPlace; 2],
        becomes: Option<NodeId>,
        report: CopyReport,
    ) -> Self {
        let wanted_at = match to {
            LedgerPlace::Sqlite(path) => path
                .parent()
                .map(|directory| StateDir::existing(directory).key_file()),
            LedgerPlace::Postgres(_) => None,
        };
        let usual = loaded.codex_home().map(Path::to_owned);
        let others = report.codex_homes.into_iter().map(PathBuf::from);
        let mut codex_homes: Vec<PathBuf> = usual.into_iter().chain(others).collect();
        codex_homes.dedup();
        let found = key.load_signer(report.signer);
        Self {
            from: named(from),
            to: named(to),
            tables: report.tables,
            unfinished: report.unfinished,
            audit: AuditState {
                ok: report.audit.is_ok(),
                said: verdict(&report.audit),
            },
            key: CopyKey {
                path: key.path().to_owned(),
                signer: report.signer.map(|signer| signer.to_string()),
                missing: found.err().map(|missing| missing.to_string()),
                wanted_at,
            },
            files: CopyFiles {
                directory: state.files(),
                named: report.with_files,
                stored: report.stored_files,
                work: state.work(),
            },
            threads: CopyThreads {
                conversations: report.threads,
                stored: report.stored_threads,
                codex_homes,
                nodes: report.nodes,
                home: becomes.map(|node| node.to_string()),
                at_home: report.at_home,
            },
        }
    }

    fn is_file(&self) -> bool {
        self.key.wanted_at.is_some()
    }
}

fn in_words(view: &CopyView) -> String {
    let rows: u64 = view.tables.iter().map(|table| table.rows).sum();
    let mut words = format!(
        "the database is copied: {rows} rows in {} tables, and every table has the digest of its source\n  from  {}\n  to    {}\n\n{:<14}{:>10}  SHA-256\n",
        view.tables.len(),
        view.from,
        view.to,
        "table",
        "rows",
    );
    for table in &view.tables {
        let digest = table.digest.get(..DIGEST_SHOWN).unwrap_or(&table.digest);
        words.push_str(&format!(
            "{:<14}{:>10}  {digest}\n",
            table.table, table.rows
        ));
    }
    words.push_str(&format!(
        "\nthe audit record is {} in both\n{} messages are not finished; the daemon of the copy goes on with them\n\nnot in the database, and to be brought along:\n",
        view.audit.said, view.unfinished
    ));
    words.push_str(&format!("  key      {}\n", key_words(&view.key)));
    words.push_str(&format!("  files    {}\n", file_words(view)));
    words.push_str(&format!("  threads  {}\n\n", thread_words(view)));
    words.push_str(&next_words(view));
    words
}

fn file_words(view: &CopyView) -> String {
    let CopyFiles {
        directory,
        named,
        stored,
        work,
    } = &view.files;
    let (directory, work) = (directory.display(), work.display());
    let files = if view.is_file() {
        format!(
            "{named} messages and replies name some; {stored} files are in the copy, and its daemon takes them from there"
        )
    } else {
        format!(
            "{named} messages and replies name some of {directory}: the daemon with this state directory stores them in the database when it starts"
        )
    };
    format!("{files}; working directories are in {work}")
}

fn key_words(key: &CopyKey) -> String {
    let path = key.path.display();
    let whose = key.signer.as_deref().unwrap_or("no audit record names it");
    let needed = match (&key.missing, &key.wanted_at) {
        (Some(missing), _) => {
            format!(
                "{missing}; find it: without it credentials and stored threads can't be read, and the audit goes on under another signature"
            )
        }
        (None, Some(at)) if *at == key.path => format!("{path} ({whose}), which is there"),
        (None, Some(at)) => format!("copy {path} ({whose}) to {}", at.display()),
        (None, None) => format!(
            "{path} ({whose}): every node needs this same file, as `key` in its state directory or as `daemon.key_file`"
        ),
    };
    if key.signer.is_none() && key.missing.is_some() {
        return "none was made yet".to_owned();
    }
    needed
}

fn thread_words(view: &CopyView) -> String {
    let CopyThreads {
        conversations,
        stored,
        codex_homes,
        nodes,
        home,
        at_home,
    } = &view.threads;
    let homes: Vec<String> = codex_homes
        .iter()
        .map(|home| home.join("sessions").display().to_string())
        .collect();
    let homes = homes.join(", ");
    let had: Vec<String> = nodes
        .iter()
        .map(|share| format!("{} ({})", share.node, share.conversations))
        .collect();
    let of_nodes = match had.as_slice() {
        [] => String::new(),
        had => format!(
            "; nodes and how many conversations they had: {}",
            had.join(", ")
        ),
    };
    if view.is_file() {
        return format!(
            "{homes}: {conversations} conversations go on with a thread{of_nodes}. A daemon with a file does not bring threads that are stored in the database ({stored}): copy what is missing from the sessions/ of those nodes; where two have a file of the same name, the longer one is the newer"
        );
    }
    let kept = match home {
        Some(home) => format!(
            "{at_home} of them are at home on this machine's node {home}, and no other node takes them while it lives"
        ),
        None => {
            "copy each to the CODEX_HOME of the node that shall have the conversation".to_owned()
        }
    };
    format!(
        "{homes}: {conversations} conversations go on with a thread; {kept}. {stored} threads are stored in the database, where every node finds them; each of the others is stored with its next turn, and until then Codex begins without its history elsewhere"
    )
}

fn next_words(view: &CopyView) -> String {
    let then = if view.is_file() {
        "remove `[ledger] url` (and CODEX_BRIDGE_LEDGER_URL) from the configuration, and start the daemon on the new state directory".to_owned()
    } else {
        "set `[ledger] url` (or CODEX_BRIDGE_LEDGER_URL) and start the daemon of this machine first, the other nodes after it".to_owned()
    };
    format!(
        "Next: {then}. Start no daemon on {} again: both would answer the same messages.",
        view.from
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_destinations_are_found() {
        for url in [
            "postgres://u:p@h/d",
            "postgres://u:@h/d",
            "postgresql://h/d?password=p",
            "postgres://h/d?sslmode=verify-full&password=p",
            "postgres://u:p?x@h/d",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "postgres://u@h/d",
            "postgres://h:5432/d",
            "postgres://u@/d?host=/run",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }
}
