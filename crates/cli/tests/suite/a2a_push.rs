//! Push notifications of A2A from outside: a receiver that is down and comes back, daemons that die around a push, and
//! addresses that nobody may make us call.

use crate::notifications::{Call, called};
use crate::tasks::{call, get};
use crate::world::{Running, World, within};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;

const TOKEN: &str = "token-that-nobody-else-knows";
const CREDENTIALS: &str = "credentials-that-nobody-else-knows";

/// A receiver on an address of its own, so that nobody else takes its port while it is down.
async fn receiver(address: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

async fn world(allowed: SocketAddr) -> World {
    World::with_settings(&format!("[a2a]\nallow_origins = [\"http://{allowed}\"]\n")).await
}

fn config(url: &str) -> Value {
    json!({
        "id": "mine",
        "url": url,
        "token": TOKEN,
        "authentication": {"scheme": "Bearer", "credentials": CREDENTIALS},
    })
}

async fn a2a(world: &World, ask: &str, body: Option<&Value>) -> (u16, Value) {
    call(world, &format!("{ask}\nA2A-Version: 1.0\r\n"), body).await
}

/// Sends a message without waiting for its end; the task.
async fn send(world: &World, text: &str, config: &Value) -> (u16, Value) {
    let body = json!({
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]},
        "configuration": {"returnImmediately": true, "taskPushNotificationConfig": config},
    });
    a2a(world, "POST /a2a/message:send", Some(&body)).await
}

async fn sent(world: &World, text: &str, at: SocketAddr) -> String {
    let (status, said) = send(world, text, &config(&format!("http://{at}/push"))).await;
    assert_eq!(status, 200, "{said:#}");
    said["task"]["id"].as_str().unwrap().to_owned()
}

/// What a push tells, in a word, with what it is known by.
fn told(call: &Call, task: &str) -> (String, String) {
    assert_eq!(
        call.header("authorization"),
        format!("Bearer {CREDENTIALS}")
    );
    assert_eq!(call.header("x-a2a-notification-token"), TOKEN);
    assert_eq!(call.header("content-type"), "application/a2a+json");
    let body: Value = serde_json::from_str(&call.body).unwrap();
    let (kind, update) = body.as_object().unwrap().iter().next().unwrap();
    assert_eq!(update["taskId"], task, "{body:#}");
    let word = match kind.as_str() {
        "statusUpdate" => &update["status"]["state"],
        "artifactUpdate" => &update["artifact"]["parts"][0]["text"],
        other => panic!("{other}: {body:#}"),
    };
    let id = call.header("webhook-id").to_owned();
    (word.as_str().unwrap().to_owned(), id)
}

/// Takes pushes until the task is over; each once, in the order they came.
async fn heard(listener: &TcpListener, task: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut words = Vec::new();
    loop {
        let call = called(listener).await;
        let (word, id) = told(&call, task);
        call.answer("200 OK").await;
        if !ids.contains(&id) {
            ids.push(id);
            words.push(word.clone());
        }
        if word == "TASK_STATE_COMPLETED" {
            return words;
        }
    }
}

const LIFE: [&str; 4] = [
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "done",
    "TASK_STATE_COMPLETED",
];

async fn task_state(world: &World, task: &str) -> Value {
    let (status, said) = a2a(world, &format!("GET /a2a/tasks/{task}"), None).await;
    assert_eq!(status, 200, "{said:#}");
    said["status"]["state"].clone()
}

/// The receiver is down while the task runs and ends, and while the daemon is killed: it misses nothing.
#[tokio::test]
async fn p15_receiver_catches_up_after_outage() {
    let (down, at) = receiver("127.15.0.1").await;
    drop(down);
    let world = world(at).await;
    let mut daemon = world.daemon().await;
    let task = sent(&world, "echo:done", at).await;
    daemon
        .log
        .wait_for("a push notification was not taken")
        .await;
    let mut log = daemon.log.text();
    daemon.kill_9().await;
    let mut daemon = world.daemon().await;
    daemon
        .log
        .wait_for("a push notification was not taken")
        .await;
    let listener = TcpListener::bind(at).await.unwrap();
    assert_eq!(heard(&listener, &task).await, LIFE);
    assert_eq!(task_state(&world, &task).await, "TASK_STATE_COMPLETED");
    log.push_str(&daemon.log.text());
    assert_eq!(daemon.stop().await, Some(0));
    for secret in [TOKEN, CREDENTIALS] {
        assert!(!log.contains(secret), "{log}");
    }
}

