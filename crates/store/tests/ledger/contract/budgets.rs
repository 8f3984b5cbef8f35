//! Budgets of senders: who has used up what a day allows waits, is told once, spends nothing, and holds up nobody else.

use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, claim, fail, message, text};
use bridge_core::budget::{Budgets, DayBudget};
use bridge_core::limits::{BUDGET_WINDOW_MS, HELD_AGE_MAX_MS};
use bridge_core::port::Ledger;
use bridge_core::step::{Claim, ClaimOutcome, Fail, Receive};
use bridge_core::value::{
    ChannelId, Class, MessageState, ReplyKind, Sandbox, Tier, Timestamp, Usage,
};
use std::sync::Arc;

fn budget(turns: Option<u64>, tokens: Option<u64>) -> Budgets {
    Budgets {
        tiers: vec![(
            Tier::Peer,
            DayBudget {
                turns,
                tokens,
                bytes: None,
            },
        )],
        ..Budgets::default()
    }
}

/// A text of a peer in a conversation of its own.
fn by(sender: &str, id: &str) -> Receive {
    Receive {
        sender: sender.to_owned(),
        tier: Tier::Peer,
        ..text(id, id)
    }
}

async fn claims<L: Ledger>(world: &World<L>, budgets: &Budgets) -> ClaimOutcome {
    let claim = Claim {
        budgets: Arc::new(budgets.clone()),
        leave_written: false,
        ..claim(99, world.now)
    };
    world.does(claim).await.outcome
}

/// Claims, expecting this message.
async fn takes<L: Ledger>(world: &World<L>, budgets: &Budgets, id: &str) {
    let claimed = claims(world, budgets).await;
    let ClaimOutcome::Claimed { message, .. } = claimed else {
        panic!("{id} is to be claimed: {claimed:?}");
    };
    assert_eq!(message.message_id.as_str(), id);
}

async fn answers<L: Ledger>(world: &World<L>, id: &str) {
    world.does(begin(id, Sandbox::ReadOnly)).await;
    world.does(attach(id)).await;
    world.does(answered(id, "yes", None)).await;
}

/// Insists that ann's turns after a time are so many, used so many tokens, and began at `first`.
async fn has_used<L: Ledger>(
    world: &World<L>,
    since: Timestamp,
    (turns, tokens): (u64, u64),
    first: Timestamp,
) {
    let reached = |turns, tokens| {
        world.reads(move |rows| {
            let budget = DayBudget {
                turns,
                tokens,
                bytes: None,
            };
            rows.budget_reached(&ChannelId::new("local"), "ann", since, budget)
        })
    };
    assert_eq!(reached(Some(turns), None).await, Some(first));
    assert_eq!(reached(Some(turns + 1), None).await, None);
    assert_eq!(reached(None, Some(tokens)).await, Some(first));
    assert_eq!(reached(None, Some(tokens + 1)).await, None);
}

pub(super) async fn who_used_up_its_turns_waits_until_one_is_a_day_old<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let budgets = budget(Some(2), None);
    let start = world.now;
    for id in ["m1", "m2"] {
        world.does(by("ann", id)).await;
        takes(&world, &budgets, id).await;
        answers(&world, id).await;
        world.pass_ms(1_000);
    }
    for receive in [by("ann", "m3"), by("bob", "m4")] {
        world.does(receive).await;
        world.pass_ms(1);
    }
    assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    takes(&world, &budgets, "m4").await;
    let held = world.message("m3").await;
    let due = start.plus_ms(BUDGET_WINDOW_MS);
    let hold = held.life.state.hold().unwrap().clone();
    assert_eq!((hold.until, held.life.attempt), (due, 0));
    assert_eq!(held.life.spent, 0);
    assert!(
        hold.failure.reason.contains("2 turns a day"),
        "{}",
        hold.failure.reason
    );
    let idle = claims(&world, &budgets).await;
    let next_due = Some(due);
    assert_eq!(idle, ClaimOutcome::Idle { next_due });
    let told = world.reads(|rows| rows.replies(&message("m3"))).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].kind, ReplyKind::Notice);
    assert!(told[0].body.contains(&due.utc()), "{}", told[0].body);
    world.now = due;
    takes(&world, &budgets, "m3").await;
    answers(&world, "m3").await;
    // The next one waits for the second turn, and nobody is told twice.
    world.does(by("ann", "m5")).await;
    assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    let next_due = Some(due.plus_ms(1_000));
    assert_eq!(
        claims(&world, &budgets).await,
        ClaimOutcome::Idle { next_due }
    );
}

