//! Streams of A2A tasks: what Codex says arrives as it is said, everybody hears the same, and whoever was cut off, or
//! whose daemon died, has the whole answer in the end, once.

use crate::a2a_wire::{Events, SETTINGS, Wire, assembled, said, state, text_of};
use crate::world::{World, within};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const ANSWER: &str = "The first half of the answer, and then the second half of it.";

/// Codex waits, says what it is about, and waits in the middle of its answer.
fn script() -> String {
    format!("hold:begin say:I look first phase:final_answer pause:gate echo:{ANSWER}")
}

fn is_chunk(event: &Value) -> bool {
    !event["artifactUpdate"].is_null()
}

/// A stream whose Codex is in the middle of its answer; what came of it was told.
async fn in_the_middle(world: &World, wire: &Wire) -> Events {
    let mut events = wire.stream(said("m-1", &script())).await;
    events.next().await.unwrap();
    world.model.release("begin");
    let chunk = events.until(is_chunk).await;
    world.model.wait_held("gate").await.unwrap();
    let text = text_of(&json!([chunk.event["artifactUpdate"]["artifact"]]));
    assert!(text.len() > 10 && ANSWER.starts_with(&text), "{text}");
    assert_ne!(chunk.event["artifactUpdate"]["lastChunk"], true);
    events
}

