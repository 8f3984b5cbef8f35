//! What was written before the daemon's first start is answered once, though the platform stores it twice.

use crate::chat::Chat;

/// The feed is read every second, so that what a look does is seen soon.
const QUICK: &str = "molecule.poll_secs = 1\n";

#[tokio::test]
async fn d2_messages_before_first_start_answered_once() {
    let chat = Chat::with_settings(QUICK).await;
    chat.platform.push_until_registered(&chat.us);
    chat.says("echo:from the canvas");
    chat.peer_says("echo:from a peer");
    assert_eq!(chat.platform.rows(&chat.us).len(), 4, "two rows each");
    let daemon = chat.daemon().await;
    assert_eq!(chat.bubbles(1).await, ["from the canvas"]);
    assert_eq!(chat.peer_got(1).await, ["from a peer"]);
    chat.looks(3).await;
    daemon.kill_9().await;

    let daemon = chat.daemon().await;
    chat.looks(3).await;
    chat.says("echo:afterwards");
    assert_eq!(chat.bubbles(2).await, ["from the canvas", "afterwards"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts().len(), 2);
    assert_eq!(chat.platform.inbox_of(&chat.peer).len(), 1);
    assert_eq!(chat.world.model.requests().len(), 3);
}
