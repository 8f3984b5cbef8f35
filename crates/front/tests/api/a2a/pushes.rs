//! Push notification configurations: kept, shown and forgotten for the owner of the task.

use super::files::file;
use super::{World, by, says, says_in};
use bridge_core::port::Ledger;
use bridge_core::step::EventDelivery;
use bridge_core::task_events::{Timeline, What};
use bridge_core::value::TaskId;
use bridge_front::BridgeService;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn push_configs_work_on_both_bindings() {
    let world = World::new().await;
    world.gives("ann", says("work")).await;
    let auth = json!({"scheme": "Bearer", "credentials": "theirs"});
    let config = json!({
        "taskId": "e1", "id": "c1", "url": "https://hooks.test/a", "authentication": auth,
    });
    let method = "CreateTaskPushNotificationConfig";
    let made = world.rpc("ann", method, config.clone()).await;
    assert_eq!(made["result"], config);
    let all = "/a2a/tasks/e1/pushNotificationConfigs";
    let unnamed = json!({"url": "https://hooks.test/b"});
    let made = world.rest("ann", "POST", all, &unnamed).await.json();
    assert_eq!(made["taskId"], "e1");
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(!id.is_empty());
    let listed = world.rest("ann", "GET", all, &Value::Null).await.json();
    assert_eq!(listed["configs"].as_array().unwrap().len(), 2);
    let one = format!("{all}/{id}");
    let shown = world.rest("ann", "GET", &one, &Value::Null).await;
    assert_eq!(shown.json(), made);
    for _ in 0..2 {
        let gone = world.rest("ann", "DELETE", &one, &Value::Null).await;
        assert_eq!((gone.status.as_u16(), gone.json()), (200, json!({})));
    }
    let shown = world.rest("ann", "GET", &one, &Value::Null).await;
    assert_eq!(shown.status, 404);
    let named = json!({"taskId": "e1", "id": "c1"});
    let method = "GetTaskPushNotificationConfig";
    let shown = world.rpc("ann", method, named.clone()).await;
    assert_eq!(shown["result"], config);
    let method = "DeleteTaskPushNotificationConfig";
    let gone = world.rpc("ann", method, named).await;
    assert_eq!(gone["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn message_may_carry_valid_push_config() {
    let world = World::new().await;
    let with = |url: &str| {
        json!({"message": says("work"), "configuration": {
            "returnImmediately": true,
            "taskPushNotificationConfig": {"id": "c", "url": url},
        }})
    };
    let sent = world
        .rpc("ann", "SendMessage", with("https://hooks.test/"))
        .await;
    assert_eq!(sent["result"]["task"]["id"], "e1");
    let listed = world
        .rpc(
            "ann",
            "ListTaskPushNotificationConfigs",
            json!({"taskId": "e1"}),
        )
        .await;
    assert_eq!(listed["result"]["configs"][0]["id"], "c");
    let refused = world
        .rpc("ann", "SendMessage", with("http://10.0.0.1/"))
        .await;
    assert_eq!(refused["error"]["code"], -32602);
    let wrong = &refused["error"]["data"][1]["fieldViolations"][0];
    assert_eq!(
        wrong["field"],
        "configuration.taskPushNotificationConfig.url"
    );
    let path = "/a2a/tasks/e1/pushNotificationConfigs";
    let other = json!({"taskId": "e2", "url": "https://hooks.test/"});
    let refused = world.rest("ann", "POST", path, &other).await;
    assert_eq!(refused.status, 400, "the path and the body differ");
}

async fn kept(world: &World) -> usize {
    let path = "/a2a/tasks/e1/pushNotificationConfigs";
    let listed = world.rest("ann", "GET", path, &Value::Null).await.json();
    listed["configs"].as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn message_push_config_is_stored_once() {
    let world = World::new().await;
    let send = async |message: Value, key: &str| {
        let body = json!({"message": message, "configuration": {
            "returnImmediately": true,
            "taskPushNotificationConfig": {"url": "https://hooks.test/"},
        }});
        let request = by("ann", "POST", "/a2a/message:send").header("Idempotency-Key", key);
        world.call(request, body.to_string()).await.status
    };
    for _ in 0..2 {
        assert_eq!(send(says("work"), "k1").await, 200);
    }
    assert_eq!(kept(&world).await, 1, "a repeat is no second one");
    for _ in 0..2 {
        assert_eq!(send(says_in("e1", "more"), "k2").await, 200);
    }
    assert_eq!(kept(&world).await, 2);
    world.answers("m1", "done").await;
    let wanted = says_in("e1", "too late");
    // What was said second is still open.
    let last = world.task("ann", "e1").await;
    assert_eq!(super::state(&last), "WORKING");
    world.rpc("ann", "CancelTask", json!({"id": "e1"})).await;
    assert_eq!(send(wanted, "k3").await, 400);
    assert_eq!(kept(&world).await, 2, "its message was refused");
}

#[tokio::test(start_paused = true)]
async fn files_that_have_no_address_are_named() {
    let world = World::new().await;
    world.gives("ann", says("draw")).await;
    let config = json!({"taskId": "e1", "id": "c", "url": "https://hooks.test/"});
    world
        .rpc("ann", "CreateTaskPushNotificationConfig", config)
        .await;
    world
        .answers_with("m1", "here", vec![file("a.txt", "tck", 3)])
        .await;
    let read = world.service.ledger().read(|rows| {
        let id = TaskId::new("e1");
        Ok((rows.subscription(&id, "c")?, Timeline::load(rows, &id)?))
    });
    let (push, timeline) = read.await.unwrap();
    let timeline = timeline.unwrap();
    let mut task_events = timeline.task_events().into_iter();
    let task_event = task_events.find(|task_event| matches!(task_event.what, What::Answered(_)));
    let delivery = EventDelivery {
        subscription: push.unwrap(),
        again: false,
        task_event: task_event.unwrap(),
        timeline,
    };
    let payload = bridge_front::a2a::push_payload(None, &delivery);
    let part = &payload["artifactUpdate"]["artifact"]["parts"][1]["data"];
    assert_eq!(part["files"][0]["filename"], "a.txt", "{payload}");
}

#[tokio::test(start_paused = true)]
async fn legacy_push_error_names_task() {
    let world = World::new().await;
    world.gives("ann", says("work")).await;
    let method = "tasks/pushNotificationConfig/get";
    let refused = world.rpc("ann", method, json!({"id": "e1"})).await;
    let info = &refused["error"]["data"][0];
    assert_eq!(info["metadata"]["taskId"], "e1", "{refused}");
}
