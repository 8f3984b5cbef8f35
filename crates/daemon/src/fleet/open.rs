//! Opens the database that the configuration names: a file of this daemon's own, or a server's that a fleet shares.

use super::NodeSettings;
use super::lease::codex_until;
use crate::config::{Config, LedgerUrl, is_node_name};
use crate::ledger_key::KeyLocation;
use crate::process::ids;
use crate::state::StateDir;
use anyhow::{Context, bail};
use bridge_core::value::NodeId;
use bridge_host::keeper::{BootInstant, KeeperLease};
use bridge_store::{
    AnyLedger, KeyAge, LedgerKey, PostgresLedger, PostgresOpenError, PostgresOptions, PostgresUrl,
    SqliteLedger,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Longest password that is read.
const PASSWORD_MAX: u64 = 4096;
/// Longest part of the machine's name in the name of a node.
const HOST_CHARS: usize = 32;

/// A ledger, and what this daemon is in it.
pub(crate) struct OpenedLedger {
    pub(crate) ledger: AnyLedger,
    pub(crate) node: Option<NodeSettings>,
}

/// How long a server that can't be reached is asked again, and how often. It may only be starting, and a service manager
/// gives a daemon up that ends a few times in a minute.
const REACH_MAX: Duration = Duration::from_secs(60);
const REACH_PAUSE: Duration = Duration::from_secs(1);

/// Opens the ledger. It blocks on the disk or the server.
pub(crate) async fn open(
    config: &Config,
    key: &KeyLocation,
    state: &StateDir,
) -> anyhow::Result<OpenedLedger> {
    let key = load(key)?;
    let Some(url) = database_url(config)? else {
        let ledger = SqliteLedger::open(state.ledger(), &key, bridge_store::Options::default())?;
        return Ok(OpenedLedger {
            ledger: AnyLedger::Sqlite(ledger),
            node: None,
        });
    };
    let (node_id, lease) = (
        node_id(config, state)?,
        Duration::from_secs(config.fleet.lease_secs),
    );
    let options = PostgresOptions {
        lease,
        ..PostgresOptions::default()
    };
    let began = Instant::now();
    let mut logged = false;
    let (before, ledger) = loop {
        // Before the database is asked: a lease that it gives begins later.
        let before = BootInstant::now();
        match PostgresLedger::open(&url, &node_id, &key, options) {
            Err(error @ PostgresOpenError::Unreachable { .. }) if began.elapsed() < REACH_MAX => {
                if !logged {
                    let seconds = REACH_MAX.as_secs();
                    tracing::warn!(seconds, "{error}; it is tried again for a while");
                }
                logged = true;
                tokio::time::sleep(REACH_PAUSE).await;
            }
            opened => break (before, opened?),
        }
    };
    for warning in ledger.warnings() {
        tracing::warn!(database = ledger.place(), "{warning}");
    }
    tracing::info!(node = %node_id, database = ledger.place(), "the database is shared: this daemon is one node of a fleet");
    Ok(OpenedLedger {
        ledger: AnyLedger::Postgres(ledger),
        node: Some(NodeSettings {
            node_id,
            lease,
            keepers: KeeperLease::new(codex_until(before, lease)),
            fenced: CancellationToken::new(),
        }),
    })
}

fn load(place: &KeyLocation) -> anyhow::Result<LedgerKey> {
    let key = place.load_or_create()?;
    if key.age() == KeyAge::New {
        tracing::info!(key = %place.path().display(), "the database's key is made; keep a copy of it elsewhere, it is in no backup");
    }
    Ok(key)
}

/// The PostgreSQL database that the configuration names, with its password; `None` where the ledger is a file in the state
/// directory.
pub fn database_url(config: &Config) -> anyhow::Result<Option<PostgresUrl>> {
    let password = config.ledger.password_file.as_deref();
    let url = config.ledger.url.as_ref();
    url.map(|url| address(url, password)).transpose()
}

/// The address with its password, which a file may hold.
fn address(url: &LedgerUrl, password_file: Option<&Path>) -> anyhow::Result<PostgresUrl> {
    let Some(path) = password_file else {
        return Ok(PostgresUrl::new(url.expose())?);
    };
    let doing = || format!("read the database's password from {}", path.display());
    let found = std::fs::metadata(path).with_context(doing)?;
    if found.permissions().mode() & 0o077 != 0 {
        bail!("{}: others may read it; run `chmod 600` on it", doing());
    }
    if found.len() > PASSWORD_MAX {
        bail!("{}: it is longer than {PASSWORD_MAX} bytes", doing());
    }
    let password = std::fs::read_to_string(path).with_context(doing)?;
    let password = utf8_percent_encode(password.trim_end_matches(['\r', '\n']), NON_ALPHANUMERIC);
    let url = url.expose();
    let joint = if url.contains('?') { '&' } else { '?' };
    Ok(PostgresUrl::new(&format!(
        "{url}{joint}password={password}"
    ))?)
}

/// The name of this node: the configured one, else the one that was made at the first start.
pub fn node_id(config: &Config, state: &StateDir) -> anyhow::Result<NodeId> {
    if let Some(name) = &config.fleet.node {
        return Ok(NodeId::new(name));
    }
    let path = state.node_file();
    match std::fs::read_to_string(&path) {
        Ok(name) if is_node_name(name.trim()) => return Ok(NodeId::new(name.trim())),
        Ok(_) => bail!(
            "{} holds no name of a node; write one into it, or remove it",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).context(format!("read {}", path.display())),
    }
    let name = new_name();
    let made = std::fs::write(&path, format!("{name}\n"));
    made.with_context(|| format!("write {}", path.display()))?;
    Ok(NodeId::new(name))
}

/// After the machine, and unlike any other.
fn new_name() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    let plain = host.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    });
    let host: String = plain.take(HOST_CHARS).collect();
    let random: String = ids::mark().chars().take(6).collect();
    match host.trim_matches('-') {
        "" => format!("node-{random}"),
        host => format!("{host}-{random}"),
    }
}
