//! Lists of tasks: by pages, by filters, newest change first.

use super::{World, says, state};
use crate::service::Put;
use bridge_core::port::{Change, Ledger};
use bridge_core::value::{Task, TaskId};
use bridge_front::BridgeService;
use serde_json::{Value, json};

async fn list(world: &World, params: Value) -> Value {
    let answer = world.rpc("ann", "ListTasks", params).await;
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

fn ids(listed: &Value) -> Vec<&str> {
    let tasks = listed["tasks"].as_array().unwrap().iter();
    tasks.map(|task| task["id"].as_str().unwrap()).collect()
}

async fn five() -> World {
    let world = World::new().await;
    for n in 1..=5 {
        let mut message = says("work");
        message["contextId"] = format!("talk-{}", n % 2).into();
        world.gives("ann", message).await;
        world.service.pass_ms(1_000);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn pages_have_no_gaps() {
    let world = five().await;
    let first = list(&world, json!({"pageSize": 2})).await;
    assert_eq!(ids(&first), ["e5", "e4"]);
    assert_eq!(
        (&first["pageSize"], &first["totalSize"]),
        (&json!(2), &json!(5))
    );
    // What changes meanwhile goes to the front, and moves nothing behind the cursor.
    world.answers("m1", "done").await;
    let token = first["nextPageToken"].as_str().unwrap();
    let second = list(&world, json!({"pageSize": 2, "pageToken": token})).await;
    assert_eq!(ids(&second), ["e3", "e2"]);
    let front = list(&world, json!({"pageSize": 1})).await;
    assert_eq!(ids(&front), ["e1"]);
    let all = list(&world, json!({})).await;
    assert_eq!(ids(&all), ["e1", "e5", "e4", "e3", "e2"]);
    assert_eq!(
        (&all["nextPageToken"], &all["pageSize"]),
        (&json!(""), &json!(50))
    );
    let exact = list(&world, json!({"pageSize": 5})).await;
    assert_eq!(exact["nextPageToken"], "");
}

#[tokio::test(start_paused = true)]
async fn filters_are_by_context_time_and_status() {
    let world = five().await;
    let talk = list(&world, json!({"contextId": "talk-1"})).await;
    assert_eq!(
        (ids(&talk), &talk["totalSize"]),
        (vec!["e5", "e3", "e1"], &json!(3))
    );
    let nobody = list(&world, json!({"contextId": "no such talk"})).await;
    assert_eq!(
        (&nobody["totalSize"], &nobody["nextPageToken"]),
        (&json!(0), &json!(""))
    );
    world.answers("m2", "done").await;
    world.answers("m4", "done").await;
    let path = "/a2a/tasks?status=TASK_STATE_COMPLETED&pageSize=1";
    let done = world.rest("ann", "GET", path, &Value::Null).await.json();
    assert_eq!((ids(&done), &done["totalSize"]), (vec!["e4"], &json!(2)));
    let token = done["nextPageToken"].as_str().unwrap();
    let path = format!("{path}&pageToken={token}");
    let rest = world.rest("ann", "GET", &path, &Value::Null).await.json();
    assert_eq!((ids(&rest), &rest["totalSize"]), (vec!["e2"], &json!(2)));
    assert_eq!(rest["nextPageToken"], "");
    let newest = list(&world, json!({"pageSize": 1})).await;
    let at = newest["tasks"][0]["status"]["timestamp"].clone();
    let since = list(&world, json!({"statusTimestampAfter": at})).await;
    assert_eq!(ids(&since), ["e4"]);
}

#[tokio::test(start_paused = true)]
async fn lists_omit_artifacts_unless_requested() {
    let world = five().await;
    world.answers("m5", "done").await;
    let plain = list(&world, json!({})).await;
    for task in plain["tasks"].as_array().unwrap() {
        assert!(task.get("artifacts").is_none());
    }
    let whole = list(
        &world,
        json!({"includeArtifacts": true, "historyLength": 0}),
    )
    .await;
    let first = &whole["tasks"][0];
    assert_eq!(state(first), "COMPLETED");
    assert_eq!(first["artifacts"][0]["parts"][0]["text"], "done");
    assert!(first.get("history").is_none());
    assert_eq!(whole["tasks"][1]["artifacts"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn sparse_filter_returns_continuation_token() {
    let world = World::new().await;
    world.gives("ann", says("work")).await;
    world.answers("m1", "done").await;
    let known = world
        .service
        .ledger()
        .read(|rows| rows.task(&TaskId::new("e1")))
        .await;
    let known = known.unwrap().unwrap();
    world.service.pass_ms(1_000);
    let newer = (0..1_050).map(|n| {
        Change::NewTask(Task {
            task_id: TaskId::new(format!("n{n}")),
            created_at: world.service.now(),
            ..known.clone()
        })
    });
    world.service.does(Put(newer.collect())).await.unwrap();
    let wanted = json!({"status": "TASK_STATE_COMPLETED", "pageSize": 10});
    let first = list(&world, wanted.clone()).await;
    assert!(ids(&first).is_empty());
    let mut next = wanted;
    next["pageToken"] = first["nextPageToken"].clone();
    assert_ne!(next["pageToken"], "", "there is more to look at");
    let second = list(&world, next).await;
    assert_eq!(
        (ids(&second), &second["totalSize"]),
        (vec!["e1"], &json!(1))
    );
    assert_eq!(second["nextPageToken"], "");
}
