//! Threads of a fleet's node: stored before what was made of them, or let go of.

use super::lease::lasting;
use super::stage::Stage;
use bridge_core::port::Read;
use bridge_core::value::{ConversationId, ThreadId};

impl Stage {
    fn thread_of(&self, text: &str) -> Option<ThreadId> {
        let rows = self.ledger.inner().snapshot().unwrap();
        let id = ConversationId::new(format!("c-{text}"));
        rows.conversation(&id).unwrap().unwrap().thread
    }
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_their_threads() {
    let stage = Stage::new().dies_on_node(lasting());
    stage.agent.hides_threads(3);
    stage.shown("one").await;
    stage.done("one").await;
    assert_eq!(stage.agent.stored(), 1);
    assert!(stage.thread_of("one").is_some());
}

/// Nobody goes on with what an earlier turn stored of it: the next turn begins another one, with a recap.
#[tokio::test(start_paused = true)]
async fn unreadable_threads_are_let_go() {
    let stage = Stage::new().dies_on_node(lasting());
    stage.agent.hides_threads(u32::MAX);
    stage.shown("one").await;
    stage.done("one").await;
    assert_eq!(stage.thread_of("one"), None);
    assert_eq!(stage.platform.visible(), ["one"]);
}
