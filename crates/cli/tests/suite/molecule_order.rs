//! Each message once and every sender's in order, on the whole program: senders who wait for the platform's receipt
//! before they write again, rows that commit late and out of order, and a daemon that is killed again and again.
//!
//! The suite plays one small run. `MOLECULE_ORDER_SEEDS=1,2,3,4,5 cargo test -p codex-bridge --test suite d3_ --
//! --nocapture` plays the whole one with each of these seeds, and prints what it counted.

use crate::chat::Chat;
use bridge_sim::Dice;
use bridge_sim::molecule::{Late, MoleculeOptions, Workspace};

use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The variable that asks for the whole run.
const SEEDS: &str = "MOLECULE_ORDER_SEEDS";
/// How long an insert holds the lock of its workspace, at most: twenty that wait make a row late by 40 ms on average.
const LOCKED: Duration = Duration::from_millis(4);

/// Messages that a sender writes one behind the other, each when the platform has answered for the last; then it waits
/// for a later life of the daemon.
const BURST: usize = 4;

/// How the notice begins that is sent instead of an answer.
const GIVEN_UP: &str = "There is no answer to this message";

/// How much is played.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    senders: usize,
    /// Messages of each sender.
    each: usize,
    kills: usize,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    answered: usize,
    /// Told that there is no answer: a message under which the daemon died too often is not tried again.
    given_up: usize,
    lost: usize,
    doubled: usize,
    out_of_order: usize,
}

fn answers(chat: &Chat, peers: &[Workspace]) -> usize {
    let inboxes = peers.iter().map(|peer| chat.platform.inbox_of(peer).len());
    inboxes.sum()
}

/// One sender.
async fn writes(chat: &Chat, run: Run, peer: &Workspace, mut lives: watch::Receiver<usize>) {
    for number in 0..run.each {
        let from = number / BURST * BURST * run.kills / run.each;
        lives.wait_for(|life| *life >= from).await.unwrap();
        let text = format!("echo:{number:02}");
        let sent = chat.platform.peer_sends(peer, &chat.us, &text).await;
        sent.unwrap();
    }
}

/// Daemons, one after the other, each killed after some more answers; the last one stays.
async fn lives(chat: &Chat, run: Run, peers: &[Workspace], life: watch::Sender<usize>) {
    let mut dice = Dice::new(run.seed);
    let all = run.senders * run.each;
    for number in 0..run.kills {
        let daemon = chat.daemon().await;
        life.send_replace(number);
        let before = answers(chat, peers);
        let most = u64::try_from(all / run.kills).unwrap();
        let more = usize::try_from(dice.between(most / 2, most)).unwrap();
        let enough = all.min(before + more);
        chat.until("some answers", |chat| answers(chat, peers) >= enough)
            .await;
        daemon.kill_9().await;
    }
    let daemon = chat.daemon().await;
    life.send_replace(run.kills);
    chat.until("every answer", |chat| answers(chat, peers) >= all)
        .await;
    assert_eq!(daemon.stop().await, Some(0));
}

fn count(chat: &Chat, run: Run, peers: &[Workspace]) -> Counted {
    let mut counted = Counted::default();
    for (sender, peer) in peers.iter().enumerate() {
        let inbox = chat.platform.inbox_of(peer);
        let got: Vec<&str> = inbox.iter().map(|message| message.text.as_str()).collect();
        let expected: Vec<String> = (0..run.each).map(|number| format!("{number:02}")).collect();
        let times = |text: &String| got.iter().filter(|got| **got == *text).count();
        let (answers, notices): (Vec<&str>, Vec<&str>) = got
            .iter()
            .copied()
            .partition(|text| !text.starts_with(GIVEN_UP));
        let missing = expected.iter().filter(|text| times(text) == 0).count();
        counted.answered += answers.len();
        counted.given_up += notices.len();
        counted.lost += missing.saturating_sub(notices.len());
        counted.doubled += expected.iter().filter(|text| times(text) > 1).count();
        counted.out_of_order += usize::from(!answers.is_sorted());
        if got != expected {
            eprintln!("seed {}: sender {sender} got {got:?}", run.seed);
        }
    }
    counted
}

async fn play(run: Run) {
    let options = MoleculeOptions {
        seed: run.seed,
        patience: Duration::from_secs(300),
        ..MoleculeOptions::default()
    };
    let chat = Chat::with(options, "").await;
    let names = (0..run.senders).map(|number| format!("sender-{number}"));
    let peers: Vec<Workspace> = names
        .map(|name| chat.platform.add_workspace(&name))
        .collect();
    let (began, (life, _)) = (Instant::now(), watch::channel(0));
    chat.platform.set_late_messages(Late::Locked(LOCKED));
    let writers = peers
        .iter()
        .map(|peer| writes(&chat, run, peer, life.subscribe()));
    let writers = join_all(writers);
    tokio::join!(writers, lives(&chat, run, &peers, life.clone()));
    let counted = count(&chat, run, &peers);
    let Run { seed, kills, .. } = run;
    eprintln!(
        "seed {seed}: {kills} kills, {counted:?}, {:.0?}",
        began.elapsed()
    );
    let (all, given_up) = (run.senders * run.each, counted.given_up);
    let expected = Counted {
        answered: all - given_up,
        given_up,
        ..Counted::default()
    };
    assert_eq!(counted, expected, "seed {seed}");
    // As many as a drill allows on a slow machine.
    assert!(given_up * 50 <= all, "seed {seed}: {given_up} given up");
}

#[tokio::test]
async fn d3_order_is_kept_through_kills() {
    let seeds = std::env::var(SEEDS).ok();
    let Some(seeds) = seeds else {
        let small = Run {
            seed: 1,
            senders: 8,
            each: 6,
            kills: 3,
        };
        return play(small).await;
    };
    for seed in seeds.split(',') {
        let whole = Run {
            seed: seed.trim().parse().unwrap(),
            senders: 20,
            each: 10,
            kills: 12,
        };
        play(whole).await;
    }
}
