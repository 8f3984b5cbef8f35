//! What people ask a ledger: how much is where, who did what, and why a message is not worked on.

use crate::fixture::Fixture;
use crate::given::{World, answered, begin, claim, fail, lose, message, reconcile, text};
use bridge_core::port::{Figures, Kept, Ledger, TurnHistory};
use bridge_core::step::{Claim, ClaimOutcome, Discard, Redrive};
use bridge_core::value::{AuditEntry, Class, Sandbox, StateName, Tier, Timestamp};
use bridge_core::why::WhyRows;

async fn figures<L: Ledger>(world: &World<L>, since: Timestamp) -> Figures {
    world.reads(move |rows| rows.figures(since)).await
}

pub(super) async fn figures_tell_what_the_states_do_not<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let start = world.now;
    assert_eq!(figures(&world, start).await, Figures::default());

    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world.does(answered("m1", "yes", None)).await;
    let reply = world.sends("a").await;
    assert_eq!(figures(&world, start).await.replies_retried, 0);
    world.refuses(&reply, Class::Transient).await;
    assert_eq!(figures(&world, start).await.replies_retried, 1);
    world.pass_ms(60_000);
    let reply = world.sends("a").await;
    assert_eq!(figures(&world, start).await.replies_retried, 1);
    world.confirms(&reply).await;

    world.loses("b", "m2", Sandbox::ReadOnly).await;
    world.does(reconcile("m2", TurnHistory::Absent)).await;
    let oldest = world.message("m2").await.received_at;
    world.receives(&[("c", "m3")]).await;
    let ClaimOutcome::Claimed { message: m3, .. } = world.claim(9).await else {
        panic!("m3 waits")
    };
    world
        .does(fail(m3.message_id.as_str(), Class::Config))
        .await;
    let found = Figures {
        answered: 1,
        oldest_unanswered: Some(oldest),
        suspects: 1,
        operator: 1,
        replies_retried: 0,
        requests_waiting: 0,
    };
    assert_eq!(figures(&world, start).await, found);
    let later = figures(&world, world.now.plus_ms(1)).await;
    assert_eq!((later.answered, later.suspects), (0, 1));
}

pub(super) async fn what_people_did_to_a_message_is_kept_with_its_name<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id) in [("a", "m1"), ("b", "m2")] {
        world.receives(&[(key, id)]).await;
        world.claims().await;
        world.does(fail(id, Class::Permanent)).await;
    }
    for id in ["m1", "m2"] {
        let (message_id, by) = (message(id), "ann".to_owned());
        world
            .does(Redrive {
                message_id,
                by,
                not_before: None,
            })
            .await;
    }
    world.claims().await;
    world.does(fail("m1", Class::Permanent)).await;
    let by = "bob".to_owned();
    let message_id = message("m1");
    world.does(Discard { message_id, by }).await;
    let acts = |limit| {
        world.reads(move |rows| {
            let acts = rows.audit_of(&message("m1"), limit)?;
            let line = |act: AuditEntry| format!("{} {}", act.actor, act.what);
            Ok(acts.into_iter().map(line).collect::<Vec<_>>())
        })
    };
    assert_eq!(acts(9).await, ["bob discard", "ann redrive"]);
    assert_eq!(acts(1).await, ["bob discard"]);
}

/// The reason that people are told is the one that keeps the scheduler from claiming.
pub(super) async fn the_reason_that_is_told_is_the_one_that_holds<F: Fixture>() {
    for (kept, asked) in [
        (None, claim(9, Timestamp(0))),
        (Some(Kept::Slots), claim(1, Timestamp(0))),
        (
            Some(Kept::Channel),
            Claim {
                turns_per_channel: 1,
                ..claim(9, Timestamp(0))
            },
        ),
        (
            Some(Kept::Writer),
            Claim {
                one_writer: vec!["/work".to_owned()],
                ..claim(9, Timestamp(0))
            },
        ),
        (
            None,
            Claim {
                one_writer: vec!["/work".to_owned()],
                readers: vec![Tier::Owner],
                ..claim(9, Timestamp(0))
            },
        ),
    ] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.starts("a", "m1", Sandbox::WorkspaceWrite).await;
        world.receives(&[("b", "m2")]).await;
        agree(&world, "m2", kept, asked).await;
    }
}

pub(super) async fn a_suspect_waits_for_another_one_and_says_so<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id) in [("a", "m1"), ("b", "m2")] {
        world.receives(&[(key, id)]).await;
        world.claims().await;
        world.does(begin(id, Sandbox::ReadOnly)).await;
        world.does(lose(id)).await;
    }
    for id in ["m1", "m2"] {
        world.does(reconcile(id, TurnHistory::Absent)).await;
    }
    world.pass_ms(60_000);
    assert_eq!(world.claims().await, "m1");
    agree(&world, "m2", Some(Kept::Suspect), claim(9, world.now)).await;
    world.does(text("c", "m3")).await;
    agree(&world, "m3", None, claim(9, world.now)).await;
}

async fn agree<L: Ledger>(world: &World<L>, id: &str, kept: Option<Kept>, asked: Claim) {
    let asked = Claim {
        now: world.now,
        ..asked
    };
    let (message_id, question) = (message(id), asked.clone());
    let case = world
        .reads(move |rows| WhyRows::load(rows, &message_id, &question))
        .await
        .unwrap();
    assert_eq!(case.kept, kept, "{asked:?}");
    world.does(asked).await;
    let claimed = world.state(id).await == StateName::Claimed;
    assert_eq!(claimed, kept.is_none(), "{kept:?}");
}
