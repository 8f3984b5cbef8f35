//! `codex-bridge send`, the whole process, as a person or a script has it.

use crate::stage::daemon::Daemon;
use crate::stage::{PATIENCE, Place};
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// From the start of the process to its end.
pub(super) async fn send(
    daemon: &Daemon,
    place: &Place,
    text: &str,
    answer: &str,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut command = daemon.command(place);
    let ended = timeout(PATIENCE, command.args(["send", text]).output()).await;
    let ended = ended.context("send does not end")??;
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&ended.stdout);
    ensure!(
        ended.status.success() && said.trim() == answer,
        "send ended with {} and said {said:?}: {}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(took)
}
