//! Deaths of the daemon at named places, with a real abort, a real ledger file, the real Codex and a real restart
//! (rows K1 to K14 of the fault matrix). `begin.after` is the instant after the commit of `begin`, and so on.

use crate::stand::{PROBEABLE, SOCKET, STDIO, Setup, Stand};
use bridge_sim::molecule::MoleculeFault;

/// A message whose way meets a death at `point`: afterwards it is answered once, and the model was asked once.
async fn one_answer_after(setup: Setup, point: &str) {
    let stand = Stand::new(setup).await;
    let row = stand.post("a", "echo:one");
    stand.dies_at(point).await;
    stand.finishes(row).await;
    assert_eq!(stand.world.times_asked("echo:one"), 1, "{point}");
}

#[tokio::test]
async fn k1_crash_before_intake_redelivers_row() {
    one_answer_after(SOCKET, "receive_page.before").await;
}

#[tokio::test]
async fn k2_crash_after_intake_is_resumed() {
    one_answer_after(SOCKET, "receive_page.after").await;
    one_answer_after(SOCKET, "claim.before").await;
}

#[tokio::test]
async fn k3_crash_before_turn_start_answers_once() {
    one_answer_after(SOCKET, "begin.after").await;
    one_answer_after(STDIO, "begin.after").await;
}

/// Deaths swept over the instants in which `turn/start` is written, answered and attached.
#[tokio::test]
async fn k4_crash_during_turn_start_never_duplicates() {
    let stand = Stand::new(SOCKET).await;
    for micros in [200, 700, 1_500, 3_000, 6_000, 12_000, 25_000] {
        let text = format!("echo:after-{micros}-us");
        let row = stand.post("a", &text);
        stand.dies_at(&format!("begin.after+{micros}")).await;
        stand.finishes(row).await;
        assert_eq!(stand.world.times_asked(&text), 1, "{micros} us");
    }
}

#[tokio::test]
async fn k5_crash_around_attach_answers_once() {
    one_answer_after(SOCKET, "attach.before").await;
    one_answer_after(SOCKET, "attach.after").await;
}

/// Over pipes Codex ends with the daemon: the turn was cut, and is continued, not repeated.
#[tokio::test]
async fn k6_crash_over_pipes_continues_turn() {
    let stand = Stand::new(STDIO).await;
    let row = stand.post("a", "append:log.txt:once ;; hold:gate echo:done");
    let daemon = stand.world.daemon().await;
    stand.world.model.wait_held("gate").await.unwrap();
    let codex = stand.world.codex_pid();
    daemon.kill_9().await;
    crate::world::gone(codex).await;
    stand.world.model.release("gate");
    stand.finishes(row).await;
    assert_eq!(effects(&stand), ["once"]);
    let told = stand.world.shown_with("append:log.txt:once");
    let last = told.last().unwrap();
    assert!(last.starts_with("[codex-bridge] Your work"), "{last}");
}

#[tokio::test]
async fn k7_crash_over_socket_keeps_turn() {
    let stand = Stand::new(SOCKET).await;
    let row = stand.post("a", "append:log.txt:once ;; hold:gate echo:done");
    let daemon = stand.world.daemon().await;
    stand.world.model.wait_held("gate").await.unwrap();
    let codex = stand.world.codex_pid();
    daemon.kill_9().await;
    let daemon = stand.world.daemon().await;
    assert_eq!(stand.world.codex_pid(), codex, "it is the same Codex");
    stand.world.model.release("gate");
    stand.settled(row).await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(
        (stand.answers(row), effects(&stand)),
        (1, vec!["once".to_owned()])
    );
}

/// What the turns of the one conversation left behind.
fn effects(stand: &Stand) -> Vec<String> {
    let work = stand.world.state_dir().join("work");
    let directory = std::fs::read_dir(work).unwrap().next().unwrap().unwrap();
    let log = std::fs::read_to_string(directory.path().join("log.txt")).unwrap();
    log.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn k8_crash_before_answer_commit_harvests_it() {
    for setup in [SOCKET, STDIO] {
        one_answer_after(setup, "answer.before").await;
    }
}

#[tokio::test]
async fn k9_crash_after_answer_sends_it_once() {
    one_answer_after(SOCKET, "answer.after").await;
    one_answer_after(SOCKET, "send.before").await;
    one_answer_after(PROBEABLE, "send.after").await;
}

/// The platform took the reply; the daemon died before it heard so.
#[tokio::test]
async fn k10_crash_before_receipt_shows_reply_once() {
    for setup in [SOCKET, PROBEABLE] {
        let stand = Stand::new(setup).await;
        let row = stand.post("a", "echo:one");
        stand.talks.script_replies([MoleculeFault::Withhold]);
        let daemon = stand.world.daemon().await;
        stand.replied(row).await;
        daemon.kill_9().await;
        stand.finishes(row).await;
        assert_eq!(stand.world.times_asked("echo:one"), 1, "{setup:?}");
    }
}

#[tokio::test]
async fn k11_crash_after_receipt_shows_reply_once() {
    one_answer_after(SOCKET, "confirm.before").await;
    one_answer_after(PROBEABLE, "confirm.before").await;
}

/// The reply is confirmed: nothing is left to do, and nothing is done again.
#[tokio::test]
async fn crash_after_confirmation_repeats_nothing() {
    one_answer_after(SOCKET, "confirm.after").await;
}

/// Ten starts that die while they recover: the eleventh goes on as if there had been none.
#[tokio::test]
async fn k14_deaths_during_recovery_cost_nothing() {
    for setup in [SOCKET, STDIO] {
        let stand = Stand::new(setup).await;
        let row = stand.post("a", "echo:one");
        stand.dies_at("attach.after").await;
        let before = ["resume.before"; 3];
        // From here the turn is unclear, and every start looks what became of it.
        let after = [["resume.after"; 1].as_slice(), &["reconcile.before"; 6]].concat();
        for point in before.into_iter().chain(after) {
            stand.dies_at(point).await;
        }
        stand.finishes(row).await;
        let asked = stand.world.times_asked("echo:one");
        let most = if setup.transport == "socket" { 1 } else { 2 };
        assert!((1..=most).contains(&asked), "{setup:?}: {asked}");
    }
}

/// Every commit on an ordinary message's way, both sides of it, over both hosts: each death is followed by one
/// answer, one visible reply, and no model call too many.
async fn every_commit(setup: Setup) {
    let stand = Stand::new(setup).await;
    let transitions = [
        "receive_page",
        "claim",
        "bind",
        "begin",
        "attach",
        "answer",
        "send",
        "confirm",
    ];
    for transition in transitions {
        for side in ["before", "after"] {
            let point = format!("{transition}.{side}");
            let text = format!("echo:{transition}-{side}");
            // A conversation of its own each time, so that there is a thread to bind.
            let row = stand.post(&point, &text);
            stand.dies_at(&point).await;
            stand.finishes(row).await;
            let asked = stand.world.times_asked(&text);
            let cut_once = setup.transport == "stdio" && transition == "attach";
            let most = if cut_once { 2 } else { 1 };
            assert!((1..=most).contains(&asked), "{point}: asked {asked} times");
        }
    }
}

#[tokio::test]
async fn every_commit_survives_crash_over_socket() {
    every_commit(SOCKET).await;
}

#[tokio::test]
async fn every_commit_survives_crash_over_pipes() {
    every_commit(STDIO).await;
}
