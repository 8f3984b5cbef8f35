//! Codex asks another agent with the tool `ask_agent`, through the built daemon and the real Codex: what is asked, what
//! is said back, and what becomes of an open question when the daemon dies, Codex dies, or a person has enough.

use crate::world::{World, kill_9};
use bridge_sim::{PeerAgent, PeerGround};
use serde_json::{Value, json};

async fn peer() -> PeerAgent {
    PeerAgent::start().await.unwrap()
}

/// A world whose Codex may ask this agent.
async fn world_with(peer: &PeerAgent, more: &str) -> World {
    let settings = format!(
        "{more}\n[[a2a.agents]]\nname = \"planner\"\nurl = \"{}\"\n",
        peer.url()
    );
    World::with_settings(&settings).await
}

/// A message that makes the model ask.
fn asks(agent: &str, text: &str) -> String {
    let arguments = json!({"agent": agent, "text": text});
    format!("tool:ask_agent:{arguments}")
}

/// What the model was given back by the tool, as it repeats it.
async fn told(world: &World, text: &str) -> String {
    world.ask("c", text).await
}

#[tokio::test]
async fn ask_agent_returns_answer_as_data() {
    let peer = peer().await;
    let world = world_with(&peer, "").await;
    let daemon = world.daemon().await;
    let said = told(&world, &asks("planner", "what is due")).await;
    assert!(said.contains("you said: what is due"), "{said}");
    assert!(said.contains("data from outside"), "{said}");
    let heard = &peer.ground().heard;
    assert_eq!(heard.len(), 1);
    let message = &heard[0].message;
    assert_eq!(message["metadata"]["codex_bridge_hops"], 1);
    // The same talk goes on with the next question of this conversation.
    told(&world, &asks("planner", "and then")).await;
    let contexts: Vec<Value> = peer
        .ground()
        .heard
        .iter()
        .map(|heard| heard.message["contextId"].clone())
        .collect();
    assert!(
        contexts[0].is_string() && contexts[0] == contexts[1],
        "{contexts:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn ask_agent_rejects_unlisted_agents() {
    let peer = peer().await;
    let world = world_with(&peer, "").await;
    let daemon = world.daemon().await;
    let said = told(&world, &asks("http://127.0.0.1:1/", "hi")).await;
    assert!(said.contains("there are: planner"), "{said}");
    let said = told(&world, "tool:ask_agent:{\"text\":\"hi\"}").await;
    assert!(said.contains("do not fit"), "{said}");
    assert!(peer.ground().heard.is_empty());
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn ask_agent_requires_an_allowed_tier() {
    let peer = peer().await;
    let world = world_with(&peer, "[a2a]\ntool_tiers = [\"peer\"]").await;
    let daemon = world.daemon().await;
    let said = told(&world, &asks("planner", "hi")).await;
    assert!(!said.contains("you said"), "{said}");
    assert!(peer.ground().heard.is_empty());
    let requests = world.model.requests();
    let offered = requests.iter().flat_map(|seen| &seen.tools);
    assert!(offered.clone().count() > 0 && !offered.clone().any(|tool| tool == "ask_agent"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn ask_agent_continues_input_required_task() {
    let peer = peer().await;
    let world = world_with(&peer, "").await;
    let daemon = world.daemon().await;
    let said = told(&world, &asks("planner", "which?")).await;
    assert!(said.contains("which one do you mean?"), "{said}");
    assert!(said.contains("with task \"task-0\""), "{said}");
    let arguments = json!({"agent": "planner", "text": "the second", "task": "task-0"});
    let said = told(&world, &format!("tool:ask_agent:{arguments}")).await;
    assert!(said.contains("you said: the second"), "{said}");
    assert_eq!(peer.ground().tasks.len(), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

fn heard(times: usize) -> impl FnMut(&PeerGround) -> bool {
    move |ground| ground.heard.len() >= times
}

#[tokio::test]
async fn ask_agent_survives_daemon_death() {
    let peer = peer().await;
    let world = world_with(&peer, "").await;
    let daemon = world.daemon().await;
    let mut sending = world
        .start(&["send", &asks("planner", "hold:gate hi")])
        .await;
    let id = sending.on_disk().await;
    peer.wait_for("the question", heard(1)).await.unwrap();
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    peer.wait_for("the question again", heard(2)).await.unwrap();
    peer.release("gate");
    let shown = world.finished(&id).await;
    let answer = shown["answer"]["text"].as_str().unwrap();
    assert!(answer.contains("you said: hold:gate hi"), "{shown}");
    let ground = peer.ground();
    assert_eq!(ground.tasks.len(), 1, "{ground:?}");
    assert_eq!(ground.heard[0].message_id, ground.heard[1].message_id);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn interrupt_cancels_remote_agent_task() {
    let peer = peer().await;
    let world = world_with(&peer, "").await;
    let daemon = world.daemon().await;
    let mut sending = world
        .start(&["send", &asks("planner", "hold:gate hi")])
        .await;
    let id = sending.on_disk().await;
    peer.wait_for("the question", heard(1)).await.unwrap();
    sending.stderr.wait_for("using ask_agent").await;
    world.run(&["interrupt", &id]).await.must(0, &[]);
    let canceled = |ground: &PeerGround| ground.tasks[0].state == "CANCELED";
    peer.wait_for("the end of the task", canceled)
        .await
        .unwrap();
    assert_eq!(sending.ended().await.code, Some(3));
    // The thread is as good as before.
    let said = told(&world, &asks("planner", "again")).await;
    assert!(said.contains("you said: again"), "{said}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The tools of a thread are its own: a new Codex knows them without being told. The cut turn is continued as any other.
#[tokio::test]
async fn codex_death_cancels_and_reasks_agent() {
    let peer = peer().await;
    let world = world_with(&peer, "").await;
    let daemon = world.daemon().await;
    let mut sending = world
        .start(&["send", &asks("planner", "hold:gate hi")])
        .await;
    let id = sending.on_disk().await;
    peer.wait_for("the question", heard(1)).await.unwrap();
    kill_9(world.codex_pid());
    let canceled = |ground: &PeerGround| ground.tasks[0].state == "CANCELED";
    peer.wait_for("the end of the task", canceled)
        .await
        .unwrap();
    peer.release("gate");
    let shown = world.finished(&id).await;
    let answer = shown["answer"]["text"].as_str().unwrap();
    assert!(answer.contains("you said: hold:gate hi"), "{shown}");
    let ground = peer.ground();
    assert_eq!(ground.tasks.len(), 2, "{ground:?}");
    assert_eq!(ground.tasks[0].state, "CANCELED");
    assert!(world.times_asked("was cut off") > 0);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn call_asks_an_agent_without_a_daemon() {
    let peer = peer().await;
    let world = World::new().await;
    let url = peer.url();
    world
        .run(&["call", &url, "hi"])
        .await
        .must(1, &["must be https", "--allow-private"]);
    let ended = world.run(&["call", &url, "hi", "--allow-private"]).await;
    ended.must(0, &["task task-0", "completed"]);
    assert_eq!(ended.stdout, "you said: hi\n");
    let asked = world
        .run(&["call", &url, "which?", "--allow-private"])
        .await;
    asked.must(75, &["which one do you mean?", "--task task-1"]);
    let args = [
        "call",
        &url,
        "the second",
        "--allow-private",
        "--json",
        "--task",
        "task-1",
    ];
    let outcome = world.json(&args).await;
    assert_eq!(outcome["state"], "completed");
    assert_eq!(outcome["text"], "you said: the second");
    let held = ["call", &url, "hold:gate x", "--allow-private", "--no-wait"];
    world.run(&held).await.must(75, &["working"]);
    world
        .run(&["call", "http://127.0.0.1:1", "hi", "--allow-private"])
        .await
        .must(1, &["can't be reached", "has not received"]);
}
