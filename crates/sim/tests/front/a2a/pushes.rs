//! Push notification configurations: kept, shown and forgotten for the owner of the task.

use super::{World, says};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn configurations_are_kept_shown_and_forgotten_on_both_bindings() {
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
async fn one_may_come_with_the_message_and_what_may_not_be_is_said() {
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
