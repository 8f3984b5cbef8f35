//! How text that is being written is delivered: the first words at once, then as often as a person can see it.

use super::*;
use crate::thread::operator_config::OperatorConfig;
use bridge_core::port::{Reads, ThreadSpec, TurnTransport};
use bridge_core::value::{ApprovalPolicy, Sandbox};
use serde_json::{Value, json};

/// A turn that may read and nothing else.
pub(crate) fn frame() -> TurnContext {
    let spec = ThreadSpec {
        workdir: "/w".to_owned(),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::OnRequest,
        model: None,
        instructions: String::new(),
        reads: Reads::Disk,
        transport: TurnTransport::AppServer,
        codex_home: None,
        agents: Vec::new(),
    };
    TurnContext {
        incarnation: IncarnationId::new("life"),
        allowed: Permissions::of(&spec, &OperatorConfig::default()),
        directory: "/nowhere".into(),
    }
}

fn mailbox() -> Mailbox {
    let fold = TurnFold::new(ThreadId::new("t"), Some(TurnId::new("u")), None);
    Mailbox::folding(fold, frame())
}

fn tell(mailbox: &Mailbox, method: &str, mut params: Value) {
    params["threadId"] = json!("t");
    params["turnId"] = json!("u");
    mailbox.deliver(&Notification::parse(method, &params), None);
}

fn delta(mailbox: &Mailbox, text: &str) {
    let params = json!({"itemId": "a", "delta": text});
    tell(mailbox, "item/agentMessage/delta", params);
}

async fn text(mailbox: &Mailbox) -> String {
    match mailbox.next().await {
        MailboxEvent::Turn(event) => match *event {
            TurnEvent::Text(said) => said.text,
            other => panic!("{other:?}"),
        },
        other @ MailboxEvent::ExcessPermissions { .. } => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn first_delta_is_immediate_rest_coalesce() {
    let mailbox = mailbox();
    let began = Instant::now();
    delta(&mailbox, "a");
    assert_eq!(text(&mailbox).await, "a");
    assert_eq!(began.elapsed(), Duration::ZERO);
    for _ in 0..1_000 {
        delta(&mailbox, "b");
    }
    assert_eq!(text(&mailbox).await.len(), 1_001);
    assert!(began.elapsed() >= TEXT_EVERY);
    tokio::time::advance(TEXT_EVERY).await;
    let quiet = Instant::now();
    delta(&mailbox, "c");
    assert_eq!(text(&mailbox).await.len(), 1_002);
    assert_eq!(
        quiet.elapsed(),
        Duration::ZERO,
        "after a pause nothing waits"
    );
}

#[tokio::test(start_paused = true)]
async fn completed_text_is_delivered_immediately() {
    let mailbox = mailbox();
    let began = Instant::now();
    delta(&mailbox, "a");
    assert_eq!(text(&mailbox).await, "a");
    delta(&mailbox, "b");
    let item = json!({"item": {"type": "agentMessage", "id": "a", "text": "ab"}});
    tell(&mailbox, "item/completed", item);
    assert_eq!(text(&mailbox).await, "ab");
    let MailboxEvent::Turn(event) = mailbox.next().await else {
        panic!("nothing must be stopped");
    };
    assert!(matches!(*event, TurnEvent::Item(_)), "{event:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(!locked(&mailbox.inner).unread, "it is not delivered again");
}

async fn next_end(mailbox: &Mailbox) -> TurnEvent {
    loop {
        let MailboxEvent::Turn(event) = mailbox.next().await else {
            panic!("nothing must be stopped");
        };
        if !matches!(*event, TurnEvent::Alive) {
            return *event;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn idle_thread_without_end_is_lost() {
    let mailbox = mailbox();
    let status = |kind: &str| {
        tell(
            &mailbox,
            "thread/status/changed",
            json!({"status": {"type": kind}}),
        )
    };
    let began = Instant::now();
    status("idle");
    status("active");
    tokio::time::advance(END_PATIENCE).await;
    status("idle");
    assert!(matches!(next_end(&mailbox).await, TurnEvent::Lost { .. }));
    assert_eq!(began.elapsed(), 2 * END_PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn end_follows_idle_thread() {
    let mailbox = mailbox();
    let idle = json!({"status": {"type": "idle"}});
    tell(&mailbox, "thread/status/changed", idle);
    let item = json!({"type": "agentMessage", "id": "a", "text": "yes"});
    let turn = json!({"turn": {"id": "u", "status": "completed", "items": [item]}});
    tell(&mailbox, "turn/completed", turn);
    assert!(matches!(next_end(&mailbox).await, TurnEvent::Ended(_)));
}

#[tokio::test(start_paused = true)]
async fn refused_interrupt_ends_only_its_turn() {
    let mailbox = mailbox();
    mailbox.expect_end(&TurnId::new("other"));
    mailbox.expect_end(&TurnId::new("u"));
    let began = Instant::now();
    assert!(matches!(next_end(&mailbox).await, TurnEvent::Lost { .. }));
    assert_eq!(began.elapsed(), END_PATIENCE);
}
