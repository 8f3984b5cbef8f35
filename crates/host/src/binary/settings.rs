//! Whether a Codex knows the settings that it is started with. It ignores one that it does not know without a word, so
//! it is asked in its strict mode, with a CODEX_HOME of its own: what the operator's files say is another question.

use crate::keeper::launch::{CODEX_HOME, LaunchOptions};
use crate::process::oneshot::{self, End};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// It ends by itself at the end of its standard input, after a third of a second.
const DEADLINE: Duration = Duration::from_secs(20);
/// Lines of its output that a finding shows.
const TAIL_LINES: usize = 5;
/// How it names a setting that it does not know.
const UNKNOWN: &str = "unknown configuration field";

/// What a Codex makes of our settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsResult {
    Known,
    /// In its own words.
    Unknown(String),
    /// It could not be asked.
    Unclear(String),
}

/// Starts an app-server in its strict mode, which ends at once. `scratch` is made, in a private directory. Blocks.
///
/// # Errors
///
/// It could not be started.
pub fn probe_settings(launch: &LaunchOptions, scratch: &Path) -> io::Result<SettingsResult> {
    std::fs::create_dir(scratch)?;
    let env = launch.env.iter().filter(|(name, _)| name != CODEX_HOME);
    let mut command = Command::new(&launch.codex);
    command
        .args(["app-server", "--strict-config", "--listen", "stdio://"])
        .env_clear()
        .envs(env.map(|(name, value)| (name, value)))
        .env(CODEX_HOME, scratch)
        .current_dir(scratch);
    for setting in launch.overrides() {
        command.args(["-c", &setting]);
    }
    let (end, output) = oneshot::run(command, DEADLINE, &mut |_| {})?;
    let said = String::from_utf8_lossy(&output.stderr);
    let unknown = said.lines().find(|line| line.contains(UNKNOWN));
    Ok(match (end, unknown) {
        (End::Exited(status), None) if status.success() => SettingsResult::Known,
        (_, Some(line)) => SettingsResult::Unknown(oneshot::tail(line.as_bytes(), 1)),
        (End::Exited(_), None) => {
            SettingsResult::Unclear(oneshot::tail(&output.stderr, TAIL_LINES))
        }
        (End::Overrun, None) => {
            let seconds = DEADLINE.as_secs();
            SettingsResult::Unclear(format!("it did not end within {seconds} s"))
        }
    })
}
