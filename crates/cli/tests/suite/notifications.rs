//! Who is told that a task is finished: a webhook that checks the signature by itself, a command, the row; once each,
//! whatever dies in between.

use crate::chat::Chat;
use crate::tasks::{call, finished, get, post, start};
use crate::world::{Running, World, within};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const KEY: [u8; 32] = *b"a secret that only the test has!";

/// One call of a webhook, not answered yet.
pub(crate) struct Call {
    stream: TcpStream,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| {
            let (header, value) = line.split_once(": ")?;
            header.eq_ignore_ascii_case(name).then_some(value)
        });
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub(crate) async fn answer(mut self, status: &str) {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        self.stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// Waits for the next call.
pub(crate) async fn called(listener: &TcpListener) -> Call {
    called_raw(listener).await.0
}

/// The same, with the bytes of its body.
pub(crate) async fn called_raw(listener: &TcpListener) -> (Call, Vec<u8>) {
    let read = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(at) = head_end {
                let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
                let length = head.lines().find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse::<usize>()
                        .ok()
                });
                let body = bytes[at + 4..].to_vec();
                if body.len() >= length.unwrap() {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    let call = Call {
                        stream,
                        head,
                        body: text,
                    };
                    return (call, body);
                }
            }
            let mut chunk = [0; 4096];
            let read = stream.read(&mut chunk).await.unwrap();
            assert!(read > 0, "the call broke off");
            bytes.extend_from_slice(&chunk[..read]);
        }
    };
    within("a call of the webhook", read).await
}

/// HMAC-SHA256 by its definition (RFC 2104).
fn hmac(key: &[u8; 32], text: &str) -> Vec<u8> {
    let padded = |with: u8| -> Vec<u8> {
        let block = key.iter().copied().chain(std::iter::repeat_n(0, 32));
        block.map(|byte| byte ^ with).collect()
    };
    let inner = Sha256::digest([padded(0x36).as_slice(), text.as_bytes()].concat());
    Sha256::digest([padded(0x5c).as_slice(), &inner].concat()).to_vec()
}

fn check_signature(call: &Call) {
    let signed = format!(
        "{}.{}.{}",
        call.header("webhook-id"),
        call.header("webhook-timestamp"),
        call.body
    );
    let expected = format!("v1,{}", STANDARD.encode(hmac(&KEY, &signed)));
    assert_eq!(call.header("webhook-signature"), expected);
}

