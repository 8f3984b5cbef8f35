//! Many tasks at once.

use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, text};
use bridge_core::port::{Ledger, StateCount};
use bridge_core::step::{ClaimOutcome, SendOutcome};
use bridge_core::value::{Sandbox, StateName};
use tokio::task::JoinSet;

const CONVERSATIONS: u64 = 64;
const MESSAGES: u64 = 4;

/// One conversation: as many messages go out as came in, whoever received them.
async fn converses<L: Ledger>(ledger: L, number: u64) {
    let world = World::over(&ledger);
    for n in 0..MESSAGES {
        let key = format!("k{number}");
        world.does(text(&key, &format!("m-{number}-{n}"))).await;
        let message = loop {
            match world.claim(u32::MAX).await {
                ClaimOutcome::Claimed { message, .. } => break message,
                ClaimOutcome::Idle { .. } => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        };
        let id = message.message_id.as_str();
        world.does(begin(id, Sandbox::ReadOnly)).await;
        world.does(attach(id)).await;
        world.does(answered(id, "yes", None)).await;
        let key = message.conversation_id.as_str().trim_start_matches("c-");
        while let SendOutcome::Send { reply, .. } = world.send(key).await {
            world.confirms(&reply).await;
        }
    }
}

pub(super) async fn many_conversations_go_on_at_once<F: Fixture>() {
    let fixture = F::open();
    let mut tasks = JoinSet::new();
    for number in 0..CONVERSATIONS {
        tasks.spawn(converses(fixture.ledger().clone(), number));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let world = World::over(fixture.ledger());
    let counts = world.reads(|rows| rows.counts()).await;
    let (state, count) = (StateName::Done, CONVERSATIONS * MESSAGES);
    assert_eq!(counts, [StateCount { state, count }]);
    assert_eq!(world.reads(|rows| rows.lanes(None, 9)).await, []);
}
