//! Who is told of questions, failures and ends of tasks: a webhook, an ntfy server and a browser, once each, whatever dies
//! in between; and that what was settled disappears.

use crate::console::{Browser, login};
use crate::notifications::{called, whsec};
use crate::push_service::PushService;
use crate::requests::{Stage, api};
use crate::world::{Running, within};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;

const ASKS: &str = "escal:touch canary-file ;; echo:done";

/// Where alerts go in these tests.
struct Targets {
    hook: TcpListener,
    ntfy: TcpListener,
    push: PushService,
    settings: String,
}

async fn targets(about: &str) -> Targets {
    let hook = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ntfy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let push = PushService::open().await;
    let origin = |of: &TcpListener| format!("http://{}", of.local_addr().unwrap());
    let (hook_at, ntfy_at) = (origin(&hook), origin(&ntfy));
    let settings = format!(
        "[notify]\nwebhook_secret_file = {:?}\nallow_origins = [{hook_at:?}, {:?}]\n\
         [notify.ntfy]\nserver = {ntfy_at:?}\n\
         [[notify.alert]]\nto = \"webhook:{hook_at}/alerts\"\nabout = {about}\ndetail = \"headline\"\n\
         [[notify.alert]]\nto = \"ntfy:codex\"\nabout = {about}\n",
        whsec(),
        push.origin(),
    );
    Targets {
        hook,
        ntfy,
        push,
        settings,
    }
}

async fn hooked(hook: &TcpListener) -> (String, Value) {
    let call = called(hook).await;
    let (id, body) = (call.header("webhook-id").to_owned(), call.body.clone());
    call.answer("204 No Content").await;
    (id, serde_json::from_str(&body).unwrap())
}