/// A file with the secret that webhooks are signed with.
pub(crate) fn whsec() -> PathBuf {
    let secrets = tempfile::Builder::new()
        .prefix("cb-secret-")
        .tempfile()
        .unwrap();
    let (_, path) = secrets.keep().unwrap();
    std::fs::write(&path, format!("whsec_{}\n", STANDARD.encode(KEY))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A world whose webhooks may call this listener.
async fn hooked(more: &str) -> (World, TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let path = whsec();
    let settings =
        format!("[notify]\nwebhook_secret_file = {path:?}\nallow_origins = [{origin:?}]\n{more}");
    (
        World::with_settings(&settings).await,
        listener,
        format!("webhook:{origin}/hook"),
    )
}

/// Waits until a task's notification is in this state.
async fn notified(world: &World, id: &str, word: &str) -> Value {
    let mut look = tokio::time::interval(Duration::from_millis(20));
    let seen = async {
        loop {
            let status = get(world, &format!("/v1/tasks/{id}")).await;
            if status["task"]["notification_status"] == word {
                return status["task"].clone();
            }
            look.tick().await;
        }
    };
    within(word, seen).await
}

#[tokio::test]
async fn a_webhook_is_called_once_and_signed() {
    let (world, listener, target) = hooked("").await;
    let daemon = world.daemon().await;
    let id = start(
        &world,
        json!({"prompt": "echo:done", "notify_target": target}),
    )
    .await;
    let call = called(&listener).await;
    check_signature(&call);
    assert!(call.head.starts_with("POST /hook "), "{}", call.head);
    assert_eq!(call.header("webhook-id"), format!("msg_{id}"));
    let body: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(body["type"], "task.completed");
    assert_eq!(body["task"]["final_summary"], "done", "{body:#}");
    assert_eq!(body["task"].get("answer"), None);
    call.answer("204 No Content").await;
    let task = notified(&world, &id, "sent").await;
    assert!(task["notified_at"].is_string(), "{task:#}");
    let (_, nothing) = post(&world, "/v1/tasks/notify-completed", json!({})).await;
    assert_eq!(nothing["processed"], 0, "{nothing:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The daemon dies after the call and before its answer: the receiver is called again with the same id, and then no
/// more.
#[tokio::test]
async fn webhook_retry_reuses_its_id_after_crash() {
    let (world, listener, target) = hooked("").await;
    let daemon = world.daemon().await;
    let id = start(
        &world,
        json!({"prompt": "echo:done", "notify_target": target}),
    )
    .await;
    let lost = called(&listener).await;
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    let again = called(&listener).await;
    assert_eq!(again.header("webhook-id"), lost.header("webhook-id"));
    check_signature(&again);
    again.answer("200 OK").await;
    notified(&world, &id, "sent").await;
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = world.daemon().await;
    finished(&world, &id).await;
    assert_eq!(daemon.stop().await, Some(0));
    let third = futures_util::FutureExt::now_or_never(listener.accept());
    assert!(third.is_none(), "it was called a third time");
}

#[tokio::test]
async fn a_notification_survives_deaths_around_its_intent() {
    for point in [
        "notify_begin.before",
        "notify_begin.after",
        "notify_end.before",
    ] {
        let (world, listener, target) = hooked("").await;
        let mut command = world.command(&["run"]);
        command.env("CODEX_BRIDGE_FAIL_POINT", point);
        let mut doomed = Running::of(command);
        doomed.stderr.wait_for(" ready ").await;
        let id = start(
            &world,
            json!({"prompt": "echo:done", "notify_target": target}),
        )
        .await;
        if point == "notify_end.before" {
            called(&listener).await.answer("200 OK").await;
        }
        within(point, doomed.ended()).await;
        let daemon = world.daemon().await;
        let call = called(&listener).await;
        assert_eq!(call.header("webhook-id"), format!("msg_{id}"), "{point}");
        call.answer("200 OK").await;
        notified(&world, &id, "sent").await;
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test]
async fn rejected_webhook_is_resent_on_request() {
    let (world, listener, target) = hooked("").await;
    let daemon = world.daemon().await;
    let id = start(
        &world,
        json!({"prompt": "echo:done", "notify_target": target}),
    )
    .await;
    called(&listener).await.answer("500 Oops").await;
    called(&listener).await.answer("410 Gone").await;
    let task = notified(&world, &id, "failed").await;
    assert_eq!(task["notification_error"], "the webhook answered 410 Gone");
    let (_, dry) = post(
        &world,
        "/v1/tasks/notify-completed",
        json!({"dry_run": true}),
    )
    .await;
    assert_eq!(
        dry["notifications"][0]["notification_status"], "dry_run",
        "{dry:#}"
    );
    let body = json!({});
    let all = call(&world, "POST /v1/tasks/notify-completed", Some(&body));
    let (told, ()) = tokio::join!(all, async {
        called(&listener).await.answer("200 OK").await;
    });
    assert_eq!(told.1["notifications"][0]["sent"], true, "{:#}", told.1);
    assert_eq!(told.1["notifications"][0]["notification_status"], "sent");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn notify_command_receives_task_on_stdin() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("told");
    let script = format!("cat >> {}; env > {}.env", file.display(), file.display());
    let settings =
        format!("[[notify.command]]\nname = \"mail\"\nargv = [\"/bin/sh\", \"-c\", {script:?}]\n");
    let mut world = World::with_settings(&settings).await;
    world.set_env("MY_SECRET", "hunter2");
    let daemon = world.daemon().await;
    let id = start(
        &world,
        json!({"prompt": "echo:done", "notify_target": "command:mail"}),
    )
    .await;
    notified(&world, &id, "sent").await;
    let told = std::fs::read_to_string(&file).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(told["task"]["task_id"], json!(id), "{told:#}");
    let text = told["text"].as_str().unwrap();
    assert!(
        text.starts_with(&format!(
            "Codex Bridge task {id} finished with status: completed."
        )),
        "{text}"
    );
    let env = std::fs::read_to_string(format!("{}.env", file.display())).unwrap();
    assert!(
        !env.contains("MY_SECRET") && !env.contains("CODEX_"),
        "{env}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// What follows the scheme is data: it is on standard input and in no argument.
#[tokio::test]
async fn other_senders_are_mapped_by_scheme() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("told");
    let script = format!(
        "cat >> {}; echo \"$@\" > {}.args",
        file.display(),
        file.display()
    );
    let command = format!(
        "[[notify.command]]\nname = \"send\"\nargv = [\"/bin/sh\", \"-c\", {script:?}]\n[notify.schemes]\nfeishu = \"command:send\"\n"
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let secret = place.path().join("secret");
    std::fs::write(&secret, format!("whsec_{}\n", STANDARD.encode(KEY))).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let settings = format!(
        "[notify]\nwebhook_secret_file = {secret:?}\nallow_origins = [{origin:?}]\n{command}telegram = \"webhook:{origin}/t\"\n"
    );
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let target = |target: &str| json!({"prompt": "echo:done", "notify_target": target});
    let id = start(&world, target("feishu:oc_1 $(id)")).await;
    notified(&world, &id, "sent").await;
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(told["scheme"], "feishu", "{told:#}");
    assert_eq!(told["address"], "oc_1 $(id)", "{told:#}");
    assert!(told["text"].as_str().unwrap().contains(&id), "{told:#}");
    let args = std::fs::read_to_string(format!("{}.args", file.display())).unwrap();
    assert_eq!(args.trim(), "", "nothing is an argument");
    let id = start(&world, target("telegram:-100123")).await;
    let call = called(&listener).await;
    check_signature(&call);
    let told: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(told["address"], "-100123", "{told:#}");
    assert!(told["text"].as_str().unwrap().contains(&id), "{told:#}");
    call.answer("200 OK").await;
    notified(&world, &id, "sent").await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn untargeted_task_is_reported_once() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let id = start(&world, json!({"prompt": "echo:done"})).await;
    let (_, task) = finished(&world, &id).await;
    assert_eq!(task["notification_status"], Value::Null, "{task:#}");
    for dry_run in [true, true, false] {
        let (_, told) = post(
            &world,
            "/v1/tasks/notify-completed",
            json!({"dry_run": dry_run}),
        )
        .await;
        assert_eq!(
            told["notifications"][0]["notification_status"], "no_target",
            "{told:#}"
        );
    }
    let (_, told) = post(&world, "/v1/tasks/notify-completed", json!({})).await;
    assert_eq!(told["processed"], 0, "{told:#}");
    let status = get(&world, &format!("/v1/tasks/{id}")).await;
    assert_eq!(status["task"]["notification_status"], "no_target");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn threat_17_rejects_private_webhook_targets() {
    let (world, listener, _) = hooked("").await;
    let daemon = world.daemon().await;
    let port = listener.local_addr().unwrap().port();
    for url in [
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://169.254.169.254/".to_owned(),
        "https://2130706433/".to_owned(),
        "https://0177.0.0.1/".to_owned(),
        "https://[::ffff:127.0.0.1]/".to_owned(),
        format!("https://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        "file:///etc/passwd".to_owned(),
    ] {
        let args = json!({"prompt": "echo:x", "notify_target": format!("webhook:{url}")});
        let (status, said) = post(&world, "/v1/tasks", args).await;
        assert_eq!(status, 422, "{url}: {said:#}");
    }
    assert_eq!(world.model.requests().len(), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The own workspace is told on its canvas, another one as a peer.
#[tokio::test]
async fn workspace_is_notified_by_canvas_or_peer() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    let us = format!("molecule:{}", chat.us.id);
    let id = start(
        &chat.world,
        json!({"prompt": "echo:done", "notify_target": us}),
    )
    .await;
    let said = chat.bubbles(1).await;
    let words = format!("Codex Bridge task {id} finished with status: completed.");
    assert!(said[0].starts_with(&words), "{said:?}");
    notified(&chat.world, &id, "sent").await;
    let peer = format!("molecule:{}", chat.peer.id);
    let other = start(
        &chat.world,
        json!({"prompt": "echo:done", "notify_target": peer}),
    )
    .await;
    let got = chat.peer_got(1).await;
    assert!(got[0].contains(&other), "{got:?}");
    notified(&chat.world, &other, "sent").await;
    assert_eq!(daemon.stop().await, Some(0));
}
