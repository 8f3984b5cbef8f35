//! An agent that knows only the ancestor's tool description: its schema, its actions, its refusals, its words.

use crate::rig::{Client, Mcp};
use crate::world::World;
use serde_json::{Value, json};

/// Names, types, enums and required parameters of the ancestor's schema.
const ANCESTOR: &str = include_str!("fixtures/ancestor.json");

const TOOL: &str = "codex_bridge";

const QUESTION: &str = r#"tool:request_user_input:{"questions":[{"id":"color","header":"C","question":"Which color?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} ;; echo:done"#;

/// What it calls must be what we take, and what we show must be what it knows.
async fn compare_schemas(client: &Client) {
    let ancestor: Value = serde_json::from_str(ANCESTOR).unwrap();
    let tools = client.0.list_all_tools().await.unwrap();
    let ours = tools.iter().find(|tool| tool.name == TOOL).unwrap();
    let ours = Value::Object((*ours.input_schema).clone());
    let known = ancestor["parameters"].clone();
    assert_eq!(ours["required"], known["required"]);
    assert_eq!(ours["type"], known["type"]);
    for (name, known) in known["properties"].as_object().unwrap() {
        let ours = &ours["properties"][name];
        for key in ["type", "enum"] {
            assert_eq!(ours.get(key), known.get(key), "{name}");
        }
        assert!(ours["description"].is_string(), "{name}");
    }
    let count = |schema: &Value| schema["properties"].as_object().unwrap().len();
    assert_eq!(count(&ours), count(&known));
}

/// Starts a task in the old way, and gives its id.
async fn start(client: &Client, more: Value) -> String {
    let mut arguments = json!({"action": "start"});
    arguments
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let said = client.done(TOOL, arguments).await;
    let task = &said["task"];
    assert_eq!(task["hermes_task_id"], task["task_id"]);
    assert_eq!(task["degraded_mode"], "none");
    assert_eq!(said["protocol"]["mailbox"], false);
    let id = task["hermes_task_id"].as_str().unwrap();
    assert!(id.starts_with("codex-"), "{id}");
    id.to_owned()
}

async fn status(client: &Client, id: &str) -> Value {
    let said = client
        .done(TOOL, json!({"action": "status", "task_id": id}))
        .await;
    said["task"].clone()
}

/// Waits until a task ends or asks. The old agent would ask for the status again and again.
async fn settled(client: &Client, id: &str) -> Value {
    client.done("codex_wait", json!({"task_id": id})).await;
    status(client, id).await
}

async fn check_refusals(client: &Client) {
    let none =
        "action must be one of start, status, list, notify_completed, steer, interrupt, respond.";
    let respond = "codex_bridge respond requires task_id and instruction=request_id.";
    let steer = "codex_bridge steer requires task_id and instruction.";
    let unknown = "Unknown Codex bridge task: codex-0123456789ab";
    let id = "codex-0123456789ab";
    let cases = [
        (json!({"action": "explode"}), none),
        (json!({"action": ""}), none),
        (
            json!({"action": "start"}),
            "codex_bridge start requires a non-empty prompt.",
        ),
        (
            json!({"action": "start", "prompt": "  "}),
            "codex_bridge start requires a non-empty prompt.",
        ),
        (
            json!({"action": "start", "prompt": "x", "sandbox": "danger-full-access"}),
            "codex_bridge refuses danger-full-access as a default bridge sandbox.",
        ),
        (
            json!({"action": "start", "prompt": "x", "approval_policy": "never"}),
            "codex_bridge refuses approval_policy=never.",
        ),
        (
            json!({"action": "status"}),
            "codex_bridge status requires task_id.",
        ),
        (json!({"action": "status", "task_id": id}), unknown),
        (json!({"action": "steer", "task_id": id}), steer),
        (
            json!({"action": "steer", "task_id": id, "instruction": "x"}),
            unknown,
        ),
        (
            json!({"action": "interrupt"}),
            "codex_bridge interrupt requires task_id.",
        ),
        (json!({"action": "cancel", "task_id": id}), unknown),
        (json!({"action": "respond", "task_id": id}), respond),
        (
            json!({"action": "respond", "task_id": id, "instruction": "r"}),
            unknown,
        ),
    ];
    for (arguments, words) in cases {
        assert_eq!(
            client.refused(TOOL, arguments.clone()).await,
            words,
            "{arguments}"
        );
    }
    for id in ["a/b", "../tokens", "codex-1?x", "codex 1", "%2e"] {
        let why = client.refused("codex_status", json!({"task_id": id})).await;
        assert_eq!(why, format!("Unknown Codex bridge task: {id}"));
    }
}

