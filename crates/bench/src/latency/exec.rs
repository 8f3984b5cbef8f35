//! One `codex exec` per message, as the ancestor did it: the text on stdin, the answer on stdout, a process each time.

use crate::stage::app_server::SETTINGS;
use crate::stage::{PATIENCE, Place};
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Begins a session and gives its id.
pub(crate) async fn begin(codex: &Path, place: &Place, text: &str) -> anyhow::Result<String> {
    let mut command = command(codex, place);
    command.args(["--json", "-"]);
    let (said, _) = run(command, text).await?;
    let mut events = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let id = events.find_map(|event| Some(event.get("thread_id")?.as_str()?.to_owned()));
    id.with_context(|| format!("codex exec named no session: {said}"))
}

/// One message of a new session.
pub(crate) async fn new(
    codex: &Path,
    place: &Place,
    text: &str,
    answer: &str,
) -> anyhow::Result<Duration> {
    let mut command = command(codex, place);
    command.arg("-");
    answered(run(command, text).await?, answer)
}

/// One message of a session that was begun.
pub(crate) async fn resume(
    codex: &Path,
    place: &Place,
    session: &str,
    text: &str,
    answer: &str,
) -> anyhow::Result<Duration> {
    let mut command = command(codex, place);
    command.args(["resume", session, "-"]);
    answered(run(command, text).await?, answer)
}

fn answered((said, took): (String, Duration), answer: &str) -> anyhow::Result<Duration> {
    ensure!(
        said.trim() == answer,
        "codex exec answered {said:?}, not {answer:?}"
    );
    Ok(took)
}

fn command(codex: &Path, place: &Place) -> Command {
    let mut command = Command::new(codex);
    command.args(["exec", "--skip-git-repo-check", "-s", "workspace-write"]);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
        .envs(place.env())
        .current_dir(place.path().join("work"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// From the start of the process to its end.
async fn run(mut command: Command, text: &str) -> anyhow::Result<(String, Duration)> {
    let began = Instant::now();
    let mut child = command.spawn().context("start codex exec")?;
    let mut input = child.stdin.take().context("no stdin")?;
    let ended = async {
        input.write_all(text.as_bytes()).await?;
        drop(input);
        child.wait_with_output().await
    };
    let ended = timeout(PATIENCE, ended).await;
    let ended = ended.context("codex exec does not end")??;
    let took = began.elapsed();
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        bail!("codex exec ended with {}: {said}", ended.status);
    }
    Ok((String::from_utf8(ended.stdout)?, took))
}
