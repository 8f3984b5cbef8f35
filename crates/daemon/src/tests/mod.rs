//! The daemon's own loops over a ledger in memory, a scripted agent and a scripted platform, in virtual time.
//!
//! What needs the real Codex, a real file or a real death is in the suite of the built binary.

mod agent;
mod approvals;
mod budgets;
mod detached_call;
mod faults;
mod files;
mod lease;
mod long;
mod notify;
mod panics;
mod platform;
mod push;
mod reader;
mod stage;
mod threads;

use self::platform::Mood;
use self::stage::Stage;
use crate::process::clock::now;
use bridge_core::port::Ledger;
use bridge_core::step::Received;
use bridge_core::value::StateName;
use bridge_testkit::fault::{Fault, Span};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// The answer exists; a platform that does not take it for an hour costs no second turn.
#[tokio::test(start_paused = true)]
async fn refused_reply_retries_without_new_turn() {
    let stage = Stage::new();
    stage.platform.refuse_for(HOUR);
    stage.start();
    stage.shown("one").await;
    let waited = tokio::time::Instant::now();
    stage.done("one").await;
    assert!(waited.elapsed() >= HOUR, "{:?}", waited.elapsed());
    assert!(waited.elapsed() < HOUR + Duration::from_secs(120));
    assert_eq!(stage.platform.visible(), ["one"]);
    assert!(stage.platform.sends() > 10, "it was tried again and again");
    assert_eq!(stage.agent.asked("one"), 1);
}

/// A source that shows a finished message again changes nothing.
#[tokio::test(start_paused = true)]
async fn redelivered_finished_message_changes_nothing() {
    let stage = Stage::new();
    stage.start();
    stage.shown("one").await;
    stage.done("one").await;
    assert!(matches!(stage.shown("one").await, Received::Duplicate(_)));
    assert_eq!(stage.platform.visible(), ["one"]);
    assert_eq!(stage.agent.asked("one"), 1);
    assert_eq!(stage.state("one"), Some(StateName::Done));
}

/// A platform that can be asked is asked before anything is sent again.
#[tokio::test(start_paused = true)]
async fn unclear_reply_is_probed_before_resend() {
    for taken in [true, false] {
        let stage = Stage::new();
        stage.platform.be(Mood::Unknown { taken });
        stage.platform.probeable();
        stage.start();
        stage.shown("one").await;
        stage.done("one").await;
        assert_eq!(stage.platform.visible(), ["one"], "taken: {taken}");
        assert_eq!(stage.platform.probes(), 1, "taken: {taken}");
    }
}

/// A start takes up the messages behind one whose rows can't be read.
#[tokio::test(start_paused = true)]
async fn start_goes_past_unreadable_row() {
    let stage = Stage::new();
    for text in ["one", "two"] {
        stage.shown(text).await;
        let claim = stage.daemon.settings().claim(now());
        stage.ledger.inner().transact(claim, now()).await.unwrap();
    }
    stage.ledger.plan(2, Span::Once, Fault::Unreadable);
    assert_eq!(stage.daemon.recover().await, Ok(2));
    assert_eq!(stage.state("one"), Some(StateName::Claimed));
    assert_ne!(stage.state("two"), Some(StateName::Claimed));
    stage.ledger.plan(2, Span::Once, Fault::Backend);
    assert!(stage.daemon.recover().await.is_err(), "the database failed");
}
