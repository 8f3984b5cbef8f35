//! Threads that travel: the file of a thread is all that another CODEX_HOME needs, and a home that has an older branch
//! of it forgets that one. Two homes of the real Codex, driven through the agent.

use crate::agent::{Codex, end, options, spec};
use crate::world::{World, within};
use bridge_core::port::{Agent, LostTurn, Started, ThreadSpec, TurnHistory, TurnSpec, TurnStatus};
use bridge_core::value::{ClientId, IncarnationId, ThreadId, TurnId};
use bridge_host::rollout::{
    CodexHome, RestoreOutcome, RolloutChange, RolloutMark, RolloutPath, RolloutRestore, RolloutTail,
};
use bridge_host::{CodexAgent, CodexStream};
use bridge_testkit::MemoryLedger;

/// Smaller than a thread's first line.
const SEGMENT_BYTES: usize = 10_000;

/// A node: a CODEX_HOME and its Codex.
struct Node<'a> {
    world: &'a World,
    name: &'static str,
    codex: Codex,
}

/// What is stored of a thread: each file with its bytes.
type Stored = Vec<(RolloutPath, Vec<u8>)>;

impl<'a> Node<'a> {
    fn new(world: &'a World, name: &'static str) -> Self {
        let home = world.path().join(name);
        std::fs::create_dir(&home).unwrap();
        std::fs::copy(
            world.codex_home().join("config.toml"),
            home.join("config.toml"),
        )
        .unwrap();
        let mut options = options(world);
        options.launch.env.retain(|(name, _)| name != "CODEX_HOME");
        options.launch.env.push(("CODEX_HOME".into(), home.into()));
        options.launch.run_dir = world.path().join(format!("run-{name}"));
        let codex = CodexAgent::new(options, MemoryLedger::new());
        Self { world, name, codex }
    }

    fn home(&self) -> CodexHome {
        self.codex.rollouts(None).unwrap()
    }

    fn spec(&self) -> ThreadSpec {
        spec(self.world)
    }

    fn turn(&self, thread: &ThreadId, id: &str, text: &str) -> TurnSpec {
        TurnSpec {
            thread: thread.clone(),
            spec: self.spec(),
            client_id: ClientId::new(id),
            text: text.to_owned(),
            images: Vec::new(),
            trace: None,
        }
    }

    async fn begin(&self, thread: &ThreadId, id: &str, text: &str) -> Started<CodexStream> {
        self.codex
            .resume_thread(thread, &self.spec())
            .await
            .unwrap();
        let turn = self.turn(thread, id, text);
        self.codex.start_turn(&turn).await.unwrap()
    }

    async fn ask(&self, thread: &ThreadId, id: &str, text: &str) -> TurnId {
        let Started { turn_id, stream } = self.begin(thread, id, text).await;
        assert_eq!(end(stream).await.status, TurnStatus::Completed, "{id}");
        turn_id
    }

    /// Everything of a thread, as it would be stored.
    fn ship(&self, thread: &ThreadId) -> Stored {
        let home = self.home();
        let files = home.lineage(thread).unwrap();
        let all = files.into_iter().map(|file| {
            let mut tail = RolloutTail::new(file.path, RolloutMark::default());
            let mut bytes = Vec::new();
            while let RolloutChange::Appended(segment) = tail.read(&home, SEGMENT_BYTES).unwrap() {
                bytes.extend_from_slice(&segment.bytes);
                tail.stored(&segment);
            }
            (tail.path().clone(), bytes)
        });
        all.collect()
    }

    async fn restore(&self, stored: &Stored) -> Vec<RestoreOutcome> {
        let aside = self.world.path().join(format!("aside-{}", self.name));
        let mut restore = RolloutRestore::new(self.home(), aside);
        for (path, bytes) in stored {
            restore.file(path.clone()).unwrap();
            for (number, part) in bytes.chunks(SEGMENT_BYTES).enumerate() {
                restore
                    .append((number * SEGMENT_BYTES) as u64, part)
                    .unwrap();
            }
        }
        self.codex.restore_thread(None, restore).await.unwrap()
    }

    /// What Codex lists of a message.
    async fn history(&self, thread: &ThreadId, id: &str, after: &TurnId) -> TurnHistory {
        let lost = LostTurn {
            turn: self.turn(thread, id, ""),
            turn_id: None,
            after_turn: Some(after.clone()),
            incarnation: IncarnationId::new("elsewhere"),
        };
        self.codex.look_up(&lost).await.unwrap().found
    }

    fn newest(&self, thread: &ThreadId) -> Option<ClientId> {
        let home = self.home();
        home.newest_client_id(&home.lineage(thread).unwrap())
            .unwrap()
    }
}