async fn assert_whole(wire: &Wire, id: &str) {
    let task = wire.task(id).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task:#}");
    assert_eq!(text_of(&task["artifacts"]), ANSWER, "{task:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_stream_the_same_answer() {
    let world = World::with_settings(SETTINGS).await;
    let daemon = world.daemon().await;
    let wire = Wire::of(&world).await;
    let first = in_the_middle(&world, &wire).await;
    let id = first.task_id();
    let mut second = wire.subscribe(&id, None).await;
    let snapshot = second.next().await.unwrap();
    assert_eq!(snapshot.seq, first.last_seq());
    assert_eq!(
        text_of(&snapshot.event["task"]["artifacts"]),
        assembled(&first.told),
        "a snapshot has what was told"
    );
    world.model.release("gate");
    let (first, second) = (first.rest().await, second.rest().await);
    assert_eq!(assembled(&first), ANSWER, "{first:#?}");
    assert_eq!(assembled(&second), ANSWER, "{second:#?}");
    let after: Vec<_> = first
        .iter()
        .filter(|told| told.seq > snapshot.seq)
        .collect();
    assert_eq!(after, second[1..].iter().collect::<Vec<_>>());
    let states: Vec<&str> = first.iter().filter_map(|told| state(&told.event)).collect();
    assert!(states.contains(&"TASK_STATE_WORKING"), "{states:?}");
    assert_eq!(states.last(), Some(&"TASK_STATE_COMPLETED"));
    let aside = first.iter().any(|told| {
        told.event["statusUpdate"]["status"]["message"]["parts"][0]["text"] == "I look first"
    });
    assert!(aside, "what Codex says on the way is told: {first:#?}");
    let chunks: Vec<&Value> = first
        .iter()
        .filter(|told| is_chunk(&told.event))
        .map(|told| &told.event["artifactUpdate"])
        .collect();
    assert!(chunks[1..].iter().all(|chunk| chunk["append"] == true));
    assert_eq!(chunks.last().unwrap()["lastChunk"], true);
    assert_whole(&wire, &id).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resubscriber_gets_exactly_missed_events() {
    let world = World::with_settings(SETTINGS).await;
    let daemon = world.daemon().await;
    let wire = Wire::of(&world).await;
    let first = in_the_middle(&world, &wire).await;
    let (id, last) = (first.task_id(), first.last_seq());
    let mut told = first.told.clone();
    drop(first);
    let back = wire.subscribe(&id, Some(last)).await;
    world.model.release("gate");
    let missed = back.rest().await;
    assert!(missed.iter().all(|told| told.event.get("task").is_none()));
    told.extend(missed);
    assert_eq!(assembled(&told), ANSWER, "{told:#?}");
    let end = told.pop().unwrap();
    let again = wire.subscribe(&id, Some(end.seq - 1)).await.rest().await;
    assert_eq!(again, [end], "the end is told to whoever just missed it");
    let refused = wire.answer("SubscribeToTask", &json!({"id": id})).await;
    assert_eq!(refused["error"]["code"], -32004, "{refused:#}");
    daemon.stop().await;
}

/// The daemon is killed in the middle of the answer; the next one goes on, and numbers go on rising.
async fn killed_in_the_middle(settings: &str) {
    let world = World::with_settings(&format!("{SETTINGS}{settings}")).await;
    let daemon = world.daemon().await;
    let first = in_the_middle(&world, &Wire::of(&world).await).await;
    let (id, last) = (first.task_id(), first.last_seq());
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    let wire = Wire::of(&world).await;
    let mut back = wire.subscribe(&id, Some(last)).await;
    let snapshot = back.next().await.unwrap();
    assert!(snapshot.seq > last, "{snapshot:#?} after {last}");
    assert_eq!(snapshot.event["task"]["id"], id.as_str());
    world.model.release("gate");
    let told = back.rest().await;
    assert_eq!(assembled(&told), ANSWER, "{told:#?}");
    assert_whole(&wire, &id).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_survives_daemon_kill_over_socket() {
    killed_in_the_middle("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_survives_daemon_kill_over_pipes() {
    killed_in_the_middle("[codex]\ntransport = \"stdio\"\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_at_input_required() {
    let world = World::with_settings(SETTINGS).await;
    let daemon = world.daemon().await;
    let wire = Wire::of(&world).await;
    let asks = "echo:Which of the two?\n[input-required]";
    let told = wire.stream(said("m-1", asks)).await.rest().await;
    assert_eq!(assembled(&told), "Which of the two?", "{told:#?}");
    let end = state(&told.last().unwrap().event);
    assert_eq!(end, Some("TASK_STATE_INPUT_REQUIRED"));
    let id = told[0].event["task"]["id"].as_str().unwrap().to_owned();
    let mut other = wire.subscribe(&id, None).await;
    let waits = other.next().await.unwrap();
    assert_eq!(state(&waits.event), Some("TASK_STATE_INPUT_REQUIRED"));
    let mut next = said("m-2", "echo:The second one, then.");
    next["taskId"] = id.as_str().into();
    let told = wire.stream(next).await.rest().await;
    let artifacts = &wire.task(&id).await["artifacts"];
    assert_eq!(artifacts.as_array().unwrap().len(), 2, "{artifacts:#}");
    let answer = text_of(&json!([artifacts[1]]));
    assert_eq!(answer, "The second one, then.");
    let end = state(&told.last().unwrap().event);
    assert_eq!(end, Some("TASK_STATE_COMPLETED"), "{told:#?}");
    let heard = other.rest().await;
    assert_eq!(state(&heard.last().unwrap().event), end);
    daemon.stop().await;
}

/// P14: what was sent whole is kept, also when nobody waits for the answer.
#[tokio::test(flavor = "multi_thread")]
async fn p14_task_survives_client_hangup() {
    let world = World::with_settings(SETTINGS).await;
    let daemon = world.daemon().await;
    let wire = Wire::of(&world).await;
    for (n, path) in ["/a2a/message:send", "/a2a/message:stream"]
        .iter()
        .enumerate()
    {
        let text = format!("hold:gate{n} echo:answer {n}");
        let body = json!({"message": said(&format!("m-{n}"), &text)}).to_string();
        let host = wire.base.trim_start_matches("http://");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nA2A-Version: 1.0\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            wire.token,
            body.len()
        );
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream
            .write_all(format!("{head}{body}").as_bytes())
            .await
            .unwrap();
        drop(stream);
        world.model.wait_held(&format!("gate{n}")).await.unwrap();
        let listed = wire.answer("ListTasks", &json!({})).await;
        let id = listed["result"]["tasks"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut events = wire.subscribe(&id, None).await;
        let found = events.next().await.unwrap();
        assert_eq!(
            state(&found.event),
            Some("TASK_STATE_WORKING"),
            "{found:#?}"
        );
        world.model.release(&format!("gate{n}"));
        assert_eq!(assembled(&events.rest().await), format!("answer {n}"));
        assert_eq!(world.times_asked(&text), 1, "one turn, and no other");
        let task = wire.task(&id).await;
        assert_eq!(text_of(&task["artifacts"]), format!("answer {n}"));
    }
    within("the model", world.model.wait_idle()).await.unwrap();
    daemon.stop().await;
    assert!(world.processes().is_empty(), "{:#?}", world.processes());
}