/// Whatever side of its two commits the daemon dies on, what is told again has the same id, and nothing is missing.
#[tokio::test]
async fn p15_push_survives_crash_around_intent() {
    for (n, point) in [
        "notify_begin.before#2",
        "notify_begin.after#3",
        "notify_end.before#2",
        "notify_end.after#3",
    ]
    .into_iter()
    .enumerate()
    {
        let (listener, at) = receiver(&format!("127.15.1.{}", n + 1)).await;
        let world = world(at).await;
        let mut command = world.command(&["run"]);
        command.env("CODEX_BRIDGE_FAIL_POINT", point);
        let mut doomed = Running::of(command);
        doomed.stderr.wait_for(" ready ").await;
        let task = sent(&world, "echo:done", at).await;
        let mut first = Vec::new();
        let dying = async {
            loop {
                let call = called(&listener).await;
                let (word, id) = told(&call, &task);
                if !first.contains(&(word.clone(), id.clone())) {
                    first.push((word, id));
                }
                call.answer("200 OK").await;
            }
        };
        tokio::select! {
            () = dying => {}
            ended = within(point, doomed.ended()) => assert_eq!(ended.code, None, "{point}"),
        }
        let daemon = world.daemon().await;
        let rest = heard(&listener, &task).await;
        let mut all: Vec<_> = first.into_iter().map(|(word, _)| word).collect();
        all.extend(rest);
        all.dedup();
        assert_eq!(all, LIFE, "{point}");
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test]
async fn threat_17_push_to_private_address_rejected() {
    let (listener, at) = receiver("127.17.0.1").await;
    let (_, allowed) = receiver("127.17.0.2").await;
    let world = world(allowed).await;
    let daemon = world.daemon().await;
    let port = at.port();
    for url in [
        format!("http://{at}/push"),
        format!("https://{at}/push"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://2852039166/latest/meta-data/".to_owned(),
        "https://0251.0376.0251.0376/".to_owned(),
        format!("https://0177.021.0.1:{port}/"),
        format!("https://[::ffff:127.17.0.1]:{port}/"),
        format!("http://localhost:{port}/"),
        "file:///etc/passwd".to_owned(),
    ] {
        let (status, said) = send(&world, "echo:never", &config(&url)).await;
        assert_eq!(status, 400, "{url}: {said:#}");
        assert!(!said.to_string().contains(CREDENTIALS), "{said:#}");
    }
    assert_eq!(world.model.requests().len(), 0, "nothing was begun");
    let (status, said) = a2a(&world, "GET /a2a/tasks", None).await;
    assert_eq!((status, &said["totalSize"]), (200, &json!(0)), "{said:#}");
    let nobody = futures_util::FutureExt::now_or_never(listener.accept());
    assert!(nobody.is_none(), "somebody connected");
    assert_eq!(daemon.stop().await, Some(0));
}

/// What is allowed may not lead on to what is not; the configuration is given up, and people can see why.
#[tokio::test]
async fn threat_17_redirected_push_is_abandoned() {
    let (listener, at) = receiver("127.17.1.1").await;
    let world = world(at).await;
    let mut daemon = world.daemon().await;
    let task = sent(&world, "echo:done", at).await;
    let call = called(&listener).await;
    let (word, _) = told(&call, &task);
    assert_eq!(word, LIFE[0]);
    call.answer("307 Over There\r\nLocation: http://169.254.169.254/latest/meta-data/")
        .await;
    let log = daemon.log.wait_for("push notifications are given up").await;
    assert!(log.contains("redirects are not followed"), "{log}");
    assert!(!log.contains(CREDENTIALS) && !log.contains(TOKEN), "{log}");
    let list = get(&world, "/v1/messages").await;
    let id = list["messages"][0]["message_id"].as_str().unwrap();
    world.finished(id).await;
    let shown = world.run(&["show", id, "--json"]).await;
    for words in ["are given up after 1 try", "redirects are not followed"] {
        assert!(shown.stdout.contains(words), "{}", shown.stdout);
    }
    assert!(!shown.stdout.contains(CREDENTIALS), "{}", shown.stdout);
    let why = world.run(&["why", id]).await.stdout;
    let words = "its owner is told nothing more through push configuration";
    assert!(why.contains(words) && !why.contains(CREDENTIALS), "{why}");
    assert_eq!(task_state(&world, &task).await, "TASK_STATE_COMPLETED");
    let (_, kept) = a2a(
        &world,
        &format!("GET /a2a/tasks/{task}/pushNotificationConfigs/mine"),
        None,
    )
    .await;
    assert_eq!(kept["authentication"]["credentials"], CREDENTIALS);
    assert_eq!(daemon.stop().await, Some(0));
    let again = futures_util::FutureExt::now_or_never(listener.accept());
    assert!(again.is_none(), "it was called again");
}