#[tokio::test]
async fn legacy_agent_can_use_codex_bridge() {
    let world = World::new().await;
    let mcp = Mcp::start(&world).await;
    let client = &mcp.client;
    compare_schemas(client).await;
    check_refusals(client).await;

    let id = start(
        client,
        json!({"prompt": "echo:finished", "notify_target": "local"}),
    )
    .await;
    let task = settled(client, &id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    assert_eq!(task["final_summary"], "finished");
    assert!(
        task["recent_events"].is_array() && task["completed_at"].is_f64(),
        "{task:#}"
    );
    let listed = client
        .done(TOOL, json!({"action": "list", "limit": 5}))
        .await;
    assert_eq!(listed["tasks"][0]["hermes_task_id"], id.as_str());

    let no_turn = client
        .refused(TOOL, json!({"action": "interrupt", "task_id": id}))
        .await;
    assert!(
        no_turn.starts_with("Task has no active Codex turn to interrupt."),
        "{no_turn}"
    );
    let no_request =
        json!({"action": "respond", "task_id": id, "instruction": "7", "decision": "accept"});
    let no_request = client.refused(TOOL, no_request).await;
    assert_eq!(
        no_request,
        format!("No pending Codex request '7' for task {id}.")
    );

    let dry = client
        .done(TOOL, json!({"action": "notify_completed", "dry_run": true}))
        .await;
    assert_eq!(dry["dry_run"], true);
    client
        .done(TOOL, json!({"action": "notify_completed", "limit": 3}))
        .await;
    assert_eq!(mcp.close().await, Some(0));
}

#[tokio::test]
async fn legacy_parameters_respond_steer_and_cancel() {
    let world = World::new().await;
    let mcp = Mcp::start(&world).await;
    let client = &mcp.client;
    let place = world.path().join("place");
    std::fs::create_dir(&place).unwrap();

    let terms = json!({"prompt": "escal:touch one ;; echo:ran", "cwd": place, "sandbox": "workspace-write", "approval_policy": "on-request"});
    for (decision, ran) in [("accept", true), ("decline", false)] {
        let _none_yet = std::fs::remove_file(place.join("one"));
        let id = start(client, terms.clone()).await;
        let task = settled(client, &id).await;
        assert_eq!(task["status"], "waiting_for_approval", "{task:#}");
        let pending = &task["pending_requests"][0];
        assert_eq!(pending["method"], "item/commandExecution/requestApproval");
        assert!(!place.join("one").exists());
        let respond = json!({"action": "respond", "task_id": id, "instruction": pending["request_id"], "decision": decision});
        client.done(TOOL, respond.clone()).await;
        let task = settled(client, &id).await;
        assert_eq!(task["status"], "completed", "{task:#}");
        assert_eq!(place.join("one").exists(), ran, "{decision}");
        client.refused(TOOL, respond).await;
    }

    let id = start(client, json!({"prompt": "hold:door echo:never"})).await;
    world.model.wait_held("door").await.unwrap();
    let steered = client
        .done(
            TOOL,
            json!({"action": "steer", "task_id": id, "instruction": "hold:window echo:never"}),
        )
        .await;
    assert!(
        ["steered", "queued"].contains(&steered["steer"].as_str().unwrap()),
        "{steered:#}"
    );
    let stopped = client
        .done(TOOL, json!({"action": "cancel", "task_id": id}))
        .await;
    assert_eq!(stopped["task"]["status"], "cancelled", "{stopped:#}");
    assert_eq!(mcp.close().await, Some(0));
}

/// The ancestor's agents answered questions without naming a decision; an answer to nothing is no yes.
#[tokio::test]
async fn legacy_answer_needs_no_decision() {
    let world = World::new().await;
    let asking = "[features]\ndefault_mode_request_user_input = true\n";
    world.configure_codex(&format!("{}\n{asking}", world.model.codex_config()));
    let mcp = Mcp::start(&world).await;
    let client = &mcp.client;
    for (answers, heard) in [
        (json!({"color": {"answers": ["Red"]}}), true),
        (json!({}), false),
    ] {
        let id = start(client, json!({"prompt": QUESTION})).await;
        let task = settled(client, &id).await;
        assert_eq!(task["status"], "waiting_for_user_input", "{task:#}");
        let pending = &task["pending_requests"][0];
        let respond = json!({"action": "respond", "task_id": id, "instruction": pending["request_id"], "answers": answers});
        client.done(TOOL, respond).await;
        let task = settled(client, &id).await;
        assert_eq!(task["status"], "completed", "{task:#}");
        let calls = world.model.requests();
        let told = calls.iter().rev().find_map(|call| call.outputs.last());
        let told = told.cloned().unwrap_or_default();
        assert_eq!(told.contains("Red"), heard, "{told}");
    }
    assert_eq!(mcp.close().await, Some(0));
}
