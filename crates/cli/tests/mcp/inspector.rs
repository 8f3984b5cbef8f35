//! The MCP Inspector on its command line, over both transports.

use crate::http::Served;
use crate::kit::Kit;
use crate::world::{Ended, World};
use bridge_sim::codex_for_tests;
use serde_json::{Value, json};

const TOOLS: [&str; 9] = [
    "codex_bridge",
    "codex_start",
    "codex_status",
    "codex_wait",
    "codex_list",
    "codex_requests",
    "codex_respond",
    "codex_steer",
    "codex_interrupt",
];

fn said(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// The ancestor's tool, asked for its tasks.
const LIST: [&str; 6] = [
    "--method",
    "tools/call",
    "--tool-name",
    "codex_bridge",
    "--tool-arg",
    "action=list",
];

fn assert_no_tasks(called: &Value) {
    let called = &called["structuredContent"];
    assert_eq!(called["success"], true, "{called}");
    assert_eq!(called["tasks"], json!([]), "{called}");
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_stdio() {
    let (world, kit) = (World::new().await, Kit::find());
    let codex = format!(
        "CODEX_BRIDGE_CODEX_BIN={}",
        codex_for_tests().unwrap().display()
    );
    let home = format!("CODEX_HOME={}", world.codex_home().display());
    let state = format!("CODEX_BRIDGE_STATE_DIR={}", world.state_dir().display());
    let server = [
        "-e",
        &codex,
        "-e",
        &home,
        "-e",
        &state,
        env!("CARGO_BIN_EXE_codex-bridge"),
        "mcp",
    ];
    let asked = |more: &[&'static str]| {
        let mut args = server.to_vec();
        args.extend(more);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let inspect = async |more: &[&'static str]| {
        let args = asked(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        kit.inspector(world.path(), &args).await
    };
    let listed = said(&inspect(&["--strict", "--method", "tools/list"]).await);
    assert_eq!(names(&listed), TOOLS);
    assert_no_tasks(&said(&inspect(&LIST).await));
    let templates = said(&inspect(&["--method", "resources/templates/list"]).await);
    assert_eq!(
        templates["resourceTemplates"][0]["uriTemplate"],
        "codex-bridge://tasks/{task_id}"
    );
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_http() {
    let (world, kit) = (World::new().await, Kit::find());
    let served = Served::by(&world).await;
    let header = format!("Authorization: Bearer {}", world.owner_token().await);
    let inspect = async |more: &[&str]| {
        let mut args = vec![
            served.url.as_str(),
            "--transport",
            "http",
            "--header",
            header.as_str(),
        ];
        args.extend(more);
        kit.inspector(world.path(), &args).await
    };
    let listed = said(&inspect(&["--method", "tools/list"]).await);
    assert_eq!(names(&listed), TOOLS);
    assert_no_tasks(&said(&inspect(&LIST).await));
    let read = said(
        &inspect(&[
            "--method",
            "resources/read",
            "--uri",
            "codex-bridge://tasks",
        ])
        .await,
    );
    assert_eq!(read["contents"][0]["mimeType"], "application/json");
    served.daemon.stop().await;
}
