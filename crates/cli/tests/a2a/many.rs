//! Many contexts at once through one app-server: each is answered with its own, on a thread of its own, and neither
//! bridge nor Codex grows beyond what a small machine has. The figures are printed.

use crate::world::{World, within};
use crate::{base, peer_token};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How many.
const CONTEXTS: usize = 50;
/// What the bridge may use with so many under way, in MiB; it was 30 to 60 of an unoptimised build.
const BRIDGE_MIB_MAX: u64 = 256;
/// What Codex may use, in MiB.
const CODEX_MIB_MAX: u64 = 2048;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_contexts_share_one_app_server() {
    let settings = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[daemon]\nturns_max = {CONTEXTS}\nturns_reserved = 0\nturns_per_sender = {CONTEXTS}\n[tiers.peer]\nturns_per_day = 1000\n"
    );
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let token = peer_token(&world).await;
    let url = format!("{}/a2a", base(&world));
    let before = mib(daemon.pid());
    // One for all: making one takes long, and on a busy machine so many would keep those that are connected already from
    // sending a first byte before the daemon gives them up.
    let client = reqwest::Client::new();
    let calls: Vec<_> = (0..CONTEXTS)
        .map(|n| tokio::spawn(ask(client.clone(), url.clone(), token.clone(), n)))
        .collect();
    for n in 0..CONTEXTS {
        let words = format!("echo:answer-{n}-");
        let asked = world.model.wait_for(|seen| seen.last().contains(&words));
        asked.await.unwrap();
    }
    let (bridge, codex) = (mib(daemon.pid()), mib(world.codex_pid()));
    println!("{CONTEXTS} contexts at once: bridge {bridge} MiB (idle {before}), codex {codex} MiB");
    assert_eq!(world.model.active(), CONTEXTS);
    assert!(bridge < BRIDGE_MIB_MAX && codex < CODEX_MIB_MAX);
    let threads: BTreeSet<_> = world
        .model
        .requests()
        .into_iter()
        .map(|seen| seen.thread_id)
        .collect();
    assert_eq!(threads.len(), CONTEXTS);

    world.model.release("all");
    for (n, call) in calls.into_iter().enumerate() {
        let told = within("an answer", call).await.unwrap();
        let task = &told["result"]["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{told}");
        assert_eq!(task["contextId"], format!("context-{n}"));
        assert_eq!(
            task["artifacts"][0]["parts"][0]["text"],
            format!("answer-{n}-")
        );
    }
    daemon.stop().await;
}

/// Sends a message that waits for the others, and waits for its answer.
async fn ask(client: reqwest::Client, url: String, token: String, n: usize) -> Value {
    let message = json!({
        "role": "ROLE_USER", "messageId": format!("m-{n}"), "contextId": format!("context-{n}"),
        "parts": [{"text": format!("hold:all echo:answer-{n}-")}],
    });
    let request = json!({
        "jsonrpc": "2.0", "id": n, "method": "SendMessage", "params": {"message": message},
    });
    let sent = client
        .post(url)
        .bearer_auth(token)
        .header("A2A-Version", "1.0")
        .json(&request);
    sent.send().await.unwrap().json().await.unwrap()
}

/// What a process has in memory.
fn mib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap();
    kib / 1024
}
