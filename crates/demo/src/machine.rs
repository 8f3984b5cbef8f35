//! One machine of a fleet in a box: a daemon of our own binary with its own state directory and CODEX_HOME, which dies
//! with everything it runs, stands still, or loses its disk.

use bridge_core::value::ProcessStamp;
use bridge_host::process;
use bridge_host::process::child::{ChildOptions, ChildProcess, kill_now};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// What the log says once a daemon serves.
const READY: &str = " ready ";
/// What it says when the lease has ended.
const LEASE_LOST: [&str; 2] = [
    "the lease of this node has ended",
    "another daemon has taken over this database",
];
/// How much of a log is read: what was said since the daemon's start.
const LOG_MAX: u64 = 4 << 20;
/// Rounds of stopping what a machine runs; each finds what the one before had started meanwhile.
const STOP_ROUNDS: usize = 16;
/// How often it is looked whether what was killed is gone.
const GONE_ROUNDS: usize = 500;
const GONE_PAUSE: Duration = Duration::from_millis(10);

/// The daemon of one machine, if it runs, and its directory.
#[derive(Debug)]
pub(crate) struct Machine {
    directory: PathBuf,
    /// The log of all its lives.
    log: PathBuf,
    daemon: Option<ChildProcess>,
    /// Where in the log the present life begins.
    born_at: u64,
    frozen: Vec<ProcessStamp>,
}

/// Starts a daemon of our own binary on the disk at `directory`.
pub(crate) fn start_daemon(
    directory: &Path,
    log: &Path,
    env: &[(&str, &str)],
    without: &[&str],
) -> io::Result<ChildProcess> {
    let at = |name: &str| directory.join(name).into_os_string();
    let mut options = ChildOptions {
        program: std::env::current_exe()?,
        args: vec![
            "--state-dir".into(),
            at("state"),
            "--config".into(),
            at("codex-bridge.toml"),
            "run".into(),
        ],
        // Codex keeps a lock of its sandbox in the temporary directory, and a login shell that is killed while it reads
        // the user's profile leaves locks there.
        env: vec![
            ("TMPDIR".into(), at("tmp")),
            ("HOME".into(), at("person")),
            ("NO_COLOR".into(), "1".into()),
        ],
        without: without.iter().map(OsString::from).collect(),
        log: OpenOptions::new().create(true).append(true).open(log)?,
    };
    let env = env.iter().map(|(name, value)| (name.into(), value.into()));
    options.env.extend(env);
    ChildProcess::start(options)
}

impl Machine {
    /// A machine with an empty disk at `directory`.
    pub(crate) fn new(directory: PathBuf) -> io::Result<Self> {
        let machine = Self {
            log: directory.with_extension("log"),
            directory,
            daemon: None,
            born_at: 0,
            frozen: Vec::new(),
        };
        machine.make_disk()?;
        Ok(machine)
    }

    fn make_disk(&self) -> io::Result<()> {
        for name in ["home", "person", "tmp"] {
            std::fs::create_dir_all(self.directory.join(name))?;
        }
        Ok(())
    }

    pub(crate) fn codex_home(&self) -> PathBuf {
        self.directory.join("home")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// Writes what the daemon and its Codex are started with.
    pub(crate) fn configure(&self, config: &str, codex_config: &str) -> io::Result<()> {
        std::fs::write(self.codex_home().join("config.toml"), codex_config)?;
        std::fs::write(self.directory.join("codex-bridge.toml"), config)
    }

    /// Everything on it is gone for good.
    pub(crate) fn lose_disk(&self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.directory)?;
        self.make_disk()
    }

    pub(crate) fn start(&mut self, ledger_url: &str, without: &[&str]) -> io::Result<()> {
        self.born_at = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        let env = [("CODEX_BRIDGE_LEDGER_URL", ledger_url)];
        self.daemon = Some(start_daemon(&self.directory, &self.log, &env, without)?);
        Ok(())
    }

