//! A node is drained, or gives a conversation away: what runs ends there, what follows runs elsewhere.

use super::Fleet;
use crate::world::within;

#[tokio::test]
async fn drained_node_hands_its_conversations_over() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_a = a.daemon().await;
    let (send, _) = a.sends("hold:gate echo:the answer").await;
    fleet.world.model.wait_held("gate").await.unwrap();
    let on_b = b.daemon().await;
    let drained = b.run(&["node", "drain", "a"]).await;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(b.ask("other", "echo:beside").await, "beside");
    fleet.world.model.release("gate");
    assert_eq!(send.ended().await.stdout, "the answer\n");
    assert_eq!(
        within("the drained node's end", on_a.ended()).await,
        Some(0)
    );
    let remembered = b.ask("main", "remember:").await;
    assert!(remembered.contains("the answer"), "{remembered}");
    assert_eq!(on_b.stop().await, Some(0));
}

#[tokio::test]
async fn moved_conversation_and_back_remembers() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_a = a.daemon().await;
    assert_eq!(a.ask("main", "echo:one").await, "one");
    let on_b = b.daemon().await;
    for (to, text) in [("b", "echo:two"), ("a", "echo:three"), ("b", "echo:four")] {
        let moved = a.run(&["move", "main", "--to", to]).await;
        assert_eq!(moved.code, Some(0), "{moved:?}");
        a.ask("main", text).await;
    }
    let remembered = a.ask("main", "remember:").await;
    for text in ["echo:one", "echo:two", "echo:three", "echo:four"] {
        assert!(remembered.contains(text), "{text}: {remembered}");
    }
    assert_eq!(on_a.stop().await, Some(0));
    assert_eq!(on_b.stop().await, Some(0));
}
