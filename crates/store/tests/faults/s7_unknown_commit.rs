//! S7: a commit whose outcome is not known. Whoever asks again meets what is on disk, and the guards make the
//! repetition harmless: every step of a life is repeated, and the ledger says the same as if nothing had happened.

use crate::given::{World, answered, attach, begin, claim, conversation, message, text};
use crate::rig::Place;
use crate::view::everything;
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{Bind, Confirm, Received, Send, Transition};
use bridge_core::value::{Sandbox, StateName, ThreadId};
use bridge_testkit::MemoryLedger;
use bridge_testkit::fault::{Fault, FaultLedger, Span};

/// Somebody who lives a message's life and hears of one step that it failed although it was done.
struct Doubter<L> {
    world: World<FaultLedger<L>>,
    steps: u32,
    doubted: u32,
}

impl<L: Ledger> Doubter<L> {
    /// Does a step, and again after a failure; a refusal then means that it had been done.
    async fn surely<T: Transition + Clone>(&mut self, step: T) {
        self.steps += 1;
        if self.steps == self.doubted {
            self.world.ledger.plan(1, Span::Once, Fault::Unknown);
        }
        let error = match self.world.tries(step.clone()).await {
            Ok(_) => return,
            Err(error) => error,
        };
        assert!(matches!(error, LedgerError::Unavailable { .. }), "{error}");
        match self.world.tries(step).await {
            Ok(_) | Err(LedgerError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn live(&mut self) -> Vec<String> {
        let (conversation_id, thread) = (conversation("a"), ThreadId::new("thread"));
        self.surely(text("a", "m1")).await;
        let again = self.world.does(text("a", "m1")).await.outcome;
        assert_eq!(again, Received::Duplicate(message("m1")));
        self.surely(claim(1_000, self.world.now)).await;
        assert_eq!(self.world.state("m1").await, StateName::Claimed);
        let bind = Bind {
            conversation_id: conversation_id.clone(),
            thread,
        };
        self.surely(bind).await;
        self.surely(begin("m1", Sandbox::WorkspaceWrite)).await;
        self.surely(attach("m1")).await;
        self.surely(answered("m1", "the answer", None)).await;
        self.surely(Send { conversation_id }).await;
        let confirm = Confirm {
            message_id: message("m1"),
            ordinal: 0,
            receipt: "receipt".to_owned(),
        };
        self.surely(confirm).await;
        assert_eq!(self.world.state("m1").await, StateName::Done);
        everything(&self.world.ledger, self.world.now).await
    }
}

/// A reply that is sent again has one more try; its key is the same, which is what the platform goes by.
fn tries_aside(view: Vec<String>) -> Vec<String> {
    let aside = |line: String| line.replace("tries: 2", "tries: 1");
    view.into_iter().map(aside).collect()
}

async fn every_step_in_turn<L: Ledger>(open: impl Fn() -> L) {
    let doubter = |doubted| Doubter {
        world: World::over(&FaultLedger::new(open())),
        steps: 0,
        doubted,
    };
    let mut sure = doubter(0);
    let expected = sure.live().await;
    assert_eq!(sure.steps, 8);
    for doubted in 1..=sure.steps {
        let found = doubter(doubted).live().await;
        assert_eq!(
            tries_aside(found),
            tries_aside(expected.clone()),
            "step {doubted}"
        );
    }
}

#[tokio::test]
async fn s7_unknown_commit_is_repeatable_on_disk() {
    let places = std::cell::RefCell::new(Vec::new());
    every_step_in_turn(|| {
        let place = Place::new();
        let ledger = place.open();
        places.borrow_mut().push(place);
        ledger
    })
    .await;
}

#[tokio::test]
async fn s7_unknown_commit_is_repeatable_in_memory() {
    every_step_in_turn(MemoryLedger::new).await;
}
