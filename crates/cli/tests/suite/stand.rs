//! A world with a platform in it: messages come from outside, replies go back there, and a daemon can be
//! made to die at a named place.

use crate::world::{Daemon, Running, World, within};
use bridge_sim::history::{Event, Fact, RowId, Word};
use bridge_sim::{Memory, Platform, PlatformOptions};

/// A world and the platform that its daemons serve.
pub(crate) struct Stand {
    pub(crate) world: World,
    pub(crate) platform: Platform,
}

/// How a stand is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) memory: Memory,
    pub(crate) transport: &'static str,
}

pub(crate) const SOCKET: Setup = Setup {
    memory: Memory::Idempotent,
    transport: "socket",
};
pub(crate) const STDIO: Setup = Setup {
    transport: "stdio",
    ..SOCKET
};
pub(crate) const PROBEABLE: Setup = Setup {
    memory: Memory::Probeable,
    ..SOCKET
};

impl Stand {
    pub(crate) async fn new(setup: Setup) -> Self {
        let options = PlatformOptions {
            memory: setup.memory,
            ..PlatformOptions::default()
        };
        let platform = Platform::start(options).await.unwrap();
        let sink = match setup.memory {
            Memory::Idempotent => "idempotent",
            Memory::Probeable => "probeable",
            Memory::Blind => "blind",
        };
        let settings = format!(
            "[codex]\ntransport = \"{}\"\nrestarts_per_minute = 600\n\
             [turn]\nbackoff_base_ms = 50\n\
             [loopback]\nurl = \"{}\"\nsink = \"{sink}\"\ntier = \"owner\"\n",
            setup.transport,
            platform.url(),
        );
        let world = World::with_settings(&settings).await;
        Self { world, platform }
    }

    /// Somebody says something.
    pub(crate) fn post(&self, conversation: &str, text: &str) -> RowId {
        self.platform.post(conversation, "ann", text).unwrap()
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

    /// Waits until a message has its answer on the platform and is acknowledged.
    pub(crate) async fn settled(&self, row: RowId) {
        let what = format!("the answer to {row} and its ack");
        let done = |history: &[Event]| answers(history, row) > 0 && acks(history, row) > 0;
        self.platform.wait_for(&what, done).await.unwrap();
    }

    /// How often the answer to a message became visible.
    pub(crate) fn answers(&self, row: RowId) -> usize {
        answers(&self.platform.history(), row)
    }

    /// One daemon to the end of a message's life, and a clean stop.
    pub(crate) async fn finishes(&self, row: RowId) {
        let daemon: Daemon = self.world.daemon().await;
        self.settled(row).await;
        assert_eq!(daemon.stop().await, Some(0));
        assert_eq!(self.answers(row), 1, "the answer to {row} is seen once");
    }
}

fn answers(history: &[Event], row: RowId) -> usize {
    let answer = |event: &&Event| matches!(&event.fact, Fact::Visible { row: to, word: Word::Answer, .. } if *to == row);
    history.iter().filter(answer).count()
}

fn acks(history: &[Event], row: RowId) -> usize {
    let ack = |event: &&Event| matches!(&event.fact, Fact::Acked { row: to } if *to == row);
    history.iter().filter(ack).count()
}