pub(super) async fn what_waits_for_a_budget_is_told_once<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let budgets = budget(Some(1), None);
    let start = world.now;
    for id in ["m1", "m2", "m3"] {
        world.does(by("ann", id)).await;
        world.pass_ms(1);
    }
    takes(&world, &budgets, "m1").await;
    answers(&world, "m1").await;
    for _ in 0..2 {
        assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    }
    world.now = start.plus_ms(BUDGET_WINDOW_MS + 10);
    takes(&world, &budgets, "m2").await;
    answers(&world, "m2").await;
    assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    let told = world.reads(|rows| rows.replies(&message("m3"))).await;
    assert_eq!(told.len(), 1);
    assert_eq!(world.message("m3").await.life.spent, 0);
}

pub(super) async fn a_message_that_waits_for_a_budget_too_long_is_a_dead_letter<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let budgets = budget(Some(1), None);
    let days = HELD_AGE_MAX_MS / BUDGET_WINDOW_MS;
    for n in 0..days + 3 {
        world.does(by("ann", &format!("m{n}"))).await;
    }
    let mut answered = Vec::new();
    for _ in 0..days + 2 {
        loop {
            match claims(&world, &budgets).await {
                ClaimOutcome::Claimed { message, .. } => {
                    answers(&world, message.message_id.as_str()).await;
                    answered.push(message.message_id.to_string());
                }
                ClaimOutcome::Held => {}
                ClaimOutcome::Idle { .. } => break,
                other @ (ClaimOutcome::Buried | ClaimOutcome::Full { .. }) => panic!("{other:?}"),
            }
        }
        world.pass_ms(BUDGET_WINDOW_MS);
    }
    // The one before it is just old enough when its turn comes.
    let last = format!("m{}", days + 2);
    assert_eq!(answered.len() as u64, u64::try_from(days + 2).unwrap());
    assert!(!answered.contains(&last));
    let state = world.message(&last).await.life.state;
    assert!(
        matches!(&state, MessageState::Dead { reason } if reason.contains("it waited too long")),
        "{state:?}"
    );
}

pub(super) async fn tokens_count_also_of_turns_without_an_answer<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let budgets = budget(None, Some(30));
    let start = world.now;
    world.does(by("ann", "m1")).await;
    takes(&world, &budgets, "m1").await;
    answers(&world, "m1").await;
    world.pass_ms(1_000);
    world.does(by("ann", "m2")).await;
    takes(&world, &budgets, "m2").await;
    world.does(begin("m2", Sandbox::ReadOnly)).await;
    world.does(attach("m2")).await;
    let cut = Fail {
        usage: Usage {
            input_tokens: 20,
            output_tokens: i64::MAX,
        },
        ..fail("m2", Class::Permanent)
    };
    world.does(cut).await;
    let tokens = u64::try_from(i64::MAX).unwrap() + 20 + 10;
    has_used(&world, start.plus_ms(-1), (2, tokens), start).await;
    let second = start.plus_ms(1_000);
    has_used(&world, start, (1, tokens - 10), second).await;
    world.does(by("ann", "m3")).await;
    assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    let next_due = Some(start.plus_ms(1_000 + BUDGET_WINDOW_MS));
    let idle = claims(&world, &budgets).await;
    assert_eq!(idle, ClaimOutcome::Idle { next_due });
}

pub(super) async fn what_is_claimed_counts_before_its_turn_begins<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let mut budgets = budget(Some(2), None);
    for id in ["m1", "m2", "m3"] {
        world.does(by("ann", id)).await;
    }
    takes(&world, &budgets, "m1").await;
    takes(&world, &budgets, "m2").await;
    assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    has_used(&world, Timestamp(0), (2, 0), world.now).await;
    // A budget of its own goes before that of the tier; other channels have other senders.
    let ann = |channel: &str, turns| {
        let turns = Some(turns);
        let tokens = None;
        let channel = ChannelId::new(channel);
        (
            channel,
            "ann".to_owned(),
            DayBudget {
                turns,
                tokens,
                bytes: None,
            },
        )
    };
    world.does(by("ann", "m4")).await;
    budgets.senders.push(ann("elsewhere", 9));
    assert_eq!(claims(&world, &budgets).await, ClaimOutcome::Held);
    world.does(by("ann", "m5")).await;
    budgets.senders.push(ann("local", 3));
    takes(&world, &budgets, "m5").await;
}
