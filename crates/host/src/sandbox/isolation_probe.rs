//! Probes read isolation on this machine: a command in the sandbox tries to read a canary in every way we know.
//!
//! The command runs in the same sandbox and with the same profile as the commands of a thread, but without a model, a
//! login or the operator's configuration. The profile is built in `read_isolation`.

use crate::process::oneshot::{self, End};
use crate::sandbox::read_isolation::{IsolationBase, PROFILE, ReadGrants};
use bridge_core::limits::CONFIG_PROBE_MS;
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A command in the sandbox takes about 150 ms; what needs longer than this hangs.
const DEADLINE: Duration = Duration::from_secs(20);
/// Lines of stderr in a report.
const TAIL_LINES: usize = 4;
/// In files that no command may read.
const CANARY: &str = "canary-behind-the-shield";
/// In the command's own directory.
const OWN: &str = "own-ground";
/// In a file that is granted.
const GRANTED: &str = "granted-ground";
/// Reads the canary by its path, through a link, through the root of its own and the first process; then those in its
/// own directory that are hidden by name, a directory and a file; then its own file and what is granted beside it. Writes
/// in its own directory, in what is granted and outside of both.
const SCRIPT: &str = r#"cat "$1" link "/proc/self/root$1" "/proc/1/root$1" 2>/dev/null
cat hidden/canary token inward "/proc/self/root$PWD/hidden/canary" "/proc/self/root$PWD/token" 2>/dev/null
(echo x > made; echo x > "$2/made"; echo x > "$3") 2>/dev/null
cat own "$2/granted"; exit 0"#;

/// Result of [`probe_isolation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsolationResult {
    /// Commands run, see their own directory, and do not see the canary.
    Holds,
    /// A command saw the canary, or wrote where it may not.
    Leaks,
    /// Commands do not run behind it, or do not see their own directory; with the last words of Codex.
    Broken {
        /// The end of its stderr.
        tail: String,
    },
    /// No end within the deadline.
    Hangs,
}

impl fmt::Display for IsolationResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("it holds"),
            Self::Leaks => f.write_str("a command reached a file that it must not"),
            Self::Broken { tail } => write!(f, "commands do not run behind it: {tail}"),
            Self::Hangs => f.write_str("a command behind it did not end"),
        }
    }
}

/// Probes the isolation of `codex`, for turns that read and for turns that write. `native` is the executable that `codex`
/// becomes. `scratch` is made anew and removed again, in a private directory. Takes a fraction of a second, and blocks.
///
/// # Errors
///
/// The scratch directory can't be used, or Codex can't be started at all.
pub fn probe_isolation(
    codex: &Path,
    native: &Path,
    env: &[(OsString, OsString)],
    scratch: &Path,
) -> io::Result<IsolationResult> {
    for write in [false, true] {
        let _left = fs::remove_dir_all(scratch);
        fs::DirBuilder::new().mode(0o700).create(scratch)?;
        let tried = scratch
            .canonicalize()
            .and_then(|scratch| attempt(codex, native, env, &scratch, write));
        let _left = fs::remove_dir_all(scratch);
        match tried? {
            IsolationResult::Holds => {}
            bad => return Ok(bad),
        }
    }
    Ok(IsolationResult::Holds)
}

fn attempt(
    codex: &Path,
    native: &Path,
    env: &[(OsString, OsString)],
    scratch: &Path,
    write: bool,
) -> io::Result<IsolationResult> {
    let at = |name: &str| scratch.join(name);
    for name in ["home", "tmp", "work", "work/hidden", "also", "denied"] {
        fs::create_dir(at(name))?;
    }
    fs::write(at("also/granted"), GRANTED)?;
    for name in ["canary", "work/hidden/canary", "work/token"] {
        fs::write(at(name), CANARY)?;
    }
    fs::write(at("work/own"), OWN)?;
    std::os::unix::fs::symlink(at("canary"), at("work/link"))?;
    std::os::unix::fs::symlink(at("work/hidden/canary"), at("work/inward"))?;
    let hidden = [at("work/hidden"), at("work/token")].map(|place| place.display().to_string());
    let isolation = IsolationBase {
        codex: native.to_owned(),
        denied: at("denied"),
    };
    let keys = isolation.profile(ReadGrants {
        workdir: &at("work").display().to_string(),
        write,
        also: &[at("also").display().to_string()],
        hidden: &hidden,
    });
    let mut command = Command::new(codex);
    command.arg("sandbox");
    for (key, value) in &keys {
        command.args(["-c", &format!("{key}={}", toml(value))]);
    }
    command
        .args(["--permission-profile", PROFILE, "--cd"])
        .arg(at("work"))
        .args(["--", "/bin/sh", "-c", SCRIPT, "proof"])
        .args([at("canary"), at("also"), at("outside")])
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .env("CODEX_HOME", at("home"))
        .env("TMPDIR", at("tmp"))
        .current_dir(at("work"));
    let (end, output) = oneshot::run(command, DEADLINE, &mut |_| {})?;
    let seen = String::from_utf8_lossy(&output.stdout);
    let wrote = |name: &str| at(name).exists();
    if wrote("outside") || wrote("also/made") || (wrote("work/made") && !write) {
        return Ok(IsolationResult::Leaks);
    }
    let worked = seen.contains(OWN) && seen.contains(GRANTED) && wrote("work/made") == write;
    let said = oneshot::tail(&output.stderr, TAIL_LINES);
    Ok(judge(&end, &seen, worked, &said))
}

