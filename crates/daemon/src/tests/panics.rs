//! Tasks that panic: each is counted, its conversation is not blocked, and its message ends.

use super::agent::Trouble;
use super::platform::Mood;
use super::stage::Stage;
use std::time::Duration;

/// Longest virtual time until a message goes on.
const SOON: Duration = Duration::from_secs(60);

impl Stage {
    /// A message comes, and ends soon all the same.
    async fn ends_all_the_same(&self, panics: u64) {
        self.start();
        self.shown("one").await;
        let done = || self.state("one") == Some(bridge_core::value::StateName::Done);
        assert!(self.reaches(SOON, done).await, "{:?}", self.state("one"));
        assert_eq!(self.daemon.panics.total(), panics);
        assert_eq!(self.platform.visible(), ["one"]);
        assert!(self.daemon.turns.running.lock().is_empty());
        assert!(self.daemon.lanes.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn f10_a_lane_that_panics_delivers_later() {
    let stage = Stage::new();
    stage.platform.be(Mood::Panics);
    stage.platform.be(Mood::Panics);
    stage.ends_all_the_same(2).await;
}

#[tokio::test(start_paused = true)]
async fn f10_panic_before_turn_recovers() {
    let stage = Stage::new();
    stage.agent.trouble(Trouble::Panics);
    stage.ends_all_the_same(1).await;
    assert_eq!(stage.agent.asked("one"), 1);
}

#[tokio::test(start_paused = true)]
async fn f10_turn_is_found_after_follower_panicked() {
    let stage = Stage::new();
    stage.agent.trouble(Trouble::FollowerPanics);
    stage.ends_all_the_same(1).await;
    assert_eq!(stage.agent.asked("one"), 1, "it ran once");
}

#[tokio::test(start_paused = true)]
async fn f10_a_look_that_panics_is_repeated() {
    let stage = Stage::new();
    stage.agent.trouble(Trouble::Lost);
    stage.agent.looks_panic(2);
    stage.ends_all_the_same(2).await;
    assert_eq!(stage.agent.asked("one"), 1, "it ran once");
}
