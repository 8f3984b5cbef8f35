//! Budgets of a day, in virtual time: who has used one up waits, is notified, and is answered when there is room again.

use super::stage::Stage;
use crate::config::Config;
use bridge_core::port::Read;
use bridge_core::value::{MessageId, StateName};
use std::time::Duration;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn stage(settings: &str) -> Stage {
    Stage::with(toml::from_str::<Config>(settings).unwrap())
}

/// Why a message waits, and how often it was tried.
fn waits(stage: &Stage, text: &str) -> (String, u32) {
    let rows = stage.ledger.inner().snapshot().unwrap();
    let message = rows.message(&MessageId::new(format!("m-{text}"))).unwrap();
    let life = message.unwrap().life;
    let hold = life.state.hold().unwrap();
    (hold.failure.reason.clone(), life.attempt)
}

async fn answered_within(stage: &Stage, text: &str, patience: Duration) -> bool {
    let done = || stage.state(text) == Some(StateName::Done);
    stage.reaches(patience, done).await
}

#[tokio::test(start_paused = true)]
async fn threat_23_turn_budget_defers_to_tomorrow() {
    let stage = stage("[tiers.owner]\nturns_per_day = 2\n");
    stage.start();
    let began = Instant::now();
    for text in ["one", "two"] {
        stage.shown(text).await;
        stage.done(text).await;
        stage.reaches(HOUR, || false).await;
    }
    stage.shown("three").await;
    stage
        .until("the word that it waits", || {
            stage.platform.visible().len() == 3
        })
        .await;
    let shown = stage.platform.visible();
    assert!(
        shown[2].contains("its budget of 2 turns a day; it goes on at 20"),
        "{shown:?}"
    );
    let (why, attempts) = waits(&stage, "three");
    assert!(shown[2].contains(&why) && attempts == 0, "{why}");
    // The daemon dies meanwhile; what was used is in the rows.
    let stage = stage.dies();
    assert!(!answered_within(&stage, "three", 20 * HOUR).await);
    assert!(answered_within(&stage, "three", 3 * HOUR).await);
    let waited = began.elapsed();
    assert!(waited >= DAY, "{waited:?}");
    assert!(waited < DAY + Duration::from_secs(120), "{waited:?}");
    assert_eq!(stage.agent.asked("three"), 1);
    assert_eq!(stage.platform.visible().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn threat_23_token_budget_applies_when_set() {
    for (settings, held) in [
        ("[tiers.owner]\ntokens_per_day = 1000\n", true),
        ("[tiers.owner]\ntokens_per_day = 1001\n", false),
        (
            "[tiers.peer]\ntokens_per_day = 1\nturns_per_day = 1\n",
            false,
        ),
        ("", false),
    ] {
        let stage = stage(settings);
        stage.agent.costs(500);
        stage.start();
        for text in ["one", "two"] {
            stage.shown(text).await;
            stage.done(text).await;
        }
        stage.shown("three").await;
        let soon = answered_within(&stage, "three", HOUR).await;
        assert_eq!(soon, !held, "{settings}");
        assert!(answered_within(&stage, "three", DAY).await, "{settings}");
    }
}
