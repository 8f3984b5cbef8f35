//! Tasks from outside, over the API on the real Codex: start, status, list, steer, interrupt, and all of it after a
//! restart and for messages of other channels.

use crate::world::{Daemon, World, outside_every_sandbox, within};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A call over the socket of the state directory; its status and its JSON.
pub(crate) async fn call(world: &World, ask: &str, body: Option<&Value>) -> (u16, Value) {
    let answer = within(ask, exchange(world, ask, body)).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let json = serde_json::from_str(body).unwrap_or_else(|error| panic!("{ask}: {error}: {body}"));
    (status, json)
}

async fn exchange(world: &World, ask: &str, body: Option<&Value>) -> String {
    let socket = world.state_dir().join("api.sock");
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let (ask, headers) = ask.split_once('\n').unwrap_or((ask, ""));
    let head = format!(
        "{ask} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

pub(crate) async fn get(world: &World, path: &str) -> Value {
    let (status, json) = call(world, &format!("GET {path}"), None).await;
    assert_eq!(status, 200, "{path}: {json:#}");
    json
}

pub(crate) async fn post(world: &World, path: &str, body: Value) -> (u16, Value) {
    call(world, &format!("POST {path}"), Some(&body)).await
}

/// Starts a task; its id.
pub(crate) async fn start(world: &World, args: Value) -> String {
    let (status, json) = post(world, "/v1/tasks", args).await;
    assert_eq!(status, 201, "{json:#}");
    json["task"]["task_id"].as_str().unwrap().to_owned()
}

/// Reads the news of a task to their end; the names of all events, and what the status says then.
pub(crate) async fn finished(world: &World, id: &str) -> (String, Value) {
    let ask = format!("GET /v1/tasks/{id}/events");
    let news = within("the end of a task", exchange(world, &ask, None)).await;
    assert!(news.contains("event: end"), "{news}");
    let status = get(world, &format!("/v1/tasks/{id}")).await;
    (news, status["task"].clone())
}

async fn refused(world: &World, args: Value, status: u16, words: &str) {
    let (found, json) = post(world, "/v1/tasks", args).await;
    assert_eq!(found, status, "{json:#}");
    let detail = json["detail"].as_str().unwrap();
    assert!(detail.contains(words), "{detail}");
}

#[tokio::test]
async fn task_api_starts_shows_and_lists() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let id = start(
        &world,
        json!({"prompt": "shell:true ;; hold:one\necho:done", "notify_target": "local"}),
    )
    .await;
    assert!(id.starts_with("codex-") && id.len() == 18, "{id}");
    world.model.wait_held("one").await.unwrap();
    let working = get(&world, &format!("/v1/tasks/{id}")).await;
    let task = &working["task"];
    for (key, value) in [
        ("task_id", json!(id)),
        ("status", json!("working")),
        ("sandbox", json!("read-only")),
        ("approval_policy", json!("on-request")),
        ("prompt_summary", json!("shell:true ;; hold:one echo:done")),
        ("notification_status", json!("pending")),
        ("active_connection", json!(true)),
    ] {
        assert_eq!(task[key], value, "{key}: {working:#}");
    }
    for word in ["success", "protocol"] {
        assert!(working[word].is_null(), "the older tool's: {working:#}");
    }
    world.model.release("one");
    let (news, task) = finished(&world, &id).await;
    assert!(
        news.contains("event: state") && news.contains("event: item"),
        "{news}"
    );
    assert_eq!(
        (&task["status"], &task["answer"]),
        (&json!("completed"), &json!("done")),
        "{task:#}"
    );
    let events = task["recent_events"].as_array().unwrap();
    let known = |name: &str| {
        events
            .iter()
            .any(|event| event["source_event_type"] == name)
    };
    assert!(
        known("turn/started") && known("item/completed") && known("turn/completed"),
        "{events:#?}"
    );
    let other = start(&world, json!({"prompt": "echo:2"})).await;
    finished(&world, &other).await;
    let listed = get(&world, "/v1/tasks?limit=1").await;
    assert_eq!(listed["tasks"][0]["task_id"], json!(other), "{listed:#}");
    let older = get(&world, &format!("/v1/tasks?before={other}")).await;
    assert_eq!(older["tasks"][0]["task_id"], json!(id), "{older:#}");
    let (status, unknown) = call(&world, "GET /v1/tasks/codex-000000000000", None).await;
    assert_eq!(status, 404);
    assert_eq!(
        unknown["detail"],
        "Unknown Codex bridge task: codex-000000000000"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn task_start_rejects_invalid_arguments() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let home = world.person().display().to_string();
    let state = world.state_dir().display().to_string();
    for (args, words) in [
        (
            json!({"prompt": " "}),
            "codex_bridge start requires a non-empty prompt.",
        ),
        (
            json!({"prompt": "x", "sandbox": "danger-full-access"}),
            "codex_bridge refuses danger-full-access as a default bridge sandbox.",
        ),
        (
            json!({"prompt": "x", "approval_policy": "never"}),
            "codex_bridge refuses approval_policy=never.",
        ),
        (
            json!({"prompt": "x", "notify_target": "feishu:1"}),
            "set the key `notify.schemes.feishu`",
        ),
        (
            json!({"prompt": "x", "notify_target": "command:none"}),
            "no [[notify.command]]",
        ),
        (json!({"prompt": "x", "codex_home": "/"}), "codex.homes"),
        (json!({"prompt": "x", "cwd": "here"}), "absolute"),
        (json!({"prompt": "x", "cwd": "/nonexistent"}), "create it"),
        (
            json!({"prompt": "x", "cwd": home, "sandbox": "workspace-write"}),
            "home directory",
        ),
        (
            json!({"prompt": "x", "cwd": state, "sandbox": "workspace-write"}),
            "state directory",
        ),
        (
            json!({"prompt": "x", "cwd": "/", "sandbox": "workspace-write"}),
            "`/`",
        ),
    ] {
        refused(&world, args, 422, words).await;
    }
    let (status, _) = post(&world, "/v1/tasks", json!({"prompt": "x", "colour": 1})).await;
    assert_eq!(status, 400);
    let none = get(&world, "/v1/tasks").await;
    assert_eq!(none["tasks"], json!([]));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn task_honours_sandbox_and_idempotency_key() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let place = outside_every_sandbox();
    for (sandbox, made) in [("read-only", false), ("workspace-write", true)] {
        let cwd = place.path().join(sandbox);
        std::fs::create_dir(&cwd).unwrap();
        let args = json!({"prompt": "shell:touch here ;; echo:ok", "cwd": cwd, "sandbox": sandbox});
        let id = start(&world, args).await;
        let (_, task) = finished(&world, &id).await;
        assert_eq!(task["answer"], "ok", "{task:#}");
        assert_eq!(cwd.join("here").exists(), made, "{sandbox}");
    }
    let args = json!({"prompt": "echo:once"});
    let ask = "POST /v1/tasks\nIdempotency-Key: k1\r\n";
    let (first, one) = call(&world, ask, Some(&args)).await;
    let (again, same) = call(&world, ask, Some(&args)).await;
    assert_eq!((first, again), (201, 200));
    assert_eq!(one["task"]["task_id"], same["task"]["task_id"]);
    for other in [
        json!({"prompt": "echo:other"}),
        json!({"prompt": "echo:once", "sandbox": "workspace-write"}),
        json!({"prompt": "echo:once", "notify_target": "local"}),
    ] {
        let (status, said) = call(&world, ask, Some(&other)).await;
        assert_eq!(status, 422, "{other}: {said:#}");
    }
    let cwd = place.path().join("gone");
    std::fs::create_dir(&cwd).unwrap();
    let args = json!({"prompt": "echo:ok", "cwd": cwd});
    let ask = "POST /v1/tasks\nIdempotency-Key: k2\r\n";
    let (_, one) = call(&world, ask, Some(&args)).await;
    finished(&world, one["task"]["task_id"].as_str().unwrap()).await;
    std::fs::remove_dir(&cwd).unwrap();
    let (again, same) = call(&world, ask, Some(&args)).await;
    assert_eq!(again, 200, "what was started is known: {same:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

async fn held(world: &World) -> (Daemon, String) {
    let daemon = world.daemon().await;
    let id = start(world, json!({"prompt": "hold:one echo:first"})).await;
    world.model.wait_held("one").await.unwrap();
    (daemon, id)
}

#[tokio::test]
async fn steering_says_what_became_of_it() {
    let world = World::new().await;
    let (daemon, id) = held(&world).await;
    let path = format!("/v1/tasks/{id}/steer");
    let (status, steered) = post(
        &world,
        &path,
        json!({"instruction": "hold:two echo:second"}),
    )
    .await;
    assert_eq!(
        (status, &steered["steer"]),
        (200, &json!("steered")),
        "{steered:#}"
    );
    world.model.wait_held("two").await.unwrap();
    world.model.release("two");
    let (_, task) = finished(&world, &id).await;
    assert_eq!(task["answer"], "second", "{task:#}");
    assert_eq!(world.model.requests().len(), 2);
    let (status, late) = post(&world, &path, json!({"instruction": "more"})).await;
    assert_eq!(status, 409, "{late:#}");
    assert!(
        late["detail"].as_str().unwrap().contains("is over"),
        "{late:#}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn interrupted_task_starts_nothing_more() {
    let world = World::new().await;
    let (daemon, id) = held(&world).await;
    let steer = format!("/v1/tasks/{id}/steer");
    post(
        &world,
        &steer,
        json!({"instruction": "hold:two echo:second"}),
    )
    .await;
    world.model.wait_held("two").await.unwrap();
    let path = format!("/v1/tasks/{id}/interrupt");
    let (status, stopped) = call(&world, &format!("POST {path}"), None).await;
    assert_eq!(
        (status, &stopped["interrupt"]),
        (200, &json!("cancelled")),
        "{stopped:#}"
    );
    assert_eq!(stopped["task"]["status"], "cancelled", "{stopped:#}");
    assert_eq!(stopped["task"]["final_summary"], Value::Null);
    let asked = world.model.requests().len();
    let (status, again) = call(&world, &format!("POST {path}"), None).await;
    assert_eq!(status, 409, "{again:#}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(
        world.model.requests().len(),
        asked,
        "something began after the stop"
    );
}

#[tokio::test]
async fn task_is_steered_after_daemon_kill() {
    let world = World::new().await;
    let (daemon, id) = held(&world).await;
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    let mut log = daemon.log.clone();
    let path = format!("/v1/tasks/{id}/steer");
    // Until the turn is followed again, what is said waits for the next one.
    let (_, told) = post(&world, &path, json!({"instruction": "echo:second"})).await;
    let word = told["steer"].as_str().unwrap();
    assert!(matches!(word, "steered" | "queued"), "{told:#}");
    world.model.release("one");
    let (_, task) = finished(&world, &id).await;
    assert_eq!(
        (&task["status"], &task["answer"]),
        (&json!("completed"), &json!("second")),
        "{task:#}"
    );
    log.wait_for(" ready ").await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn channel_messages_are_steered_like_tasks() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut send = world
        .start(&["send", "-c", "a", "hold:one echo:first"])
        .await;
    let id = send.on_disk().await;
    world.model.wait_held("one").await.unwrap();
    let (status, told) = post(
        &world,
        &format!("/v1/messages/{id}/steer"),
        json!({"instruction": "hold:two echo:second"}),
    )
    .await;
    assert_eq!(
        (status, &told["steer"]),
        (200, &json!("steered")),
        "{told:#}"
    );
    world.model.wait_held("two").await.unwrap();
    let shown = get(&world, &format!("/v1/tasks/{}", &id[..20])).await;
    assert_eq!(shown["task"]["task_id"], json!(id), "{shown:#}");
    assert_eq!(shown["task"]["status"], "working", "{shown:#}");
    world.model.release("two");
    assert_eq!(send.ended().await.stdout, "second\n");
    let story = world.json(&["show", "--json", &id]).await;
    let told = |event: &Value| {
        event["text"]
            .as_str()
            .unwrap()
            .starts_with("steered by local owner")
    };
    assert!(
        story["events"].as_array().unwrap().iter().any(told),
        "{story:#}"
    );
    assert_eq!(story["acts"][0]["what"], "tell", "{story:#}");
    let (status, late) = post(
        &world,
        &format!("/v1/messages/{id}/steer"),
        json!({"instruction": "x"}),
    )
    .await;
    assert_eq!(status, 409, "{late:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn task_approval_is_answered_by_code() {
    let world = World::new().await;
    let mut daemon = world.daemon().await;
    let place = outside_every_sandbox();
    let made = place.path().join("made");
    for (times, decision, exists) in [(1, None, false), (2, Some("accept"), true)] {
        let prompt = format!("escal:touch {} ;; echo:ok", made.display());
        let id = start(&world, json!({"prompt": prompt})).await;
        daemon
            .log
            .wait_times("and waits for a decision", times)
            .await;
        let shown = get(&world, &format!("/v1/tasks/{id}")).await;
        let task = &shown["task"];
        assert_eq!(task["status"], "waiting_for_approval", "{shown:#}");
        let asked = &task["pending_requests"][0];
        assert_eq!(
            asked["method"], "item/commandExecution/requestApproval",
            "{asked:#}"
        );
        let path = format!("/v1/tasks/{id}/respond");
        let (status, said) = post(&world, &path, json!({"request_id": "nope"})).await;
        assert_eq!(status, 404);
        let code = asked["code"].as_str().unwrap();
        let words =
            format!("No pending Codex request 'nope' for task {id}. Codex waits for '{code}'");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.starts_with(&words), "{detail}");
        let body = json!({"request_id": asked["code"], "decision": decision});
        let (status, said) = post(&world, &path, body).await;
        assert_eq!(status, 200, "{said:#}");
        assert_eq!(said["response"]["decision"], decision.unwrap_or("decline"));
        let (_, task) = finished(&world, &id).await;
        assert_eq!(task["status"], "completed", "{task:#}");
        assert_eq!(made.exists(), exists, "{decision:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}
