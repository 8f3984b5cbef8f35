//! A node dies or freezes in the middle of a turn: another one goes on with its conversation.

use super::{Fleet, Node};
use crate::world::{Daemon, freeze, gone, signal, within};
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

/// Everything that the ledger holds of messages and their conversations.
fn rows_of_work(fleet: &Fleet) -> String {
    let tables = [
        "conversation",
        "message",
        "message_text",
        "turn",
        "answer",
        "reply",
        "reply_text",
        "request",
        "event",
        "home",
        "segment",
    ];
    let sums = tables.map(|table| {
        let sum = "md5(string_agg(row::text, '/' ORDER BY row::text))";
        let rows = fleet.rows(&format!("SELECT {sum} FROM codex_bridge.{table} AS row"));
        format!("{table}: {rows}\n")
    });
    sums.concat()
}

/// A node that was frozen in the middle of a turn wakes up when another one has answered it: nothing that it writes is
/// accepted, and it stops. What people are told of the turn says that something may have been done twice.
async fn wakes_up_fenced(mut on_a: Daemon, frozen: &[i32], a: &Node<'_>, b: &Node<'_>, id: &str) {
    let fleet = a.fleet;
    let shown = b.finished(id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    let before = rows_of_work(fleet);
    // It is in the socket when the daemon wakes up, which then tries to write it.
    let late = a.start(&["send", "--no-wait", "echo:late"]).await;
    for pid in frozen {
        signal(*pid, Signal::SIGCONT);
    }
    on_a.log.wait_for("the lease of this node has ended").await;
    let mut said = on_a.log.clone();
    assert_eq!(on_a.ended().await, Some(1));
    said.closed().await;
    let said = said.text();
    assert!(said.contains("its machine stood still"), "{said}");
    assert!(!said.contains("has taken over this database"), "{said}");
    let late = late.ended().await;
    assert_ne!(late.code, Some(0), "{late:?}");
    assert_eq!(rows_of_work(fleet), before);
    assert_eq!(effects(fleet), 1);
    assert_eq!(
        b.json(&["show", "--json", id]).await["answer"],
        shown["answer"]
    );
    let told = b.run(&["show", "-v", id]).await.stdout;
    for words in ["node a is gone", "done twice"] {
        assert!(told.contains(words), "{told}");
    }
    let continued = fleet.world.model.requests();
    let continued = continued.iter().flat_map(|seen| &seen.users);
    let mut checks = continued.filter(|text| text.contains("do not repeat what is done"));
    assert!(checks.next().is_some(), "Codex is asked to look first");
    assert_eq!(b.ask("main", "echo:after").await, "after");
}

#[tokio::test]
async fn n13_killed_nodes_turn_goes_on_elsewhere() {
    let fleet = Fleet::new().await.with_short_lease();
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

/// It wrote files that no other node has, so it waits until a person moves it. The lost turn is then the new home's,
/// whoever was asked for the move.
#[tokio::test]
async fn n17_third_node_moves_a_lost_turn() {
    let mut fleet = Fleet::new().await.with_short_lease();
    fleet.shared_workdir = false;
    let (a, b, c) = (fleet.node("a"), fleet.node("b"), fleet.node("c"));
    let (on_a, message_id) = mid_turn(&a).await;
    let (on_b, on_c) = (b.daemon().await, c.daemon().await);
    a.dies(on_a).await;
    fleet.world.model.release("gate");
    within("the end of its lease", async {
        while b.run(&["move", "main", "--to", "c"]).await.code != Some(0) {}
    })
    .await;
    let shown = c.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    assert_eq!(effects(&fleet), 1);
    assert_eq!(on_b.stop().await, Some(0));
    assert_eq!(on_c.stop().await, Some(0));
}

#[tokio::test]
async fn n14_frozen_nodes_turn_goes_on_elsewhere() {
    let fleet = Fleet::new().await.with_short_lease();
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let (on_a, message_id) = mid_turn(&a).await;
    let on_b = b.daemon().await;
    let (daemon, codex) = (on_a.pid(), fleet.codex_of(&a));
    freeze(daemon).await;
    // Its keeper ends Codex before the lease ends, so nothing of the turn goes on beside the other node.
    gone(codex).await;
    fleet.world.model.release("gate");
    wakes_up_fenced(on_a, &[daemon], &a, &b, &message_id).await;
    assert_eq!(on_b.stop().await, Some(0));
}

/// What Codex still does when the machine goes on can't be fenced: its keeper ends it, after a moment.
#[tokio::test]
async fn n15_machine_that_stood_still_is_fenced() {
    let fleet = Fleet::new().await.with_short_lease();
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let (on_a, message_id) = mid_turn(&a).await;
    let on_b = b.daemon().await;
    let (keeper, codex) = (fleet.keeper_of(&a), fleet.codex_of(&a));
    let frozen = [codex, keeper, on_a.pid()];
    for pid in frozen.iter().rev() {
        freeze(*pid).await;
    }
    fleet.world.model.release("gate");
    wakes_up_fenced(on_a, &frozen, &a, &b, &message_id).await;
    gone(codex).await;
    assert_eq!(on_b.stop().await, Some(0));
}
