//! One `codex exec` for one message, as the ancestor ran it, with the settings that the bridge gives its Codex. A run
//! goes on when the ancestor is killed: nobody told it.

use crate::stage::app_server::SETTINGS;
use anyhow::Context;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// The longest run: the ancestor's own limit.
const RUN_MOST: Duration = Duration::from_secs(600);
/// Characters of a session's id.
const SESSION_CHARS: usize = 36;

/// What came of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) text: String,
    pub(super) session: Option<String>,
    /// Below zero: the signal that ended it.
    pub(super) exit: i32,
}

#[derive(Debug)]
pub(super) struct Runner {
    codex: PathBuf,
}

impl Runner {
    pub(super) fn new(codex: PathBuf) -> Self {
        Self { codex }
    }

    pub(super) async fn run(&self, message: &str, session: Option<&str>) -> anyhow::Result<Run> {
        let mut command = Command::new(&self.codex);
        command.args(["exec", "--skip-git-repo-check"]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        if let Some(session) = session {
            command.args(["resume", session]);
        }
        command
            .arg(message)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn().context("start codex exec")?;
        let session = session.map(str::to_owned);
        let Ok(ended) = tokio::time::timeout(RUN_MOST, child.wait_with_output()).await else {
            return Ok(Run {
                text: format!("(codex exec timed out after {} s)", RUN_MOST.as_secs()),
                session,
                exit: -1,
            });
        };
        let output = ended.context("wait for codex exec")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        Ok(Run {
            text: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            session: session.or_else(|| session_in(&stderr)),
            exit: exit(output.status),
        })
    }
}

fn exit(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| -signal);
    status.code().or(signal).unwrap_or(-1)
}

/// The id in a line such as `session id: 0123…`, `session: 0123…` or `session_id=0123…`.
fn session_in(stderr: &str) -> Option<String> {
    stderr.lines().find_map(|line| {
        let (_, rest) = line.split_once("session")?;
        let rest = rest.strip_prefix(['_', ' ']).unwrap_or(rest);
        let rest = rest.strip_prefix("id").unwrap_or(rest);
        let id = rest
            .trim_start_matches([':', '=', ' '])
            .get(..SESSION_CHARS)?;
        let whole = id.chars().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        });
        whole.then(|| id.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_session_id_in_legacy_formats() {
        let id = "019a8b1c-0000-7abc-8def-0123456789ab";
        for line in ["session id: ", "session: ", "session_id="] {
            let stderr = format!("OpenAI Codex\nno session here\n{line}{id}\nuser");
            assert_eq!(session_in(&stderr).as_deref(), Some(id), "{line}");
        }
        assert_eq!(session_in("session id: none"), None);
    }
}
