//! What the agent offers beside a message's way: a sign of life, and a text put into a running turn. Driven through
//! the agent itself, over the real Codex.

use crate::world::{World, freeze, gone, signal, within};
use bridge_core::port::{
    Agent, Reads, Started, Steer, Steered, ThreadSpec, TurnEnd, TurnEvent, TurnSpec, TurnStatus,
    TurnStream, TurnTransport,
};
use bridge_core::value::{ApprovalPolicy, Class, ClientId, Sandbox, ThreadId, Transport, TurnId};
use bridge_host::{
    CodexAgent, CodexStream, HostOptions, LaunchOptions, NewThreads, TransportChoice,
};
use bridge_sim::codex_for_tests;
use bridge_testkit::MemoryLedger;
use nix::sys::signal::Signal;
use std::time::Duration;

pub(crate) type Codex = CodexAgent<MemoryLedger>;

pub(crate) fn codex(world: &World) -> Codex {
    codex_over(world, MemoryLedger::new())
}

/// An agent that finds in this ledger what another one left.
pub(crate) fn codex_over(world: &World, ledger: MemoryLedger) -> Codex {
    CodexAgent::new(options(world), ledger)
}

pub(crate) fn options(world: &World) -> HostOptions {
    let env = [
        ("PATH", std::env::var_os("PATH").unwrap()),
        ("HOME", world.path().into()),
        ("CODEX_HOME", world.codex_home().into()),
    ];
    let codex = codex_for_tests().unwrap().canonicalize().unwrap();
    let launch = LaunchOptions {
        keeper: env!("CARGO_BIN_EXE_codex-bridge").into(),
        native: Ok(codex.clone()),
        codex,
        codex_version: "0.166.0".to_owned(),
        run_dir: world.path().join("run"),
        env: env.map(|(name, value)| (name.into(), value)).to_vec(),
        hidden_from_commands: Vec::new(),
        linger: Duration::from_secs(60),
        lease: None,
    };
    HostOptions {
        launch,
        transport: TransportChoice::Only(Transport::Socket),
        new_threads: NewThreads::Usual,
        api_key: None,
        restarts_per_minute: 5,
        memory_budget: None,
        threads_aside: world.path().join("threads-aside"),
        checks: None,
    }
}

pub(crate) fn spec(world: &World) -> ThreadSpec {
    ThreadSpec {
        workdir: world.path().display().to_string(),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::OnRequest,
        model: None,
        instructions: String::new(),
        reads: Reads::Disk,
        transport: TurnTransport::AppServer,
        codex_home: None,
        agents: Vec::new(),
    }
}

/// A turn that waits at the model's gate.
async fn held(world: &World, codex: &Codex) -> (ThreadId, TurnId, CodexStream) {
    let spec = spec(world);
    let thread = codex.open_thread(&spec).await.unwrap();
    let turn = TurnSpec {
        thread: thread.clone(),
        spec,
        client_id: ClientId::new("m1.1"),
        text: "hold:gate echo:first".to_owned(),
        images: Vec::new(),
        trace: None,
    };
    let Started { turn_id, stream } = codex.start_turn(&turn).await.unwrap();
    world.model.wait_held("gate").await.unwrap();
    (thread, turn_id, stream)
}

/// A second message for the turn.
fn second(thread: &ThreadId, turn_id: &TurnId, text: &str) -> Steer {
    Steer {
        thread: thread.clone(),
        turn_id: turn_id.clone(),
        client_id: ClientId::new("m2.1"),
        text: text.to_owned(),
    }
}

/// How the turn ended.
pub(crate) async fn end(mut stream: CodexStream) -> TurnEnd {
    within("the end of a turn", async {
        loop {
            match stream.next().await {
                TurnEvent::Ended(end) => return end,
                TurnEvent::Lost { why } => panic!("{why}"),
                TurnEvent::Named { .. }
                | TurnEvent::Alive
                | TurnEvent::Raw(_)
                | TurnEvent::Stderr(_)
                | TurnEvent::Item(_)
                | TurnEvent::Text(_)
                | TurnEvent::Retrying { .. }
                | TurnEvent::Request(_)
                | TurnEvent::Resolved(_)
                | TurnEvent::Confirmed(_) => {}
            }
        }
    })
    .await
}

#[tokio::test]
async fn steer_reaches_only_the_running_turn() {
    let world = World::new().await;
    let codex = codex(&world);
    let (thread, turn_id, stream) = held(&world, &codex).await;
    let steer =
        async |turn_id: &TurnId, text: &str| codex.steer(&second(&thread, turn_id, text)).await;
    let other = TurnId::new("01a1e1cc-c524-7350-b521-999f85cd734d");
    let refused = steer(&other, "echo:for another turn").await.unwrap();
    assert!(matches!(refused, Steered::Refused { .. }), "{refused:?}");
    let taken = steer(&turn_id, "echo:second").await;
    assert_eq!(taken, Ok(Steered::Taken));
    world.model.release("gate");
    let end = end(stream).await;
    assert_eq!(
        (end.status, end.answer.as_deref()),
        (TurnStatus::Completed, Some("second"))
    );
    assert_eq!(end.received, [ClientId::new("m1.1"), ClientId::new("m2.1")]);
    assert_eq!(
        world.shown_with("echo:second"),
        ["hold:gate echo:first", "echo:second"]
    );
    assert_eq!(world.times_asked("echo:for another turn"), 0);

    let late = steer(&turn_id, "echo:too late").await.unwrap();
    let Steered::Refused { why } = late else {
        panic!("{late:?}");
    };
    assert!(why.contains("no active turn"), "{why}");
    codex.stop().await;
    let gone = steer(&turn_id, "echo:nobody there").await.unwrap();
    assert!(matches!(gone, Steered::Refused { .. }), "{gone:?}");
}

/// A text given to a Codex that dies may have been taken: that is for the turn's history to say.
#[tokio::test]
async fn steer_to_dying_codex_is_ambiguous() {
    let world = World::new().await;
    let codex = codex(&world);
    let (thread, turn_id, _stream) = held(&world, &codex).await;
    let process = world.codex_pid();
    freeze(process).await;
    let steer = second(&thread, &turn_id, "echo:second");
    let steered = codex.steer(&steer);
    let (steered, ()) = tokio::join!(steered, async {
        signal(process, Signal::SIGKILL);
        gone(process).await;
    });
    assert_eq!(steered.unwrap_err().failure.class, Class::Ambiguous);
    codex.stop().await;
}

/// C2's sign of life: answered at once by a Codex that works, also in mid-turn, and missed when it is frozen.
#[tokio::test]
async fn c2_probe_detects_frozen_codex() {
    let world = World::new().await;
    let codex = codex(&world);
    let nobody = ThreadId::new("nobody");
    let unstarted = codex.probe(&nobody).await;
    assert!(unstarted.is_err(), "nothing is started for it");
    assert_eq!(world.processes(), []);
    let (thread, _, mut stream) = held(&world, &codex).await;
    assert_eq!(codex.probe(&thread).await, Ok(()));
    freeze(world.codex_pid()).await;
    let missed = codex.probe(&thread).await.unwrap_err();
    assert!(missed.failure.reason.contains("did not answer"), "{missed}");
    let lost = within("the end of a frozen codex", async {
        loop {
            if let TurnEvent::Lost { why } = stream.next().await {
                return why;
            }
        }
    });
    assert!(lost.await.contains("does not answer any more"));
    codex.stop().await;
    assert_eq!(world.processes(), []);
}