async fn published(ntfy: &TcpListener) -> Value {
    let call = called(ntfy).await;
    let body = call.body.clone();
    call.answer("200 OK").await;
    serde_json::from_str(&body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_told_and_taken_back() {
    let targets = targets("[\"question\"]").await;
    let stage = Stage::new(&targets.settings).await;
    let mut daemon = stage.daemon().await;
    let (browser, key) = subscribed(&stage, &targets.push, &["question"]).await;
    let asking = stage.asks(&mut daemon, ASKS, 1).await;
    let id = stage.waiting().await["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("#/requests/{id}");
    let (_, hook) = hooked(&targets.hook).await;
    assert_eq!(
        (&hook["type"], &hook["alert"]["id"]),
        (&json!("alert.question"), &json!(id))
    );
    assert!(
        hook["alert"]["body"]
            .as_str()
            .unwrap()
            .contains("canary-file"),
        "{hook:#}"
    );
    let link = hook["url"].as_str().unwrap();
    assert_eq!(link, format!("http://127.0.0.1:4141/console/{path}"));
    let ntfy = published(&targets.ntfy).await;
    assert_eq!(
        (&ntfy["topic"], &ntfy["click"]),
        (&json!("codex"), &hook["url"])
    );
    assert!(!ntfy.to_string().contains("canary"), "{ntfy:#}");
    let pushed = targets.push.next(&key).await;
    assert_eq!(
        (&pushed.payload["kind"], &pushed.payload["id"]),
        (&json!("question"), &json!(id))
    );
    assert_eq!(pushed.payload["path"], path);
    assert!(
        !pushed.payload.to_string().contains("canary"),
        "{}",
        pushed.payload
    );
    let topic = pushed.call.header("topic").to_owned();
    assert_eq!(pushed.call.header("urgency"), "high");
    pushed.call.answer("201 Created").await;
    let (status, _) = stage.decide(&id, "accept", Value::Null).await;
    assert_eq!(status, 200);
    let settled = targets.push.next(&key).await;
    assert_eq!(settled.payload["kind"], "settled", "{}", settled.payload);
    assert_eq!(
        (&settled.payload["id"], settled.call.header("topic")),
        (&json!(id), &*topic)
    );
    settled.call.answer("201 Created").await;
    let (_, hook) = hooked(&targets.hook).await;
    assert_eq!(hook["type"], "alert.settled", "{hook:#}");
    asking.answered().await;
    let over = browser.call(Method::DELETE, "../v1/session");
    assert_eq!(browser.answer(over).await.0, StatusCode::NO_CONTENT);
    let asking = stage.asks(&mut daemon, ASKS, 2).await;
    hooked(&targets.hook).await;
    published(&targets.ntfy).await;
    let id = stage.waiting().await["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    stage.decide(&id, "decline", Value::Null).await;
    hooked(&targets.hook).await;
    asking.answered().await;
    assert!(targets.push.nothing_came(), "its session has ended");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A browser that takes alerts of this, and the key that it subscribed with.
async fn subscribed(stage: &Stage, push: &PushService, about: &[&str]) -> (Browser, String) {
    let made = login(&stage.world, &["--scopes", "read"]).await;
    let mut browser = Browser::new(made["url"].as_str().unwrap());
    browser.sign_in(made["code"].as_str().unwrap()).await;
    let (_, known) = browser.get("../v1/push").await;
    let new = push.subscription(about, "hint");
    let add = browser.call(Method::POST, "../v1/push").json(&new);
    let (status, added) = browser.answer(add).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    let key = known["key"].as_str().unwrap().to_owned();
    (browser, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_is_gone_is_forgotten() {
    let targets = targets("[]").await;
    let stage = Stage::new(&targets.settings).await;
    let daemon = stage.daemon().await;
    let (browser, key) = subscribed(&stage, &targets.push, &["failure"]).await;
    let sent = stage.world.start(&["send", "-c", "b", "fail:400"]).await;
    let first = targets.push.next(&key).await;
    assert_eq!(first.payload["kind"], "failure", "{}", first.payload);
    first.call.answer("500 Internal Server Error").await;
    let again = targets.push.next(&key).await;
    assert_eq!(again.payload, first.payload);
    let (_, known) = browser.get("../v1/push").await;
    let why = known["subscriptions"][0]["error"].as_str().unwrap();
    assert!(why.contains("500"), "{known}");
    again.call.answer("410 Gone").await;
    within("the end of the subscription", async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while browser.get("../v1/push").await.1["subscriptions"] != json!([]) {
            look.tick().await;
        }
    })
    .await;
    sent.ended().await;
    assert_eq!(daemon.stop().await, Some(0));
}

/// The daemon dies between the commit that asks and the one that ends the send.
#[tokio::test(flavor = "multi_thread")]
async fn alerts_survive_deaths_around_their_intent() {
    for point in [
        "notice_alerts.before",
        "notice_alerts.after",
        "alert_begin.before",
        "alert_begin.after",
        "alert_end.before",
    ] {
        let targets = targets("[\"question\"]").await;
        let hook_only = targets
            .settings
            .split("[[notify.alert]]\nto = \"ntfy")
            .next()
            .unwrap();
        let stage = Stage::new(hook_only).await;
        let work = stage.work.display().to_string();
        let mut command = stage.world.command(&["run", "--workdir", &work]);
        command.env("CODEX_BRIDGE_FAIL_POINT", point);
        let mut doomed = Running::of(command);
        doomed.stderr.wait_for(" ready ").await;
        let mut send = stage.world.start(&["send", "-c", "a", ASKS]).await;
        send.on_disk().await;
        let mut ids = Vec::new();
        if point == "alert_end.before" {
            ids.push(hooked(&targets.hook).await.0);
        }
        within(point, doomed.ended()).await;
        let daemon = stage.daemon().await;
        let (id, hook) = hooked(&targets.hook).await;
        assert_eq!(hook["type"], "alert.question", "{point}: {hook:#}");
        ids.push(id);
        ids.dedup();
        assert_eq!(
            ids.len(),
            1,
            "{point}: a repeat has the id of the first try"
        );
        let id = hook["alert"]["id"].as_str().unwrap();
        let decline = json!({"decision": "decline"});
        let path = format!("/v1/requests/{id}/decision");
        let (status, said) = api(&stage.world, "POST", &path, &decline).await;
        assert_eq!(status, 200, "{point}: {said}");
        // What comes next is the end of the question: it was asked once.
        let (_, next) = hooked(&targets.hook).await;
        assert_eq!(next["type"], "alert.settled", "{point}: {next:#}");
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_ends_of_tasks_are_told() {
    let targets = targets("[\"failure\", \"task\"]").await;
    let stage = Stage::new(&targets.settings).await;
    let daemon = stage.daemon().await;
    let (_, started) = api(
        &stage.world,
        "POST",
        "/v1/tasks",
        &json!({"prompt": "echo:fine"}),
    )
    .await;
    let task = started["task"]["task_id"].as_str().unwrap();
    let (_, hook) = hooked(&targets.hook).await;
    assert_eq!(
        (&hook["type"], &hook["alert"]["id"]),
        (&json!("alert.task"), &json!(task))
    );
    assert!(
        hook["alert"]["body"]
            .as_str()
            .unwrap()
            .contains("completed"),
        "{hook:#}"
    );
    let ntfy = published(&targets.ntfy).await;
    assert!(ntfy["message"].as_str().unwrap().contains(task), "{ntfy:#}");
    let sent = stage.world.start(&["send", "-c", "b", "fail:400"]).await;
    let (_, hook) = hooked(&targets.hook).await;
    assert_eq!(hook["type"], "alert.failure", "{hook:#}");
    assert!(
        hook["alert"]["path"]
            .as_str()
            .unwrap()
            .starts_with("#/messages/"),
        "{hook:#}"
    );
    published(&targets.ntfy).await;
    sent.ended().await;
    assert_eq!(daemon.stop().await, Some(0));
}
