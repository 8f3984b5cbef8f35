//! Several CODEX_HOMEs: each has a Codex of its own, with its own threads, and all that is said about a turn reaches
//! the Codex that runs it. Driven through the agent itself, over the real Codex.

use crate::agent::{self, Codex};
use crate::world::{World, gone};
use bridge_core::port::{
    Agent, Ledger, LostTurn, Started, Steer, Steered, ThreadSpec, TurnSpec, TurnStatus,
};
use bridge_core::value::{Class, ClientId, ThreadId, TurnId};
use bridge_host::{CodexAgent, CodexStream, HostOptions};
use bridge_testkit::MemoryLedger;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another home with the same model behind it.
fn other_home(world: &World, name: &str) -> PathBuf {
    let home = world.path().join(name);
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("config.toml"), world.model.codex_config()).unwrap();
    home
}

fn spec_in(world: &World, home: &Path) -> ThreadSpec {
    ThreadSpec {
        codex_home: Some(home.display().to_string()),
        agents: Vec::new(),
        ..agent::spec(world)
    }
}

fn turn(thread: &ThreadId, spec: &ThreadSpec, id: &str, text: &str) -> TurnSpec {
    TurnSpec {
        thread: thread.clone(),
        spec: spec.clone(),
        client_id: ClientId::new(id),
        text: text.to_owned(),
        images: Vec::new(),
        trace: None,
    }
}

/// A turn that waits at this gate.
async fn held(
    world: &World,
    codex: &Codex,
    spec: &ThreadSpec,
    gate: &str,
) -> (TurnSpec, TurnId, CodexStream) {
    codex.ready(spec.codex_home.as_deref()).await.unwrap();
    let thread = codex.open_thread(spec).await.unwrap();
    let turn = turn(&thread, spec, "m1.1", &format!("hold:{gate} echo:{gate}"));
    let Started { turn_id, stream } = codex.start_turn(&turn).await.unwrap();
    world.model.wait_held(gate).await.unwrap();
    (turn, turn_id, stream)
}

#[tokio::test]
async fn each_home_has_its_own_codex() {
    let world = World::new().await;
    let home = other_home(&world, "second");
    let ledger = MemoryLedger::new();
    let codex = agent::codex_over(&world, ledger.clone());
    let usual = agent::spec(&world);
    let other = spec_in(&world, &home);
    let (first, _, first_stream) = held(&world, &codex, &usual, "one").await;
    let (second, second_id, second_stream) = held(&world, &codex, &other, "two").await;
    let lives = ledger.read(|rows| rows.live_incarnations()).await.unwrap();
    let mut homes: Vec<_> = lives.iter().map(|life| life.codex_home.clone()).collect();
    homes.sort();
    let real = home.canonicalize().unwrap().display().to_string();
    assert_eq!(homes, [None, Some(real.clone())]);
    assert!(home.join("sessions").is_dir() && world.codex_home().join("sessions").is_dir());
    let health = codex.homes().await;
    assert!(
        matches!(health.as_slice(), [(named, health)] if *named == real && health.ready),
        "{health:?}"
    );

    assert_eq!(codex.probe(&second.thread).await, Ok(()));
    let steer = Steer {
        thread: second.thread.clone(),
        turn_id: second_id,
        client_id: ClientId::new("m2.1"),
        text: "echo:steered".to_owned(),
    };
    assert_eq!(codex.steer(&steer).await, Ok(Steered::Taken));
    world.model.release("two");
    assert_eq!(
        agent::end(second_stream).await.answer.as_deref(),
        Some("steered")
    );
    codex.end_life(&second.thread, "a test").await;
    // Nobody has that one, so nobody ends for it.
    codex.end_life(&ThreadId::new("elsewhere"), "a test").await;
    assert_eq!(codex.probe(&first.thread).await, Ok(()));
    world.model.release("one");
    assert_eq!(
        agent::end(first_stream).await.answer.as_deref(),
        Some("one")
    );
    codex.stop().await;
    assert_eq!(world.processes(), []);
    let lives = ledger.read(|rows| rows.live_incarnations()).await.unwrap();
    assert_eq!(lives, []);
}

#[tokio::test]
async fn next_daemon_adopts_every_home() {
    let world = World::new().await;
    let home = other_home(&world, "second");
    let ledger = MemoryLedger::new();
    let codex = agent::codex_over(&world, ledger.clone());
    let spec = spec_in(&world, &home);
    let incarnation = codex.ready(spec.codex_home.as_deref()).await.unwrap();
    let (turn, turn_id, stream) = held(&world, &codex, &spec, "gate").await;
    drop(stream);
    codex.hand_over().await;

    let codex = agent::codex_over(&world, ledger);
    codex.adopt().await.unwrap();
    let lost = LostTurn {
        turn: turn.clone(),
        turn_id: None,
        after_turn: None,
        incarnation,
    };
    let stream = codex.look_up(&lost).await.unwrap().stream.unwrap();
    let stopped = codex.interrupt(&turn.thread, &turn_id).await;
    assert_eq!(stopped, Ok(()));
    assert_eq!(agent::end(stream).await.status, TurnStatus::Interrupted);
    codex.stop().await;
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn idle_home_ends_and_restarts() {
    let world = World::new().await;
    let home = other_home(&world, "second");
    let mut options: HostOptions = agent::options(&world);
    options.launch.linger = Duration::from_secs(1);
    let codex = CodexAgent::new(options, MemoryLedger::new());
    let spec = spec_in(&world, &home);
    let (turn, _, stream) = held(&world, &codex, &spec, "gate").await;
    let pid = world.codex_pid();
    world.model.release("gate");
    assert_eq!(agent::end(stream).await.answer.as_deref(), Some("gate"));
    gone(pid).await;
    assert_eq!(codex.homes().await, []);
    codex.resume_thread(&turn.thread, &spec).await.unwrap();
    let again = self::turn(&turn.thread, &spec, "m2.1", "echo:again");
    let Started { stream, .. } = codex.start_turn(&again).await.unwrap();
    assert_eq!(agent::end(stream).await.answer.as_deref(), Some("again"));
    codex.stop().await;
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn missing_home_fails_default_is_reused() {
    let world = World::new().await;
    let codex = agent::codex(&world);
    let missing = world.path().join("missing").display().to_string();
    for home in [missing.as_str(), "relative"] {
        let fault = codex.ready(Some(home)).await.unwrap_err();
        assert_eq!(fault.failure.class, Class::Config);
        assert!(fault.failure.reason.contains(home), "{fault}");
    }
    let usual = world.codex_home().display().to_string();
    let named = codex.ready(Some(&usual)).await.unwrap();
    assert_eq!(codex.ready(None).await, Ok(named));
    assert_eq!(codex.homes().await, []);
    codex.stop().await;
}
