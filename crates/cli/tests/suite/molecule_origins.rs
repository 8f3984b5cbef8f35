//! Who writes to a workspace and is none: strangers on other services, webhooks, the platform's probes. None of them is
//! the owner, and none of their words stands in the owner's conversation.

use crate::chat::Chat;
use bridge_sim::molecule::Route;

const CHAT: &str = "4242";
const STRANGER: &str = "777";

async fn sent(chat: &Chat, channel: &str, count: usize) -> Vec<String> {
    let reached = |chat: &Chat| chat.platform.sent_to(&chat.us, channel).len() >= count;
    chat.until("answers in the chat", reached).await;
    chat.platform.sent_to(&chat.us, channel)
}

#[tokio::test]
async fn d1_telegram_stranger_is_a_peer() {
    let chat = Chat::new().await;
    let channel = chat.platform.connect(&chat.us, "telegram", CHAT);
    let daemon = chat.daemon().await;
    let made = chat.world.path().join("made");
    chat.says(&format!("escal:touch {} ;; echo:done", made.display()));
    let code = chat.question().await;

    let writes = |text: &str| {
        let row = chat.platform.telegram_says(&chat.us, CHAT, STRANGER, text);
        row.unwrap();
    };
    writes("shell:touch w2 && echo WROTE ;; echo:tried");
    assert_eq!(sent(&chat, &channel, 1).await, ["tried"]);
    writes(&format!("approve {code}"));
    let told = sent(&chat, &channel, 2).await;
    assert!(told[1].contains("only an owner can give one"), "{told:?}");
    writes("/stop");
    assert!(sent(&chat, &channel, 3).await[2].contains("only an owner"));
    assert!(!made.exists(), "a stranger approved it");

    chat.says(&format!("approve {code}"));
    chat.until("the owner's answer", |chat| {
        chat.texts().iter().any(|text| text == "done")
    })
    .await;
    assert!(made.exists());
    let requests = chat.world.model.requests();
    let outputs: String = requests
        .iter()
        .flat_map(|seen| seen.outputs.clone())
        .collect();
    assert!(
        !outputs.contains("WROTE"),
        "a stranger's turn can write: {outputs}"
    );
    let threads: std::collections::BTreeSet<_> = chat.threads().into_iter().collect();
    assert_eq!(threads.len(), 2, "a stranger shares the owner's thread");
    let texts = chat.texts();
    assert!(
        !texts.iter().any(|text| text.contains("tried")),
        "{texts:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn d1_other_origins_answered_on_canvas() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    let text = "issue_comment by mallory:\necho:thanks";
    chat.platform
        .github_says(&chat.us, "mallory", text)
        .unwrap();
    let told = chat.bubbles(1).await;
    assert_eq!(told, ["Answer to github:mallory@o/r:\n\nthanks"]);
    // More chats than the one that asked would hear it.
    let channel = chat.platform.connect(&chat.us, "telegram", "1,2");
    let row = chat
        .platform
        .telegram_says(&chat.us, "1", STRANGER, "echo:private");
    row.unwrap();
    let told = chat.bubbles(2).await;
    assert_eq!(told[1], "Answer to telegram:777@1:\n\nprivate");
    assert!(chat.platform.sent_to(&chat.us, &channel).is_empty());
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn d1_a_stall_probe_runs_no_turn() {
    let chat = Chat::new().await;
    let mut daemon = chat.daemon().await;
    chat.platform.probe_stall(&chat.us).unwrap();
    daemon.log.wait_for("asked whether we work").await;
    assert_eq!(chat.calls(Route::Report), 1);
    chat.says("echo:after");
    assert_eq!(chat.bubbles(1).await, ["after"]);
    assert_eq!(
        chat.world.model.requests().len(),
        1,
        "a probe became a turn"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// Whoever holds the inbound secret and does not forge the canvas mark is nobody; what they write stays out of the
/// owner's conversation.
#[tokio::test]
async fn d1_inbound_messages_name_nobody() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("echo:mine");
    chat.bubbles(1).await;
    let body = |text: &str| {
        let metadata =
            serde_json::json!({"source": "telegram", "user_id": STRANGER, "chat_id": CHAT});
        let message = serde_json::json!({"role": "user", "messageId": "m1", "messageid": "",
            "parts": [{"kind": "text", "text": text}]});
        serde_json::json!({"method": "message/send", "params": {"message": message, "metadata": metadata}})
    };
    let forged = body("shell:touch w1 && echo WROTE ;; echo:tried");
    chat.platform.inbound_says(&chat.us, forged).unwrap();
    let told = chat.bubbles(2).await;
    assert!(told[1].ends_with("does not name:\n\ntried"), "{told:?}");
    let requests = chat.world.model.requests();
    let outputs: String = requests
        .iter()
        .flat_map(|seen| seen.outputs.clone())
        .collect();
    assert!(!outputs.contains("WROTE"), "{outputs}");
    let threads: std::collections::BTreeSet<_> = chat.threads().into_iter().collect();
    assert_eq!(threads.len(), 2);
    assert_eq!(daemon.stop().await, Some(0));
}
