//! A world with conversations on Molecule in a box: messages come from outside, replies go back there, and a daemon can
//! be made to die at a named place.

use crate::world::{Daemon, Running, World, within};
use bridge_sim::history::{Event, Fact, RowId, Word};
use bridge_sim::{SinkKind, Talks, TalksOptions};
use std::fs::File;
use std::io::Write;

/// Peers may do what owners may, so that it does not matter who writes.
const FREE_PEERS: &str = "[tiers.peer]\nprofile = \"workspace-agent\"\nreads = \"disk\"\n";

/// A world and the conversations that its daemons serve.
pub(crate) struct Stand {
    pub(crate) world: World,
    pub(crate) talks: Talks,
}

/// How a stand is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) kind: SinkKind,
    pub(crate) transport: &'static str,
    /// Further lines of the section `[molecule]`.
    pub(crate) keys: &'static str,
}

pub(crate) const SOCKET: Setup = Setup {
    kind: SinkKind::Idempotent,
    transport: "socket",
    keys: "",
};
pub(crate) const STDIO: Setup = Setup {
    transport: "stdio",
    ..SOCKET
};
pub(crate) const PROBEABLE: Setup = Setup {
    kind: SinkKind::Probeable,
    ..SOCKET
};

/// Adds these lines to codex-bridge.toml.
pub(crate) fn configure(world: &World, lines: &str) {
    let mut config = File::options()
        .append(true)
        .create(true)
        .open(world.config_file())
        .unwrap();
    config.write_all(lines.as_bytes()).unwrap();
}

/// Conversations that the daemons of this world serve.
pub(crate) async fn talks(world: &World, kind: SinkKind, keys: &str) -> Talks {
    let options = TalksOptions {
        kind,
        ..TalksOptions::default()
    };
    let talks = Talks::start(options).await.unwrap();
    configure(world, &talks.settings(world.path(), keys).unwrap());
    talks
}

impl Stand {
    pub(crate) async fn new(setup: Setup) -> Self {
        let settings = format!(
            "[codex]\ntransport = \"{}\"\nrestarts_per_minute = 600\n\
             [turn]\nbackoff_base_ms = 50\nconfig_probe_secs = 1\n{FREE_PEERS}",
            setup.transport,
        );
        let world = World::with_settings(&settings).await;
        let talks = talks(&world, setup.kind, setup.keys).await;
        Self { world, talks }
    }

    /// Somebody says something.
    pub(crate) fn post(&self, conversation: &str, text: &str) -> RowId {
        self.talks.post(conversation, text).unwrap()
    }

    /// Runs a daemon that dies at this place, and waits until it is dead.
    pub(crate) async fn dies_at(&self, point: &str) {
        let daemon = self.doomed(point);
        let ended = within("a death", daemon.ended()).await;
        assert_eq!(ended.code, None, "{point}: it was not killed: {ended:?}");
    }

    /// A daemon that will die at this place.
    pub(crate) fn doomed(&self, point: &str) -> Running {
        let mut command = self.world.command(&["run"]);
        command.env("CODEX_BRIDGE_FAIL_POINT", point);
        Running::of(command)
    }

    /// Waits until a message has its answer on the platform, and the daemon knows it.
    pub(crate) async fn settled(&self, row: RowId) {
        let what = format!("the answer to {row}");
        let done = |history: &[Event]| answers(history, row) > 0;
        self.talks.wait_for(&what, done).await.unwrap();
        self.quiet().await;
    }

    /// Waits until a message has any reply on the platform.
    pub(crate) async fn replied(&self, row: RowId) {
        let is_reply =
            |event: &Event| matches!(&event.fact, Fact::Visible { row: to, .. } if *to == row);
        let replied = |history: &[Event]| history.iter().any(is_reply);
        self.talks.wait_for("a reply", replied).await.unwrap();
    }

    /// Waits until the daemon has nothing to do for any message. Every look takes a process, so nothing spins.
    pub(crate) async fn quiet(&self) {
        let quiet = async {
            loop {
                let status = self.world.json(&["status", "--json"]).await;
                let count = |key: &str| status["summary"][key].as_u64().unwrap();
                let ended = count("answered") + count("dead") + count("cancelled");
                if count("sending") == 0 && ended >= self.talks.posted() as u64 {
                    return;
                }
            }
        };
        within("an end of every message", quiet).await;
    }

    /// How often the answer to a message became visible.
    pub(crate) fn answers(&self, row: RowId) -> usize {
        answers(&self.talks.history(), row)
    }

    /// One daemon to the end of a message's life, and a clean stop.
    pub(crate) async fn finishes(&self, row: RowId) {
        let daemon: Daemon = self.world.daemon().await;
        self.settled(row).await;
        assert_eq!(daemon.stop().await, Some(0));
        assert_eq!(self.answers(row), 1, "the answer to {row} is seen once");
    }
}

pub(crate) fn answers(history: &[Event], row: RowId) -> usize {
    let answer = |event: &&Event| matches!(&event.fact, Fact::Visible { row: to, word: Word::Answer, .. } if *to == row);
    history.iter().filter(answer).count()
}
