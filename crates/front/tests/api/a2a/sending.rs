//! Send, go on, get, cancel: what a task is from its first message to its end.

use super::files::file;
use super::{World, says, says_in, state};
use crate::audit::becomes;
use crate::service::Put;
use axum::body::Body;
use axum::http::Request;
use bridge_core::port::{Change, Ledger};
use bridge_core::value::{Life, MessageId, MessageState, StateName, TurnId};
use bridge_front::BridgeService;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn send_waits_for_completed_task() {
    for binding in ["rpc", "rest"] {
        let world = World::new().await;
        let mut news = world.service.hub().watch_all();
        let calling = world.clone();
        let call = tokio::spawn(async move {
            let params = json!({"message": says("hello")});
            match binding {
                "rpc" => calling.rpc("ann", "SendMessage", params).await["result"].clone(),
                _ => {
                    let sent = calling.rest("ann", "POST", "/a2a/message:send", &params);
                    sent.await.json()
                }
            }
        });
        assert_eq!(news.next().await.unwrap().as_str(), "m1");
        assert!(!call.is_finished());
        world.answers("m1", "hi there").await;
        let task = call.await.unwrap()["task"].clone();
        assert_eq!(state(&task), "COMPLETED", "{binding}");
        assert_eq!(task["id"], "e1");
        assert_eq!(task["contextId"], "made-1");
        assert_eq!(task["artifacts"][0]["artifactId"], "m1");
        assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "hi there"}]));
        let history = &task["history"];
        assert_eq!(history[0]["parts"][0]["text"], "hello");
        assert_eq!(history[0]["role"], "ROLE_USER");
        assert_eq!(history[0]["taskId"], "e1");
        assert_eq!(history[1]["messageId"], "m1-answer");
        assert_eq!(history[1]["role"], "ROLE_AGENT");
    }
}

#[tokio::test(start_paused = true)]
async fn task_continues_after_input_required() {
    let world = World::new().await;
    let task = world.gives("ann", says("paint it")).await;
    assert_eq!(state(&task), "SUBMITTED");
    world.answers("m1", "Which colour?\n[input-required]").await;
    let task = world.task("ann", "e1").await;
    assert_eq!(state(&task), "INPUT_REQUIRED");
    assert_eq!(
        task["status"]["message"]["parts"][0]["text"],
        "Which colour?"
    );
    assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
    let task = world.gives("ann", says_in("e1", "red")).await;
    assert_eq!((state(&task), &task["id"]), ("WORKING", &json!("e1")));
    assert_eq!(task["contextId"], "made-1", "found out by the task");
    world.answers("m2", "done").await;
    let task = world.task("ann", "e1").await;
    assert_eq!(state(&task), "COMPLETED");
    let texts: Vec<_> = task["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| said["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["paint it", "Which colour?", "red", "done"]);
    let more = json!({"message": says_in("e1", "more")});
    let refused = world.rpc("ann", "SendMessage", more.clone()).await;
    assert_eq!(refused["error"]["code"], -32004);
    let refused = world.rest("ann", "POST", "/a2a/message:send", &more).await;
    let refused = refused.json();
    assert_eq!(
        refused["error"]["details"][0]["reason"],
        "UNSUPPORTED_OPERATION"
    );
}

#[tokio::test(start_paused = true)]
async fn mismatched_context_id_is_refused() {
    let world = World::new().await;
    world.gives("ann", says("one")).await;
    let mut message = says_in("e1", "two");
    message["contextId"] = "elsewhere".into();
    let params = json!({"message": message});
    let refused = world.rpc("ann", "SendMessage", params).await;
    assert_eq!(refused["error"]["code"], -32602);
    let field = &refused["error"]["data"][1]["fieldViolations"][0]["field"];
    assert_eq!(field, "message.contextId");
}

#[tokio::test(start_paused = true)]
async fn threat_12_foreign_task_looks_unknown() {
    let world = World::new().await;
    let mut message = says("secret");
    message["contextId"] = "talk".into();
    world.gives("ann", message.clone()).await;
    let theirs = world.gives("bob", message).await;
    assert_eq!(theirs["contextId"], "talk", "the same name, another talk");
    let push = json!({"taskId": "e1", "url": "https://hooks.test/"});
    for (method, params) in [
        ("GetTask", json!({"id": "e1"})),
        ("CancelTask", json!({"id": "e1"})),
        ("SubscribeToTask", json!({"id": "e1"})),
        ("SendMessage", json!({"message": says_in("e1", "mine now")})),
        (
            "SendStreamingMessage",
            json!({"message": says_in("e1", "mine now")}),
        ),
        ("CreateTaskPushNotificationConfig", push),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "e1"})),
        (
            "GetTaskPushNotificationConfig",
            json!({"taskId": "e1", "id": "c"}),
        ),
        (
            "DeleteTaskPushNotificationConfig",
            json!({"taskId": "e1", "id": "c"}),
        ),
    ] {
        let strange = world.rpc("bob", method, params.clone()).await;
        let params: Value = serde_json::from_str(&params.to_string().replace("e1", "e9")).unwrap();
        let never = world.rpc("bob", method, params).await;
        assert_eq!(strange["error"]["code"], -32001, "{method}");
        let never = never.to_string().replace("e9", "e1");
        assert_eq!(strange.to_string(), never, "{method}");
    }
    let listed = world.rpc("bob", "ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], 1);
    assert_eq!(listed["result"]["tasks"][0]["id"], "e2");
}

