//! What a person says to a turn over another node reaches the turn, and who says it learns that.

use super::{Fleet, Node};

/// Steers over a node, which says that the turn has it.
async fn steers_over(node: &Node<'_>, subject: &str, words: &str) {
    let steered = node.run(&["steer", subject, words]).await;
    assert_eq!(steered.code, Some(0), "{steered:?}");
    assert!(steered.stdout.contains("steered"), "{steered:?}");
}

#[tokio::test]
async fn message_is_steered_over_another_node() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_b = b.daemon().await;
    let (send, message_id) = b.sends("hold:gate echo:first").await;
    fleet.world.model.wait_held("gate").await.unwrap();
    let on_a = a.daemon().await;
    // Longer than what one notification carries.
    let words = format!("echo:and more ;; {}", "x".repeat(5_000));
    steers_over(&a, &message_id, &words).await;
    fleet.world.model.release("gate");
    assert_eq!(send.ended().await.stdout, "and more\n");
    assert_eq!(fleet.world.times_asked("and more"), 1);
    assert_eq!(on_a.stop().await, Some(0));
    assert_eq!(on_b.stop().await, Some(0));
}

#[tokio::test]
async fn task_is_steered_over_another_node() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_b = b.daemon().await;
    let started = b.run(&["start", "hold:gate echo:first"]).await;
    let id = started.stdout.trim().to_owned();
    fleet.world.model.wait_held("gate").await.unwrap();
    let on_a = a.daemon().await;
    steers_over(&a, &id, "echo:and more").await;
    fleet.world.model.release("gate");
    let watched = a.run(&["watch", &id]).await;
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.stdout.contains("and more"), "{watched:?}");
    assert_eq!(on_a.stop().await, Some(0));
    assert_eq!(on_b.stop().await, Some(0));
}
