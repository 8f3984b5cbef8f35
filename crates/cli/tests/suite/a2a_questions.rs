//! What Codex asks in the task of another agent: questions to the user are the agent's to answer, approvals are the
//! owner's alone, whatever the agent says.

use crate::a2a_agent::{Agent, SERVED, answers, said, state, why};
use crate::requests::{Stage, api};
use serde_json::{Value, json};

const QUESTION: &str = r#"tool:request_user_input:{"questions":[{"id":"color","header":"C","question":"Which color?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} ;; echo:done"#;

/// A key in a message, under which a repeat is known again.
const KEY: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#idempotency";

/// The question in a task's status.
fn asked(task: &Value) -> &Value {
    let parts = task["status"]["message"]["parts"].as_array().unwrap();
    let data = parts.iter().find_map(|part| part.get("data"));
    data.unwrap_or_else(|| panic!("nothing is asked: {task:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_answers_input_request_on_task() {
    let stage = Stage::new(SERVED).await;
    let daemon = stage.daemon().await;
    let agent = Agent::new(&stage.world, "ann").await;
    let task = agent.send(said("m1", QUESTION, &json!({}))).await;
    assert_eq!(state(&task), "INPUT_REQUIRED", "{task:#}");
    let question = asked(&task);
    assert_eq!(question["questions"][0]["id"], "color", "{question:#}");
    let request_id = question["requestId"].as_str().unwrap().to_owned();

    let on_task = json!({"taskId": task["id"]});
    let mut wrong = said("m2", "", &on_task);
    wrong["parts"] = json!([{"data": {"answers": {"colour": "Red"}}}]);
    let again = agent.send(wrong).await;
    assert_eq!(state(&again), "INPUT_REQUIRED", "{again:#}");
    assert!(
        why(&again).contains("no question `colour`"),
        "{}",
        why(&again)
    );
    assert_eq!(asked(&again)["requestId"], *request_id, "{again:#}");
    assert_eq!(again["history"].as_array().unwrap().len(), 1, "{again:#}");

    let mut red = said("m3", "Red", &on_task);
    red["metadata"] = json!({ KEY: "k" });
    let done = agent.send(red.clone()).await;
    assert_eq!(state(&done), "COMPLETED", "{done:#}");
    assert_eq!(answers(&done), ["done"], "{done:#}");
    let told = done["history"].as_array().unwrap().iter();
    let ids: Vec<_> = told.map(|one| one["messageId"].as_str().unwrap()).collect();
    assert_eq!(ids[..2], ["m1", "m3"], "{done:#}");
    assert!(ids.len() == 3 && ids[2].ends_with("-answer"), "{done:#}");
    red["messageId"] = json!("m4");
    let again = agent.send(red).await;
    for same in ["id", "artifacts", "history"] {
        assert_eq!(again[same], done[same], "it was said before: {again:#}");
    }
    let (_, decided) = api(
        &stage.world,
        "GET",
        &format!("/v1/requests/{request_id}"),
        &Value::Null,
    )
    .await;
    assert_eq!(decided["by"], "ann", "{decided:#}");
    assert_eq!(decided["via"], "a2a", "{decided:#}");
    let outputs = stage.world.model.requests();
    let outputs: Vec<_> = outputs.iter().flat_map(|seen| &seen.outputs).collect();
    assert!(
        outputs.iter().any(|output| output.contains("Red")),
        "{outputs:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_cannot_approve_its_own_request() {
    let stage = Stage::new(SERVED).await;
    let daemon = stage.daemon().await;
    let agent = Agent::new(&stage.world, "ann").await;
    let text = "escal:touch /tmp/never ;; echo:done";
    let task = agent.send(said("m1", text, &json!({}))).await;
    assert_eq!(state(&task), "AUTH_REQUIRED", "{task:#}");
    assert!(why(&task).starts_with("For peer "), "{task:#}");
    let open = stage.waiting().await;
    let request_id = open["request_id"].as_str().unwrap().to_owned();
    assert!(!task.to_string().contains(&request_id), "{task:#}");

    let on_task = json!({"taskId": task["id"]});
    let text = format!("approve {}", &request_id[..6]);
    let after = agent.post(said("m2", &text, &on_task)).await;
    assert_eq!(state(&after), "AUTH_REQUIRED", "{after:#}");
    let mut message = said("m3", "", &on_task);
    message["parts"] = json!([{"data": {"requestId": request_id, "decision": "accept"}}]);
    let told = agent
        .rpc("SendMessage", &json!({ "message": message }))
        .await;
    assert_eq!(told["error"]["code"], -32004, "{told:#}");
    let path = format!("/v1/requests/{request_id}/decision");
    let call = agent
        .call("POST", &path)
        .json(&json!({"decision": "accept"}));
    assert_eq!(agent.answer(call).await.0, 403);
    let still = stage.waiting().await;
    assert_eq!(still["request_id"], *request_id, "{still:#}");
    assert_eq!(still["state"], "open", "{still:#}");

    stage.rules("decline", Value::Null).await;
    let over = agent.over(&task["id"]).await;
    assert_eq!(state(&over), "COMPLETED", "{over:#}");
    assert_eq!(answers(&over)[0], "done", "{over:#}");
    assert_eq!(daemon.stop().await, Some(0));
}
