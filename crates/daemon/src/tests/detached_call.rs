//! A turn that asks another agent, lost from sight meanwhile or on a node that lost it. The other agent is on loopback, so
//! time is real here.

use super::HOUR;
use super::lease::{lasting, over};
use super::stage::Stage;
use crate::config::Config;
use bridge_core::port::{ApprovalRequest, Ledger, RequestKey};
use bridge_core::prompt::ASK_AGENT;
use bridge_core::rules::Effect;
use bridge_core::step::{MoveConversation, MoveOutcome};
use bridge_core::value::{
    ConversationId, IncarnationId, ItemId, MessageId, NodeId, NodeInfo, RequestKind, Timestamp,
    Wants,
};
use bridge_sim::PeerAgent;
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn knows(peer: &PeerAgent) -> Config {
    let url = peer.url();
    let settings = format!("[[a2a.agents]]\nname = \"planner\"\nurl = \"{url}\"\n");
    toml::from_str(&settings).unwrap()
}

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

/// What it is asked, it does: a node that another one may have followed asks nothing.
#[tokio::test]
async fn agents_are_asked_at_home_alone() {
    let peer = PeerAgent::start().await.unwrap();
    let stage = Stage::with(knows(&peer)).dies_on_node(lasting());
    stage.shown("one").await;
    stage.done("one").await;
    let question = asks_agent("hi");
    let cause = MessageId::new("m-one");
    let ask = || {
        let (to, arguments) = (&question.key, question.tool_arguments.clone().unwrap());
        let never = CancellationToken::new();
        stage.daemon.ask_agent(&cause, to, arguments, never)
    };
    stage.leases(over());
    let refused = ask().await;
    assert!(refused.text.contains("lease"), "{refused:?}");
    stage.leases(lasting());
    let to = NodeId::new("other");
    let rows = stage.ledger.inner();
    let other = rows.join(&to, NodeInfo::default(), i64::MAX).unwrap();
    let moved = MoveConversation {
        conversation_id: ConversationId::new("c-one"),
        to,
        actor: "ada".to_owned(),
    };
    let moved = other.transact(moved, Timestamp(1)).await.unwrap();
    assert_eq!(moved.outcome, MoveOutcome::Moved);
    let refused = ask().await;
    assert!(refused.text.contains("another node"), "{refused:?}");
    assert!(peer.ground().heard.is_empty());
}

#[tokio::test]
async fn recovered_turn_still_awaits_agent_answer() {
    let peer = PeerAgent::start().await.unwrap();
    let stage = Stage::with(knows(&peer));
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
