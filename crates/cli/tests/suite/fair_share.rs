//! One sender against all others, on the built daemon: it takes neither every turn nor the disk, and it can be stopped.

use crate::a2a_agent::{Agent, SERVED, said};
use crate::world::{World, within};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A peer's message in a context of its own, whose turn waits at a gate; its task.
async fn slow(agent: &Agent, n: usize) -> Value {
    let place = json!({"contextId": format!("c{n}")});
    let text = format!("hold:gate echo:slow-{n}-");
    agent.post(said(&format!("m{n}"), &text, &place)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_owner_is_answered_beside_greedy_peer() {
    let settings = format!("{SERVED}[daemon]\nturns_max = 4\n");
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let mallory = Agent::new(&world, "mallory").await;
    for n in 0..4 {
        slow(&mallory, n).await;
    }
    world.model.wait_held("gate").await.unwrap();
    assert_eq!(world.ask("main", "echo:owner").await, "owner");
    assert_eq!(
        world.times_asked("echo:slow-"),
        1,
        "half of what is not kept for people"
    );
    let waiting = world.json(&["status", "--json"]).await;
    assert_eq!(waiting["counts"]["received"], 3, "{waiting:#}");
    world.model.release("gate");
    assert_eq!(daemon.stop().await, Some(0));
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.fold(0, |sum, entry| {
        let path = entry.path();
        sum + if path.is_dir() {
            bytes_in(&path)
        } else {
            entry.metadata().map_or(0, |found| found.len())
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_peer_bytes_are_limited_per_day() {
    const MIB: u64 = 1024 * 1024;
    let settings = format!("{SERVED}[tiers.peer]\nbytes_per_day = {}\n", 8 * MIB);
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let mallory = Agent::new(&world, "mallory").await;
    let before = bytes_in(&world.state_dir());
    let (mut taken, mut refused) = (0, 0);
    let large = "x".repeat(1_000_000);
    for n in 0..120 {
        let place = json!({"contextId": "one"});
        let body = json!({"message": said(&format!("m{n}"), &large, &place),
                          "configuration": {"returnImmediately": true}});
        let call = mallory.call("POST", "/a2a/message:send").json(&body);
        let (status, text) = mallory.answer(call).await;
        match status.as_u16() {
            200 => taken += 1,
            429 => {
                assert!(text.contains("TOO_MANY_BYTES"), "{text}");
                assert!(text.contains("bytes_per_day"), "{text}");
                refused += 1;
            }
            other => panic!("{other}: {text}"),
        }
    }
    let grown = bytes_in(&world.state_dir()) - before;
    println!(
        "120 messages of 1 MB: {taken} taken, {refused} refused, {} MiB on disk",
        grown / MIB
    );
    assert_eq!((taken, refused), (8, 112));
    // The ledger, its log, and what Codex itself keeps of the one turn.
    assert!(grown < 48 * MIB, "{grown}");
    let file = json!({"messageId": "f", "role": "ROLE_USER", "contextId": "two",
                      "parts": [{"raw": "eHh4".repeat(400_000), "filename": "x.bin"}]});
    let call = mallory
        .call("POST", "/a2a/message:send")
        .json(&json!({"message": file}));
    let (status, text) = mallory.answer(call).await;
    assert_eq!(status.as_u16(), 429, "{text}");
    // Nobody else is affected.
    let bob = Agent::new(&world, "bob").await;
    let task = bob.post(said("m", "echo:hi", &json!({}))).await;
    assert!(task["id"].is_string(), "{task:#}");
    drop(daemon);
}

/// A message with a file of 3 MB that no other message has.
fn with_file(n: u32, metadata: &Value) -> Value {
    let raw = format!("{n:08}").repeat(500_000);
    json!({"messageId": format!("m{n}"), "role": "ROLE_USER", "metadata": metadata,
           "parts": [{"text": "echo:file"}, {"raw": raw, "filename": "x.bin"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_files_of_refused_messages_are_removed() {
    let world = World::with_settings(SERVED).await;
    let daemon = world.daemon().await;
    let mallory = Agent::new(&world, "mallory").await;
    let files = || bytes_in(&world.state_dir().join("files"));
    for n in 0..6 {
        mallory
            .post(with_file(n, &json!({"codex_bridge_hops": 8})))
            .await;
    }
    assert_eq!(files(), 0, "the loop guard refused them");
    let send = async |n: u32| {
        let body = json!({"message": with_file(n, &json!({})),
                          "configuration": {"returnImmediately": true}});
        let call = mallory.call("POST", "/a2a/message:send");
        mallory
            .answer(call.header("Idempotency-Key", "k").json(&body))
            .await
    };
    let (status, text) = send(10).await;
    assert_eq!(status.as_u16(), 200, "{text}");
    let one = files();
    assert!(one >= 3_000_000, "{one}");
    for n in 11..17 {
        send(n).await;
    }
    assert_eq!(
        files(),
        one,
        "the first message has its file, and no other is stored"
    );
    let (status, _) = send(10).await;
    assert_eq!((status.as_u16(), files()), (200, one));
    drop(daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_a_revoked_peer_is_stopped() {
    let settings = format!("{SERVED}[daemon]\nturns_per_sender = 1\n");
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let mallory = Agent::new(&world, "mallory").await;
    for n in 0..3 {
        slow(&mallory, n).await;
    }
    world.model.wait_held("gate").await.unwrap();
    let revoked = world.run(&["peers", "revoke", "mallory"]).await;
    revoked.must(0, &[]);
    for words in [
        "mallory is revoked; 2 waiting messages of it are stopped; 1 are with Codex and go on (",
        "`codex-bridge stop --sender mallory` ends them",
    ] {
        assert!(revoked.stdout.contains(words), "{revoked:?}");
    }
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["counts"]["cancelled"], 2, "{status:#}");
    let stopped = world.json(&["stop", "--sender", "mallory", "--json"]).await;
    assert_eq!(stopped["cancelled"], 0, "{stopped:#}");
    let running = stopped["interrupted"][0].as_str().unwrap();
    let ended = world.finished(running).await;
    assert_eq!(ended["state"], "cancelled", "{ended:#}");
    let again = world.run(&["stop", "--sender", "mallory"]).await;
    assert_eq!(again.stdout, "mallory: nothing of it waits or runs\n");
    world
        .run(&["peers", "revoke", "mallory"])
        .await
        .must(1, &[]);
    let audit = world.run(&["audit"]).await;
    assert!(audit.stdout.contains("stop-sender"), "{audit:?}");
    assert_eq!(world.times_asked("echo:slow-"), 1);
    drop(daemon);
}

/// A call whose body has not come yet; the daemon has looked at who calls.
async fn begun(agent: &Agent, path: &str, length: usize) -> TcpStream {
    let host = agent.base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nA2A-Version: 1.0\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\
         Connection: close\r\n\r\n",
        agent.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 25];
    within(
        "the daemon asks for the body",
        stream.read_exact(&mut answer),
    )
    .await
    .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_a_half_sent_message_is_refused() {
    let world = World::with_settings(SERVED).await;
    let daemon = world.daemon().await;
    let mallory = Agent::new(&world, "mallory").await;
    let ci = world
        .run(&[
            "token", "add", "ci", "--scope", "send", "--scope", "control",
        ])
        .await;
    let ci = Agent::with_token(&world, ci.stdout.trim());
    let sent = json!({"message": said("m1", "echo:late", &json!({}))}).to_string();
    let text = json!({"text": "echo:late"}).to_string();
    let task = json!({"prompt": "echo:late"}).to_string();
    let mut calls = Vec::new();
    for (agent, path, body) in [
        (&mallory, "/a2a/message:send", sent),
        (&ci, "/v1/messages", text),
        (&ci, "/v1/tasks", task),
    ] {
        calls.push((path, begun(agent, path, body.len()).await, body));
    }
    world
        .run(&["peers", "revoke", "mallory"])
        .await
        .must(0, &[]);
    world.run(&["token", "revoke", "ci"]).await.must(0, &[]);
    // Another token of the same name does not help what the first one began.
    world
        .run(&["token", "add", "ci", "--scope", "send"])
        .await
        .must(0, &[]);
    for (path, mut stream, body) in calls {
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("an answer", stream.read_to_string(&mut answer))
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
        assert!(answer.contains("revoked while"), "{path}: {answer}");
    }
    let status = world.json(&["status", "--json"]).await;
    let counts = status["counts"].as_object().unwrap();
    assert!(counts.values().all(|count| *count == 0), "{status:#}");
    assert_eq!(world.times_asked("echo:late"), 0);
    drop(daemon);
}