fn judge(end: &End, seen: &str, worked: bool, said: &str) -> IsolationResult {
    if seen.contains(CANARY) {
        return IsolationResult::Leaks;
    }
    match end {
        End::Overrun => IsolationResult::Hangs,
        End::Exited(status) if status.success() && worked => IsolationResult::Holds,
        End::Exited(_) if !said.is_empty() => IsolationResult::Broken {
            tail: said.to_owned(),
        },
        End::Exited(status) => IsolationResult::Broken {
            tail: format!("(it said nothing; {status})"),
        },
    }
}

/// A value as it is written on one line of TOML. A JSON text is one of TOML as well.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let entries: Vec<_> = table
                .iter()
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), toml(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// How long a failed probe counts: as long as a message waits by default until it is tried again. An operator has to
/// repair the machine, and every probe takes the slot of a turn.
const FAILURE_TTL: Duration = Duration::from_millis(CONFIG_PROBE_MS.unsigned_abs());

/// The result of the probe in one life of Codex: it runs when it is first needed, and not for every message.
#[derive(Debug, Default)]
pub(crate) struct ProbeCache(Mutex<CachedProbe>);

#[derive(Debug, Default)]
enum CachedProbe {
    #[default]
    Nothing,
    /// Counts for the whole life.
    Holds,
    Fails {
        since: Instant,
        why: String,
    },
}

impl ProbeCache {
    /// Runs `probe` unless its result is known. The lock is held meanwhile, so that concurrent callers share one probe.
    pub(crate) async fn ensure<F>(&self, probe: F) -> Result<(), String>
    where
        F: AsyncFnOnce() -> Result<(), String>,
    {
        let mut cached = self.0.lock().await;
        match &*cached {
            CachedProbe::Holds => return Ok(()),
            CachedProbe::Fails { since, why } if since.elapsed() < FAILURE_TTL => {
                return Err(why.clone());
            }
            CachedProbe::Nothing | CachedProbe::Fails { .. } => {}
        }
        let found = probe().await;
        *cached = match &found {
            Ok(()) => CachedProbe::Holds,
            Err(why) => CachedProbe::Fails {
                since: Instant::now(),
                why: why.clone(),
            },
        };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::tests::Tree;
    use std::cell::Cell;

    /// Does what the shielded command may do, in a profile that reads or writes.
    const HONEST: &str = r#"cat own "$6/granted"
case "$profile" in *'/work" = "write"'*) echo x > made;; esac"#;

    /// What is found of a program that is called as Codex is; `body` has the shielded command as arguments.
    fn found(body: &str) -> IsolationResult {
        let tree = Tree::new();
        let script = format!(
            "#!/bin/sh\nprofile=\"$*\"\nwhile [ \"$1\" != -- ]; do shift; done; shift\n{body}\n"
        );
        let codex = tree.file("codex", "755", &script);
        let path = std::env::var_os("PATH").unwrap();
        let scratch = tree.root.join("scratch");
        let result = probe_isolation(&codex, &codex, &[("PATH".into(), path)], &scratch).unwrap();
        assert!(!scratch.exists());
        result
    }

    #[test]
    fn missing_isolation_leaks() {
        assert_eq!(found("\"$@\""), IsolationResult::Leaks);
    }

    #[test]
    fn failing_probe_marks_isolation_broken() {
        let tail = "bwrap: no".to_owned();
        assert_eq!(
            found("echo 'bwrap: no' >&2; exit 1"),
            IsolationResult::Broken { tail }
        );
        assert!(matches!(found("exit 0"), IsolationResult::Broken { .. }));
    }

    #[test]
    fn probe_passes_when_only_grants_visible() {
        assert_eq!(found(HONEST), IsolationResult::Holds);
        assert!(matches!(found("cat own"), IsolationResult::Broken { .. }));
    }

    #[test]
    fn f1_writing_is_proved_too() {
        let everywhere = |place: &str| format!("{HONEST}; echo x > \"{place}\"");
        assert_eq!(found(&everywhere("$7")), IsolationResult::Leaks);
        assert_eq!(found(&everywhere("$6/made")), IsolationResult::Leaks);
        assert_eq!(
            found(&everywhere("made")),
            IsolationResult::Leaks,
            "a reader writes"
        );
        let never = "cat own \"$6/granted\"";
        assert!(matches!(found(never), IsolationResult::Broken { .. }));
    }

    #[test]
    fn probe_detects_visible_hidden_files() {
        assert_eq!(
            found(&format!("{HONEST}; cat hidden/canary")),
            IsolationResult::Leaks
        );
        assert_eq!(
            found(&format!("{HONEST}; cat token")),
            IsolationResult::Leaks
        );
    }

    #[test]
    fn renders_json_as_inline_toml() {
        let value = serde_json::json!({"a b": {"c\"": false}, "d": ["e"]});
        assert_eq!(
            toml(&value),
            r#"{ "a b" = { "c\"" = false }, "d" = ["e"] }"#
        );
    }

    #[tokio::test(start_paused = true)]
    async fn probe_cache_expires_failures_only() {
        let cache = ProbeCache::default();
        let trials = Cell::new(0);
        let ask = async |found: Result<(), String>| {
            cache
                .ensure(async || {
                    trials.set(trials.get() + 1);
                    found
                })
                .await
        };
        let fails = || Err("no".to_owned());
        for _ in 0..3 {
            assert_eq!(ask(fails()).await, fails());
        }
        assert_eq!(trials.get(), 1);
        tokio::time::advance(FAILURE_TTL).await;
        assert_eq!(ask(fails()).await, fails(), "tried again");
        assert_eq!(trials.get(), 2);
        tokio::time::advance(FAILURE_TTL).await;
        assert_eq!(ask(Ok(())).await, Ok(()));
        tokio::time::advance(10 * FAILURE_TTL).await;
        assert_eq!(ask(fails()).await, Ok(()), "known for this life");
        assert_eq!(trials.get(), 3);
    }
}
