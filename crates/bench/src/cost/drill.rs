//! The bridge's side: `codex-bridge drill` as a user would run it, with the report for programs. What the report means
//! belongs to `side`.

use super::side::Side;
use crate::ground::Ground;
use crate::stage::log::Log;
use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long a drill that is told to stop may take to end its daemon and Codex.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(ground: &Ground, seed: u64, patience: Duration) -> anyhow::Result<Side> {
    let mut child = Command::new(&ground.bridge)
        .args(["drill", "--json", "--sink", "probeable", "--codex-bin"])
        .arg(&ground.codex)
        .args(["--messages", &ground.plan.drilled.to_string()])
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start the drill")?;
    let log = Log::repeat(child.stderr.take().context("the drill has no stderr")?);
    let Some(ended) = within(patience, child).await? else {
        bail!(
            "the drill of the bridge hangs; it said last {:?}",
            log.last_words().await
        );
    };
    match read(&ended) {
        Ok(side) => Ok(side),
        Err(error) => Err(error.context(format!(
            "the drill of the bridge ended with {} and said last {:?}",
            ended.status,
            log.last_words().await
        ))),
    }
}

/// Nothing where it took too long. It is told to stop then, because it alone knows all that it started.
async fn within(patience: Duration, child: Child) -> anyhow::Result<Option<Output>> {
    let pid = i32::try_from(child.id().context("the drill has ended")?)?;
    let output = child.wait_with_output();
    tokio::pin!(output);
    if let Ok(ended) = timeout(patience, &mut output).await {
        return Ok(Some(ended.context("wait for the drill")?));
    }
    kill(Pid::from_raw(pid), Signal::SIGTERM).context("stop the drill")?;
    // One that does not stop is killed when it is dropped.
    let _stopped = timeout(STOP_PATIENCE, output).await;
    Ok(None)
}

/// A drill that saw a promise broken ends with a failure too; then its report says so, and the bar for that is missed.
fn read(ended: &Output) -> anyhow::Result<Side> {
    let side = Side::read(&ended.stdout)?;
    ensure!(
        ended.status.success() || !side.broken.is_empty(),
        "a drill that failed names nothing that is broken"
    );
    Ok(side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str) -> Output {
        std::process::Command::new("sh")
            .args(["-c", script])
            .output()
            .unwrap()
    }

    #[test]
    fn reads_failed_drill_only_with_reason() {
        let report = |broken: &str| {
            format!(
                r#"{{"sent":1,"answered":1,"dead":0,"lost":0,"doubled":0,"effects_twice":0,"asked_again":0,
                "daemon_kills":0,"codex_kills":0,"model_calls":1,"model_calls_needed":1,"input_tokens":8,
                "model_calls_per_answer":1.0,"input_tokens_per_answer":8.0,"broken":[{broken}]}}"#
            )
        };
        let whole = |broken: &str, exit: i32| {
            read(&ended(&format!("echo '{}'; exit {exit}", report(broken))))
        };
        assert!(whole("", 0).is_ok() && whole("\"lost\"", 1).is_ok());
        assert!(whole("", 1).is_err());
        assert!(read(&ended("exit 1")).is_err());
    }

    #[tokio::test]
    async fn hung_drill_times_out() {
        let child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let ended = within(Duration::from_millis(50), child).await.unwrap();
        assert!(ended.is_none());
    }
}
