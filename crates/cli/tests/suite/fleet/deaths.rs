//! A node dies or freezes in the middle of a turn: another one goes on with its conversation.

use super::{Fleet, Node};
use crate::world::{Daemon, freeze, gone, signal};
use nix::sys::signal::Signal;

/// A turn that has run a command and now waits for its model, on a node that was alone.
async fn mid_turn(node: &Node<'_>) -> (Daemon, String) {
    let daemon = node.daemon().await;
    assert_eq!(node.ask("main", "echo:before").await, "before");
    let (_send, message_id) = node
        .sends("append:effect:done ;; hold:gate echo:the answer")
        .await;
    node.fleet.world.model.wait_held("gate").await.unwrap();
    (daemon, message_id)
}

/// How often the command of the turn ran.
fn effects(fleet: &Fleet) -> usize {
    let file = fleet.world.path().join("work/effect");
    std::fs::read_to_string(file).unwrap().lines().count()
}

#[tokio::test]
async fn killed_nodes_turn_goes_on_elsewhere() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let (on_a, message_id) = mid_turn(&a).await;
    let on_b = b.daemon().await;
    a.dies(on_a).await;
    a.loses_its_disk();
    fleet.world.model.release("gate");
    let shown = b.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    assert_eq!(effects(&fleet), 1);
    let remembered = b.ask("main", "remember:").await;
    assert!(remembered.contains("echo:before"), "{remembered}");
    assert_eq!(on_b.stop().await, Some(0));
}

#[tokio::test]
async fn frozen_nodes_turn_goes_on_elsewhere() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let (mut on_a, message_id) = mid_turn(&a).await;
    let on_b = b.daemon().await;
    let codex = fleet.codex_of(&a);
    freeze(on_a.pid()).await;
    // Its keeper ends Codex before the lease ends, so nothing of the turn goes on beside the other node.
    gone(codex).await;
    fleet.world.model.release("gate");
    let shown = b.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    assert_eq!(effects(&fleet), 1);
    signal(on_a.pid(), Signal::SIGCONT);
    on_a.log.wait_for("the lease of this node has ended").await;
    assert_eq!(on_a.ended().await, Some(1));
    assert_eq!(b.ask("main", "echo:after").await, "after");
    assert_eq!(on_b.stop().await, Some(0));
}

/// The whole machine stood still. What Codex ran can't be fenced, but its keeper ends it as soon as time goes on.
#[tokio::test]
async fn machine_that_stood_still_is_fenced() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let (mut on_a, message_id) = mid_turn(&a).await;
    let on_b = b.daemon().await;
    let codex = fleet.codex_of(&a);
    let keeper = fleet.keeper_of(&a);
    for pid in [on_a.pid(), keeper, codex] {
        freeze(pid).await;
    }
    fleet.world.model.release("gate");
    let shown = b.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    for pid in [codex, keeper, on_a.pid()] {
        signal(pid, Signal::SIGCONT);
    }
    gone(codex).await;
    on_a.log.wait_for("the lease of this node has ended").await;
    assert_eq!(on_a.ended().await, Some(1));
    assert_eq!(effects(&fleet), 1);
    let after = b.json(&["show", "--json", &message_id]).await;
    assert_eq!(after["answer"], shown["answer"], "{after:#}");
    assert_eq!(on_b.stop().await, Some(0));
}