#[tokio::test(start_paused = true)]
async fn history_length_limits_history() {
    let world = World::new().await;
    world.gives("ann", says("one")).await;
    world.answers("m1", "two").await;
    for (length, texts) in [(0, vec![]), (1, vec!["two"]), (9, vec!["one", "two"])] {
        let params = json!({"id": "e1", "historyLength": length});
        let task = world.rpc("ann", "GetTask", params).await["result"].clone();
        let path = format!("/a2a/tasks/e1?historyLength={length}");
        let same = world.rest("ann", "GET", &path, &Value::Null).await.json();
        assert_eq!(task, same);
        assert_eq!(task.get("history").is_none(), texts.is_empty());
        let history = task["history"].as_array().cloned().unwrap_or_default();
        let history: Vec<_> = history
            .iter()
            .map(|said| &said["parts"][0]["text"])
            .collect();
        assert_eq!(history, texts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_once() {
    let world = World::new().await;
    world.gives("ann", says("long work")).await;
    let cancelled = world.rpc("ann", "CancelTask", json!({"id": "e1"})).await;
    assert_eq!(state(&cancelled["result"]), "CANCELED");
    let again = world.rpc("ann", "CancelTask", json!({"id": "e1"})).await;
    assert_eq!(again["error"]["code"], -32002);
    let path = "/a2a/tasks/e1:cancel";
    let again = world.rest("ann", "POST", path, &Value::Null).await;
    assert_eq!(again.status, 400);
    let again = again.json();
    assert_eq!(again["error"]["status"], "FAILED_PRECONDITION");
    assert_eq!(
        again["error"]["details"][0]["reason"],
        "TASK_NOT_CANCELABLE"
    );
}

#[tokio::test(start_paused = true)]
async fn input_required_task_can_be_cancelled() {
    let world = World::new().await;
    world.gives("ann", says("paint it")).await;
    world.answers("m1", "Which colour?\n[input-required]").await;
    let path = "/a2a/tasks/e1:cancel";
    let cancelled = world.rest("ann", "POST", path, &Value::Null).await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(state(&cancelled.json()), "CANCELED");
    let late = json!({"message": says_in("e1", "red")});
    let refused = world.rpc("ann", "SendMessage", late).await;
    assert_eq!(refused["error"]["code"], -32004);
}

#[tokio::test(start_paused = true)]
async fn empty_prompt_starts_no_turn() {
    let world = World::new().await;
    for parts in [
        json!([{"text": ""}]),
        json!([{"text": " \n"}, {"text": ""}]),
    ] {
        let mut message = says("");
        message["parts"] = parts;
        let params = json!({"message": message});
        let answer = world.rpc("ann", "SendMessage", params).await;
        let said = &answer["result"]["message"];
        assert_eq!(said["parts"][0]["text"], "(empty prompt — nothing to do)");
        assert!(said["contextId"].as_str().is_some_and(|id| !id.is_empty()));
    }
    let kept = world.service.ledger().read(|rows| rows.newest_messages(1));
    assert!(kept.await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn plain_reply_returns_a_message() {
    let world = World::new().await;
    let mut news = world.service.hub().watch_all();
    let calling = world.clone();
    let params = json!({"message": says("who are you?")});
    let call = tokio::spawn(async move { calling.rpc("ann", "SendMessage", params).await });
    news.next().await;
    world.answers("m1", "I am Codex.\n[message]").await;
    let said = call.await.unwrap()["result"]["message"].clone();
    assert_eq!(said["parts"], json!([{"text": "I am Codex."}]));
    assert_eq!(
        (&said["contextId"], &said["taskId"]),
        (&json!("made-1"), &json!("e1"))
    );
    assert_eq!(state(&world.task("ann", "e1").await), "COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn only_a_key_makes_two_messages_one() {
    let world = World::new().await;
    let one = world.gives("ann", says("again")).await;
    let two = world.gives("ann", says("again")).await;
    assert_ne!(one["id"], two["id"], "the same messageId is no key");
    let params = json!({
        "message": says("once"), "configuration": {"returnImmediately": true},
    });
    let mut ids = Vec::new();
    for _ in 0..2 {
        let request = super::by("ann", "POST", "/a2a/message:send");
        let request = request.header("Idempotency-Key", "k1");
        let sent = world.call(request, params.to_string()).await.json();
        ids.push(sent["task"]["id"].clone());
    }
    let mut keyed = params.clone();
    keyed["message"]["metadata"] = json!({
        "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#idempotency": "k1",
    });
    let sent = world.rpc("ann", "SendMessage", keyed).await;
    ids.push(sent["result"]["task"]["id"].clone());
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn idempotent_repeat_works_after_task_end() {
    let world = World::new().await;
    world.gives("ann", says("paint it")).await;
    world.answers("m1", "Which colour?\n[input-required]").await;
    let params = json!({
        "message": says_in("e1", "red"), "configuration": {"returnImmediately": true},
    });
    let send = async || {
        let request = super::by("ann", "POST", "/a2a/message:send");
        let request = request.header("Idempotency-Key", "k2");
        world.call(request, params.to_string()).await.json()
    };
    assert_eq!(state(&send().await["task"]), "WORKING");
    world.answers("m2", "done").await;
    assert_eq!(state(&send().await["task"]), "COMPLETED");
    let task = world.task("ann", "e1").await;
    assert_eq!(task["history"].as_array().unwrap().len(), 4, "{task}");
}

#[tokio::test(start_paused = true)]
async fn plain_reply_with_files_returns_task() {
    let world = World::new().await;
    let mut news = world.service.hub().watch_all();
    let calling = world.clone();
    let params = json!({"message": says("draw it")});
    let call = tokio::spawn(async move { calling.rpc("ann", "SendMessage", params).await });
    news.next().await;
    let files = vec![file("a.txt", "tck", 3)];
    world.answers_with("m1", "Here.\n[message]", files).await;
    let task = call.await.unwrap()["result"]["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"][1]["filename"], "a.txt");
}

#[tokio::test(start_paused = true)]
async fn threat_32_revoked_token_gets_no_answer() {
    let world = World::new().await;
    let mut news = world.service.hub().watch_all();
    let calling = world.clone();
    let call = tokio::spawn(async move {
        let params = json!({"message": says("hello")});
        let sent = calling.rest("ann", "POST", "/a2a/message:send", &params);
        sent.await
    });
    assert_eq!(news.next().await.unwrap().as_str(), "m1");
    // Codex works on it: what has not begun is cancelled with its token.
    let (now, turn_id) = (world.service.now(), TurnId::new("turn"));
    let works = becomes("m1", MessageState::Running { turn_id }, now);
    world.service.does(Put(vec![works])).await.unwrap();
    let revoke = Request::delete("/v1/tokens/ann")
        .body(Body::empty())
        .unwrap();
    let revoked = tower::ServiceExt::oneshot(world.local.clone(), revoke).await;
    assert_eq!(revoked.unwrap().status(), 200);
    let again = Change::UpdateState {
        message_id: MessageId::new("m1"),
        from: StateName::Running,
        life: Life::new(now),
    };
    world.service.does(Put(vec![again])).await.unwrap();
    world.answers("m1", "not for you").await;
    let refused = call.await.unwrap();
    assert_eq!(refused.status, 401, "{}", refused.text);
    assert!(!refused.text.contains("not for you"));
}

#[tokio::test(start_paused = true)]
async fn steered_task_cannot_be_cancelled_alone() {
    let world = World::new().await;
    for text in ["work", "and this"] {
        let mut message = says(text);
        message["contextId"] = "talk".into();
        world.gives("ann", message).await;
    }
    let (now, turn_id) = (world.service.now(), TurnId::new("turn"));
    let leader = MessageId::new("m1");
    let rows = vec![
        becomes("m1", MessageState::Running { turn_id }, now),
        becomes("m2", MessageState::Steered { leader }, now),
    ];
    world.service.does(Put(rows)).await.unwrap();
    let refused = world.rpc("ann", "CancelTask", json!({"id": "e2"})).await;
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("another task"), "{why}");
    let wanted = MessageId::new("m1");
    let leader = world
        .service
        .ledger()
        .read(move |rows| rows.message(&wanted))
        .await;
    assert_eq!(
        leader.unwrap().unwrap().life.stop,
        None,
        "nobody stopped it"
    );
}

#[tokio::test(start_paused = true)]
async fn cancel_stops_newest_message_first() {
    let world = World::new().await;
    world.gives("ann", says("one")).await;
    world.gives("ann", says_in("e1", "two")).await;
    let mut news = world.service.hub().watch_all();
    let cancelled = world.rpc("ann", "CancelTask", json!({"id": "e1"})).await;
    assert_eq!(state(&cancelled["result"]), "CANCELED");
    assert_eq!(news.next().await.unwrap().as_str(), "m2");
    assert_eq!(news.next().await.unwrap().as_str(), "m1");
}
