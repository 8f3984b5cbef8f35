//! A turn that is lost from sight while it asks another agent. The other agent is on loopback, so time is real here.

use super::HOUR;
use super::stage::Stage;
use crate::config::Config;
use bridge_core::port::{ApprovalRequest, RequestKey};
use bridge_core::prompt::ASK_AGENT;
use bridge_core::rules::Effect;
use bridge_core::value::{IncarnationId, ItemId, RequestKind, Wants};
use bridge_sim::PeerAgent;
use serde_json::json;

fn asks_agent(text: &str) -> ApprovalRequest {
    let arguments = json!({"agent": "planner", "text": text});
    let payload = json!({"threadId": "t", "turnId": "u", "callId": "call", "tool": ASK_AGENT,
        "arguments": arguments});
    ApprovalRequest {
        key: RequestKey {
            incarnation: IncarnationId::new("i"),
            rpc_id: "0".to_owned(),
            item_id: Some(ItemId::new("call")),
        },
        method: "item/tool/call".to_owned(),
        kind: RequestKind::ToolCall,
        headline: "using ask_agent".to_owned(),
        shown: String::new(),
        effect: Effect::default(),
        payload: payload.to_string(),
        wants: Wants::Approval,
        secret_answer: false,
        tool_arguments: Some(arguments.to_string()),
    }
}

#[tokio::test]
async fn recovered_turn_still_awaits_agent_answer() {
    let peer = PeerAgent::start().await.unwrap();
    let url = peer.url();
    let settings = format!("[[a2a.agents]]\nname = \"planner\"\nurl = \"{url}\"\n");
    let stage = Stage::with(toml::from_str::<Config>(&settings).unwrap());
    stage
        .agent
        .asks_adrift(vec![asks_agent("hold:gate hi")], HOUR);
    stage.start();
    stage.shown("one").await;
    let received = |ground: &bridge_sim::PeerGround| !ground.heard.is_empty();
    peer.wait_for("the question", received).await.unwrap();
    stage
        .until("a look at it", || !stage.agent.is_adrift())
        .await;
    peer.release("gate");
    stage
        .until("the answer", || !stage.agent.words().is_empty())
        .await;
    let words = stage.agent.words();
    let answered = |said: &String| said.contains("you said: hold:gate hi");
    assert!(words.iter().all(answered), "{words:?}");
    let states: Vec<&str> = peer.ground().tasks.iter().map(|task| task.state).collect();
    assert_eq!(states, ["COMPLETED"]);
}
