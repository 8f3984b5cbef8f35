//! What the ancestor promised its callers over A2A, of the built daemon with the real Codex: nothing to do is said
//! without a turn, an answer is whole, what fails says why and the next message works, and a cancel interrupts.

use crate::a2a_agent::{Agent, SERVED, answers, said, state, why};
use crate::world::{World, kill_9, within};
use serde_json::{Value, json};

/// Whoever waits is tried again soon.
const IMPATIENT: &str = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

async fn world(settings: &str) -> World {
    World::with_settings(&format!("{SERVED}{IMPATIENT}{settings}")).await
}

fn context(name: &str) -> Value {
    json!({ "contextId": name })
}

/// The next message of a context is answered, on the same thread.
async fn goes_on(world: &World, agent: &Agent, name: &str, before: &str) {
    let text = format!("echo:after {name}");
    let task = agent.send(said("next", &text, &context(name))).await;
    assert_eq!(state(&task), "COMPLETED", "{task:#}");
    assert_eq!(answers(&task), [format!("after {name}")]);
    let seen = world.model.requests();
    let shown = seen.iter().rev().find(|seen| seen.last().contains(&text));
    let shown = shown.unwrap().users.join("\n");
    assert!(shown.contains(before), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_prompt_skips_turn_and_deltas_merge() {
    let world = world("").await;
    let daemon = world.daemon().await;
    let agent = Agent::new(&world, "ann").await;
    for text in ["", " \n\t "] {
        let params = json!({"message": said("m1", text, &context("c"))});
        let told = agent.rpc("SendMessage", &params).await;
        let message = &told["result"]["message"];
        let nothing = "(empty prompt — nothing to do)";
        assert_eq!(message["parts"][0]["text"], nothing, "{told:#}");
    }
    assert_eq!(world.model.requests().len(), 0);
    let listed = agent.rpc("ListTasks", &json!({})).await;
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed:#}");

    let long = "lorem ipsum dolor sit amet ".repeat(40);
    let text = format!("echo:{}", long.trim());
    let task = agent.send(said("m2", &text, &context("c"))).await;
    assert_eq!(answers(&task), [long.trim()]);
    let newest = agent.task(&task["id"]).await;
    assert_eq!(newest["history"].as_array().unwrap().len(), 2, "{newest:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn model_error_or_timeout_fails_task() {
    let world = world("timeout_secs = 3\n").await;
    let daemon = world.daemon().await;
    let agent = Agent::new(&world, "ann").await;
    for (name, text, says) in [
        ("error", "fail:400 echo:never", "400"),
        ("slow", "hang:slow echo:never", "timed out"),
    ] {
        let task = agent.send(said("m", text, &context(name))).await;
        assert_eq!(state(&task), "FAILED", "{task:#}");
        assert!(why(&task).contains(says), "{name}: {}", why(&task));
        assert_eq!(answers(&task), [""; 0], "{task:#}");
        goes_on(&world, &agent, name, text).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// One death is survived: the turn only read. A task under which Codex dies again and again is given up.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_codex_death_fails_task() {
    let world = world("").await;
    let daemon = world.daemon().await;
    let agent = Agent::new(&world, "ann").await;
    let text = "hold:gate echo:never";
    let mut ended = Box::pin(agent.send(said("m", text, &context("c"))));
    let mut deaths = 0;
    let task = loop {
        let asked = || world.times_asked(text);
        let again = world.model.wait_for(|_| asked() > deaths);
        tokio::select! {
            task = &mut ended => break task,
            seen = within("the next attempt", again) => {
                seen.unwrap();
                kill_9(world.codex_pid());
                deaths += 1;
            }
        }
        world
            .model
            .wait_aborted(u64::try_from(deaths).unwrap())
            .await
            .unwrap();
    };
    assert!(deaths > 1, "{deaths}");
    assert_eq!(state(&task), "FAILED", "{task:#}");
    assert!(!why(&task).is_empty(), "{task:#}");
    world.model.release("gate");
    goes_on(&world, &agent, "c", "").await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_interrupts_and_stale_cancel_errors() {
    let world = world("").await;
    let daemon = world.daemon().await;
    let agent = Agent::new(&world, "ann").await;
    let running = agent
        .post(said("m1", "hold:one echo:never", &context("c")))
        .await;
    world.model.wait_held("one").await.unwrap();
    let cancel = json!({"id": running["id"]});
    let told = agent.rpc("CancelTask", &cancel).await;
    assert_eq!(state(&told["result"]), "CANCELED", "{told:#}");
    world.model.wait_aborted(1).await.unwrap();
    world.model.wait_idle().await.unwrap();

    let next = agent
        .post(said("m2", "hold:two echo:whole", &context("c")))
        .await;
    world.model.wait_held("two").await.unwrap();
    let stale = agent.rpc("CancelTask", &cancel).await;
    assert_eq!(stale["error"]["code"], -32002, "{stale:#}");
    world.model.release("two");
    let task = agent.over(&next["id"]).await;
    assert_eq!(answers(&task), ["whole"], "{task:#}");
    assert_eq!(world.model.aborted(), 1);
    let stale = agent.rpc("CancelTask", &json!({"id": next["id"]})).await;
    assert_eq!(stale["error"]["code"], -32002, "{stale:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn mid_turn_message_queues_or_steers() {
    for (policy, expected, turns) in [
        ("queue", &["first", "second"][..], 2),
        ("steer", &["second"][..], 1),
    ] {
        let world = world(&format!("[tiers.peer]\nmid_turn = \"{policy}\"\n")).await;
        let daemon = world.daemon().await;
        let agent = Agent::new(&world, "ann").await;
        let task = agent
            .post(said("m1", "hold:one echo:first", &context("c")))
            .await;
        world.model.wait_held("one").await.unwrap();
        let more = said("m2", "hold:two echo:second", &json!({"taskId": task["id"]}));
        let more = agent.post(more).await;
        assert_eq!(more["id"], task["id"], "{more:#}");
        if policy == "queue" {
            world.model.release("one");
        }
        world.model.wait_held("two").await.unwrap();
        world.model.release("two");
        let task = agent.over(&task["id"]).await;
        assert_eq!(state(&task), "COMPLETED", "{task:#}");
        assert_eq!(answers(&task), expected, "{task:#}");
        let said = task["history"].as_array().unwrap().len();
        assert_eq!(said, 2 + turns, "{task:#}");
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// Callers that name no context and expect memory have it where the operator says so, each peer its own.
#[tokio::test]
async fn default_context_per_peer_remembers() {
    for (keys, memory) in [("", 1), ("[a2a]\ndefault_context = 'per-peer'\n", 2)] {
        let world = World::with_settings(&format!("{SERVED}{keys}")).await;
        let daemon = world.daemon().await;
        let (ann, bob) = (
            Agent::new(&world, "ann").await,
            Agent::new(&world, "bob").await,
        );
        let first = ann.send(said("1", "first echo:one", &json!({}))).await;
        bob.send(said("1", "of bob echo:two", &json!({}))).await;
        let second = ann.send(said("2", "second echo:three", &json!({}))).await;
        assert_eq!(answers(&second), ["three"]);
        assert_eq!(world.shown_with("second").len(), memory, "{keys}");
        let one_context = first["contextId"] == second["contextId"];
        assert_eq!(one_context, memory == 2, "{first:#} {second:#}");
        // A context that is named is another one.
        let named = said("3", "third echo:four", &json!({"contextId": "c"}));
        ann.send(named).await;
        assert_eq!(world.shown_with("third").len(), 1, "{keys}");
        assert_eq!(daemon.stop().await, Some(0));
    }
}
