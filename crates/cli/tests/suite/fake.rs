//! The rig around `fake-codex`, for what the real Codex can't be made to do: its script, and what it was asked.

use crate::world::{Daemon, World, within};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Whoever waits is tried again soon.
const IMPATIENT: &str = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

/// Read-only turns touch nothing, so a cut one is simply begun again.
pub(crate) const READ_ONLY: &str = "[tiers.owner]\nsandbox = \"read-only\"\n";
/// One JSON per line, over pipes.
pub(crate) const PIPES: &str = "[codex]\ntransport = \"stdio\"\n";

/// A world whose Codex is the fake.
pub(crate) struct Fake {
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
}

pub(crate) fn binary() -> String {
    beside("fake-codex")
}

/// Where `cargo` puts a program of the sim: beside the binary that is tested.
pub(crate) fn beside(name: &str) -> String {
    let deps = std::env::current_exe().unwrap();
    let target: PathBuf = deps.ancestors().nth(2).unwrap().into();
    let program = target.join(name);
    assert!(
        program.is_file(),
        "there is no {}: build it with `cargo build -p bridge-sim --bins`",
        program.display()
    );
    program.display().to_string()
}

impl Fake {
    /// A daemon on the fake, which obeys these lines.
    pub(crate) async fn start(settings: &str, script: &str) -> Self {
        let world = World::with_settings(&format!("{IMPATIENT}{settings}")).await;
        std::fs::write(world.codex_home().join("fake.jsonl"), script).unwrap();
        let daemon = Self::daemon_of(&world).await;
        Self { world, daemon }
    }

    pub(crate) async fn daemon_of(world: &World) -> Daemon {
        world.daemon_with(&["--codex-bin", &binary()]).await
    }

    /// What the fake was asked under this name, over all its lives.
    pub(crate) fn calls(&self, at: &str) -> Vec<Value> {
        let path = self.world.codex_home().join("fake-calls.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|call| call["at"] == at)
            .collect()
    }

    /// The newest life of the fake.
    pub(crate) fn pid(&self) -> i32 {
        let starts = self.calls("start");
        i32::try_from(starts.last().unwrap()["pid"].as_i64().unwrap()).unwrap()
    }

    /// The texts it was given as turns.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.calls("turn/start")
            .iter()
            .map(|call| {
                call["what"]["input"][0]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    /// Waits until the fake was asked this so often.
    pub(crate) async fn asked(&self, at: &str, times: usize) {
        let mut look = tokio::time::interval(Duration::from_millis(5));
        within(at, async {
            while self.calls(at).len() < times {
                look.tick().await;
            }
        })
        .await;
    }

    /// The daemon lives and works on, and ends without leaving anything.
    pub(crate) async fn lives_on(self) {
        assert_eq!(
            self.world.ask("last", "echo:still here").await,
            "still here"
        );
        assert_eq!(self.daemon.stop().await, Some(0));
        assert_eq!(self.world.processes(), []);
    }
}

/// The most memory that a process ever had, in MiB.
pub(crate) fn peak_mib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() / 1024
}