#[tokio::test]
async fn thread_moves_amid_a_turn() {
    let world = World::new().await;
    let (here, there) = (Node::new(&world, "one"), Node::new(&world, "two"));
    let thread = here.codex.open_thread(&here.spec()).await.unwrap();
    let first = here.ask(&thread, "m1.1", "echo:first").await;
    let text = "shell:true ;; hold:gate echo:late";
    let _running = here.begin(&thread, "m2.1", text).await;
    world.model.wait_held("gate").await.unwrap();
    let written = async {
        loop {
            let stored = here.ship(&thread);
            let has_run = String::from_utf8_lossy(&stored[0].1).contains("function_call_output");
            if has_run {
                return stored;
            }
            tokio::task::yield_now().await;
        }
    };
    let stored = within("the command in the file", written).await;
    assert_eq!(there.restore(&stored).await, [RestoreOutcome::Written]);
    assert_eq!(there.newest(&thread), Some(ClientId::new("m2.1")));
    let TurnHistory::Turn(found) = there.history(&thread, "m2.1", &first).await else {
        panic!("the turn is not listed");
    };
    assert_eq!(found.status, TurnStatus::Interrupted);
    assert_eq!(found.effects.len(), 1, "{found:?}");
    there.ask(&thread, "m2.2", "echo:goes on").await;
    let shown = world.shown_with("echo:goes on");
    assert_eq!(shown, ["echo:first", text, "echo:goes on"]);
    world.model.release("gate");
    here.codex.stop().await;
    there.codex.stop().await;
}

/// A home that had the thread before has it loaded, and would go on from what it remembers.
#[tokio::test]
async fn moved_back_thread_is_forgotten_first() {
    let world = World::new().await;
    let (here, there) = (Node::new(&world, "one"), Node::new(&world, "two"));
    let thread = here.codex.open_thread(&here.spec()).await.unwrap();
    let first = here.ask(&thread, "m1.1", "echo:first").await;
    there.restore(&here.ship(&thread)).await;
    there.ask(&thread, "m2.1", "echo:second").await;
    let outcomes = here.restore(&there.ship(&thread)).await;
    let [RestoreOutcome::Extended { by }] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert!(*by > 0);
    here.ask(&thread, "m3.1", "echo:third").await;
    let shown = world.shown_with("echo:third");
    assert_eq!(shown, ["echo:first", "echo:second", "echo:third"]);
    let second = here.history(&thread, "m2.1", &first).await;
    assert!(matches!(second, TurnHistory::Turn(_)), "{second:?}");
    let kept = here.restore(&there.ship(&thread)).await;
    assert!(matches!(
        kept.as_slice(),
        [RestoreOutcome::Kept { longer_by: 1.. }]
    ));
    here.codex.stop().await;
    there.codex.stop().await;
}

#[tokio::test]
async fn diverged_home_is_cured() {
    let world = World::new().await;
    let (here, there) = (Node::new(&world, "one"), Node::new(&world, "two"));
    let thread = here.codex.open_thread(&here.spec()).await.unwrap();
    let other = here.codex.open_thread(&here.spec()).await.unwrap();
    let first = here.ask(&thread, "m1.1", "echo:first").await;
    let others = here.ask(&other, "o1.1", "echo:another conversation").await;
    there.restore(&here.ship(&thread)).await;
    here.ask(&thread, "m2.1", "echo:old branch").await;
    there.ask(&thread, "m2.2", "echo:new branch").await;
    there.ask(&thread, "m3.1", "echo:and on").await;
    let old = here.ship(&thread);
    let outcomes = here.restore(&there.ship(&thread)).await;
    let [RestoreOutcome::Replaced { aside }] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert_eq!(std::fs::read(aside).unwrap(), old[0].1, "nothing is lost");
    for id in ["m2.2", "m3.1"] {
        let found = here.history(&thread, id, &first).await;
        assert!(matches!(found, TurnHistory::Turn(_)), "{id}: {found:?}");
    }
    let old = here.history(&thread, "m2.1", &first).await;
    assert!(!matches!(old, TurnHistory::Turn(_)), "{old:?}");
    here.ask(&thread, "m4.1", "echo:last").await;
    let shown = world.shown_with("echo:last");
    assert_eq!(
        shown,
        ["echo:first", "echo:new branch", "echo:and on", "echo:last"]
    );
    here.ask(&other, "o2.1", "echo:unharmed").await;
    let shown = world.shown_with("echo:unharmed");
    assert_eq!(shown, ["echo:another conversation", "echo:unharmed"]);
    assert_ne!(first, others);
    here.codex.stop().await;
    there.codex.stop().await;
}
