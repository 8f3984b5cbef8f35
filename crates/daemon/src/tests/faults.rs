//! S11: the n-th call of the ledger goes wrong, for every n, on the ordinary way of a message and on five bad ones.
//! However it goes wrong, the message is answered once and seen once.

use super::agent::Trouble;
use super::platform::Mood;
use super::stage::Stage;
use bridge_core::value::StateName;
use bridge_testkit::fault::{Fault, Span};
use std::time::Duration;

/// After this much virtual time a daemon that did not finish is taken for dead.
const LIFE: Duration = Duration::from_secs(240);
/// More calls than any way needs: a run that still meets its fault here would never end.
const CALLS_MAX: u64 = 500;

/// What else goes wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ordinary,
    ReplyRefused,
    ReplyUnknown,
    TurnRefused,
    TurnLost,
    LimitReached,
}

const WAYS: [Way; 6] = [
    Way::Ordinary,
    Way::ReplyRefused,
    Way::ReplyUnknown,
    Way::TurnRefused,
    Way::TurnLost,
    Way::LimitReached,
];

fn set(stage: &Stage, way: Way) {
    match way {
        Way::Ordinary => {}
        Way::ReplyRefused => stage.platform.be(Mood::Refuses),
        Way::ReplyUnknown => stage.platform.be(Mood::Unknown { taken: true }),
        Way::TurnRefused => stage.agent.trouble(Trouble::Refused),
        Way::TurnLost => {
            stage.agent.trouble(Trouble::Lost);
            stage.agent.trouble(Trouble::InDoubt);
        }
        Way::LimitReached => stage.agent.trouble(Trouble::Limit),
    }
}

/// One run; tells whether the fault was met.
async fn met(way: Way, n: u64, fault: &Fault) -> bool {
    let mut stage = Stage::new();
    set(&stage, way);
    stage.ledger.plan(n, Span::Once, fault.clone());
    stage.start();
    let shown = tokio::time::timeout(LIFE, stage.shown("one")).await;
    let done = |stage: &Stage| stage.state("one") == Some(StateName::Done);
    let lives = shown.is_ok() && stage.reaches(LIFE, || done(&stage)).await;
    let met = stage.ledger.calls() >= n;
    if !lives {
        assert!(
            matches!(fault, Fault::Abort { .. }),
            "{way:?} {n} {fault:?}: stuck"
        );
        stage = stage.dies();
        stage.shown("one").await;
        stage.done("one").await;
    }
    let case = format!("{way:?}, call {n}, {fault:?}");
    let seen = stage.platform.visible();
    let answers = seen.iter().filter(|text| *text == "one").count();
    let notices = usize::from(way == Way::LimitReached);
    assert_eq!(answers, 1, "{case}: {seen:?}");
    assert!(seen.len() <= 1 + notices, "{case}: {seen:?}");
    assert_eq!(stage.agent.asked("one"), 1, "{case}");
    met
}

async fn for_every_n(fault: Fault) {
    for way in WAYS {
        let mut n = 1;
        while met(way, n, &fault).await {
            n += 1;
            assert!(n < CALLS_MAX, "{way:?} never ends");
        }
        assert!(n > 10, "{way:?} made only {n} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn s11_ledger_unavailable_loses_nothing() {
    for_every_n(Fault::Unavailable).await;
}

#[tokio::test(start_paused = true)]
async fn s11_database_error_loses_nothing() {
    for_every_n(Fault::Backend).await;
}

#[tokio::test(start_paused = true)]
async fn s11_unknown_commit_repeats_nothing() {
    for_every_n(Fault::Unknown).await;
}

#[tokio::test(start_paused = true)]
async fn s11_crash_during_call_loses_nothing() {
    for_every_n(Fault::Abort { done: false }).await;
}

#[tokio::test(start_paused = true)]
async fn s11_crash_after_call_repeats_nothing() {
    for_every_n(Fault::Abort { done: true }).await;
}
