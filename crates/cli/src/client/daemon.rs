//! Starts a daemon for a person who has none: asks first, keeps its log in the state directory, waits until it serves.

use super::api::{ApiClient, ClientError};
use super::output::say;
use crate::cli::Common;
use anyhow::{Context, bail};
use bridge_core::deadline::after;
use bridge_daemon::state::StateError;
use bridge_host::start_detached;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use tokio::time::Instant;

/// The log of a daemon that was started like this, in the state directory.
const LOG: &str = "daemon.log";
/// How long a daemon may take to serve.
const START_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Offers to start a daemon where none runs and a person can say yes. Everybody else reads it in the command's error.
pub(crate) async fn offer_daemon(
    client: &ApiClient,
    common: &Common,
    json: bool,
) -> anyhow::Result<()> {
    let person = io::stdin().is_terminal() && io::stderr().is_terminal();
    let is_absent = matches!(
        client.expect_daemon(),
        Err(ClientError::State(StateError::NoDaemon { .. }))
    );
    if json || !person || !is_absent {
        return Ok(());
    }
    if !said_yes()? {
        return Ok(());
    }
    let state_dir = client.state_dir().to_owned();
    let log = state_dir.join(LOG);
    let mut child = spawn(&state_dir, common, &log)
        .with_context(|| format!("start a daemon on {}", state_dir.display()))?;
    let give_up = after(Instant::now(), START_MAX);
    while client.status().await.is_err() {
        if let Some(status) = child.try_wait()? {
            bail!(
                "the daemon did not start ({status}); its log {} says why",
                log.display()
            );
        }
        if Instant::now() > give_up {
            bail!(
                "the daemon is not ready yet; its log {} says why",
                log.display()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let pid = child.id();
    say(&format!(
        "→ a daemon runs now (pid {pid}), its log is {}; `kill {pid}` stops it, `codex-bridge service install --user` makes it start by itself",
        log.display()
    ));
    Ok(())
}

fn said_yes() -> io::Result<bool> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "no daemon runs; start one now? [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn spawn(state_dir: &Path, common: &Common, log: &Path) -> io::Result<Child> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state_dir)?;
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)?;
    let mut args = vec!["--state-dir".into(), state_dir.as_os_str().to_owned()];
    if let Some(config) = &common.config {
        args.extend(["--config".into(), config.as_os_str().to_owned()]);
    }
    args.push("run".into());
    start_detached(&std::env::current_exe()?, &args, log)
}