    pub(crate) fn pid(&self) -> Option<i32> {
        self.daemon.as_ref().map(ChildProcess::pid)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Whether its daemon runs and has said that it serves.
    pub(crate) fn serves(&self) -> bool {
        self.daemon.is_some() && !self.is_frozen() && self.said(READY)
    }

    /// Whether its daemon said, in its present or last life, that its lease has ended.
    pub(crate) fn said_lease_lost(&self) -> bool {
        LEASE_LOST.iter().any(|words| self.said(words))
    }

    /// Whether its last word, in its present or last life, was of the database.
    pub(crate) fn ended_for_database(&self) -> bool {
        names_the_database(&self.log_of_life())
    }

    /// Whether the log of its present or last life has these words.
    pub(crate) fn said(&self, words: &str) -> bool {
        self.log_of_life().contains(words)
    }

    fn log_of_life(&self) -> String {
        let read = || {
            let mut log = File::open(&self.log)?;
            log.seek(SeekFrom::Start(self.born_at))?;
            let mut said = Vec::new();
            log.take(LOG_MAX).read_to_end(&mut said)?;
            io::Result::Ok(said)
        };
        let said = read().unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// How its daemon ended, if it has ended by itself.
    pub(crate) async fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(None);
        };
        let Ok(ended) = tokio::time::timeout(Duration::ZERO, daemon.ended()).await else {
            return Ok(None);
        };
        let status = ended?;
        self.daemon = None;
        self.frozen.clear();
        Ok(Some(status))
    }

    /// Asks the daemon to stop. `None`: it was not running, or had to be killed.
    pub(crate) async fn stop(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        match self.daemon.take() {
            Some(mut daemon) => daemon.stop(patience).await,
            None => Ok(None),
        }
    }

    /// Ends everything that runs on it, at once. `strays` are children of ours that no daemon has any more.
    pub(crate) async fn die(&mut self, strays: &[i32]) -> io::Result<()> {
        let stopped = self.stop_all(strays);
        for process in stopped.values() {
            kill_now(process);
        }
        self.frozen.clear();
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().await?;
        }
        // A process writes no more once it was killed, but it may hold on to its files for a moment.
        for _ in 0..GONE_ROUNDS {
            if !stopped.values().any(process::alive) {
                break;
            }
            tokio::time::sleep(GONE_PAUSE).await;
        }
        Ok(())
    }

    /// Stops the daemon where it stands.
    pub(crate) fn freeze_daemon(&mut self) {
        let daemon = self.pid().and_then(process::stamp);
        self.frozen = daemon
            .into_iter()
            .filter(|it| send(it, Signal::SIGSTOP))
            .collect();
    }

    /// Stops everything that runs on it where it stands.
    pub(crate) fn freeze(&mut self, strays: &[i32]) {
        self.frozen = self.stop_all(strays).into_values().collect();
    }

    /// Lets everything go on that stands still.
    pub(crate) fn thaw(&mut self) {
        for process in self.frozen.drain(..) {
            send(&process, Signal::SIGCONT);
        }
    }

    /// Stops every process, until a look finds none that is new.
    fn stop_all(&self, strays: &[i32]) -> BTreeMap<i32, ProcessStamp> {
        let mut stopped = BTreeMap::new();
        let own = strays.iter().copied().filter(|pid| self.runs(*pid));
        let roots: Vec<i32> = self.pid().into_iter().chain(own).collect();
        for _ in 0..STOP_ROUNDS {
            let below = roots.iter().flat_map(|pid| process::descendants(*pid));
            let all = roots.iter().copied().chain(below);
            let new: Vec<_> = all
                .filter(|pid| !stopped.contains_key(pid))
                .filter_map(process::stamp)
                .collect();
            if new.is_empty() {
                break;
            }
            for process in new {
                send(&process, Signal::SIGSTOP);
                stopped.insert(process.pid, process);
            }
        }
        stopped
    }

    /// Whether a process was started with a path of this machine.
    fn runs(&self, pid: i32) -> bool {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains(&format!("{}/", self.directory.display()))
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

/// Signals a process that was alive a moment ago; false when it was gone already.
fn send(process: &ProcessStamp, signal: Signal) -> bool {
    process::alive(process) && kill(Pid::from_raw(process.pid), signal).is_ok()
}

/// Why a daemon ended is its log's last line.
fn names_the_database(log: &str) -> bool {
    let last = log.lines().rfind(|line| !line.trim().is_empty());
    last.is_some_and(|line| line.contains("database") && !line.contains("panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_of_the_database_are_its() {
        let begun = "INFO the database is shared\nWARN reach the database: it was tried for 4 s\n";
        for (last, is_its) in [
            (
                "codex-bridge: cannot open the database fleet on /tmp/x: use the database: gone\n\n",
                true,
            ),
            (
                "codex-bridge: reach the database: it was tried for 4 s\n",
                true,
            ),
            (
                "thread 'main' panicked at store.rs:1: the database\n",
                false,
            ),
            (
                "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                false,
            ),
        ] {
            assert_eq!(
                names_the_database(&format!("{begun}{last}")),
                is_its,
                "{last}"
            );
        }
        assert!(!names_the_database(""));
    }
}
