//! What one sender may store within a day, and what ends when a sender is stopped.

use super::a2a_tasks::first;
use super::tasks::{more, start};
use crate::fixture::Fixture;
use crate::given::{World, attach, begin, message, text};
use bridge_core::channels::id_in_session;
use bridge_core::limits::{
    BUDGET_WINDOW_MS, EXCERPT_MAX_CHARS, HOPS_DEFAULT, MESSAGE_ROW_BYTES, STOP_MAX, STORED_HOUR_MS,
};
use bridge_core::port::Ledger;
use bridge_core::requester::LOCAL_OWNER;
use bridge_core::step::{
    Action, AddLogin, AddToken, InputAccepted, Join, Keep, MidTurn, OpenSession, Prune, Receive,
    Received, RevokeToken, SenderStopped, SteerStored, StopCause, StopSender, TaskStarted,
};
use bridge_core::storage::{StorageBudget, StoredHour, hour_of};
use bridge_core::value::{
    Attachment, ChannelId, ExternalId, FileDigest, MessageState, Sandbox, SenderKind, StateName,
    Tier, Timestamp,
};

const BUDGET: u64 = 100_000;

/// A text of so many bytes, by somebody with a budget, in a conversation of its own.
fn large(id: &str, bytes: usize) -> Receive {
    let mut receive = Receive {
        tier: Tier::Peer,
        body: "x".repeat(bytes),
        ..text(id, id)
    };
    receive.extras.storage = StorageBudget {
        bytes_per_day: Some(BUDGET),
        refusable: true,
        beside: 0,
    };
    receive
}

async fn stored<L: Ledger>(world: &World<L>) -> Vec<StoredHour> {
    let local = ChannelId::new("local");
    world.reads(move |rows| rows.stored(&local, "ann")).await
}

fn file(bytes: u64) -> Attachment {
    Attachment {
        name: "a.bin".to_owned(),
        media_type: "application/octet-stream".to_owned(),
        digest: FileDigest::new([7; 32]),
        bytes,
    }
}

pub(super) async fn f4_bytes_of_a_day_are_bounded<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.now = Timestamp(200 * STORED_HOUR_MS);
    let mut kept = Vec::new();
    for n in 0..120 {
        let id = format!("m{n:03}");
        match world.does(large(&id, 9_000)).await.outcome {
            Received::New(_) => kept.push(id),
            Received::OverBudget(over) => assert_eq!(over.bytes_per_day, BUDGET),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kept.len(), 9, "of {BUDGET} bytes");
    let hour = StoredHour {
        hour: hour_of(world.now),
        bytes: 9 * (9_000 + MESSAGE_ROW_BYTES),
    };
    assert_eq!(stored(&world).await, [hour]);
    let left = world.reads(|rows| rows.message(&message("m009"))).await;
    assert_eq!(left, None, "nothing is stored of what is refused");
    // A repeat of what is there is known, however little room there is.
    let again = world.does(large("m000", 9_000)).await.outcome;
    assert_eq!(again, Received::Duplicate(message("m000")));
    // Files and what is stored beside the text count as well, and others are not affected.
    let mut with_file = large("f1", 10);
    with_file.sender = "bob".to_owned();
    with_file.extras.attachments = vec![file(BUDGET)];
    let refused = world.does(with_file.clone()).await.outcome;
    assert!(matches!(refused, Received::OverBudget(over) if over.until.is_none()));
    with_file.extras.attachments = vec![file(10_000)];
    world.does(with_file).await;
    // A day later there is room again, at the time that was told.
    let Received::OverBudget(over) = world.does(large("n1", 9_000)).await.outcome else {
        panic!("it is over its budget");
    };
    let until = over.until.unwrap();
    assert_eq!(
        until,
        hour_of(world.now).plus_ms(STORED_HOUR_MS + BUDGET_WINDOW_MS)
    );
    world.now = until.plus_ms(-1);
    let early = world.does(large("n1", 9_000)).await.outcome;
    assert!(matches!(early, Received::OverBudget(_)), "{early:?}");
    world.now = until;
    let taken = world.does(large("n1", 9_000)).await.outcome;
    assert_eq!(taken, Received::New(message("n1")));
    let keep = Keep {
        done_ms: 1,
        dead_ms: 1,
        audit_ms: 1,
        redelivery_ms: 1,
    };
    let now = world.now;
    world.does(Prune { now, keep }).await;
    assert_eq!(stored(&world).await.len(), 1, "old hours are forgotten");
}

pub(super) async fn f4_nothing_is_counted_without_a_budget<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let mut free = large("m1", 200_000);
    free.extras.storage = StorageBudget::default();
    assert_eq!(world.does(free).await.outcome, Received::New(message("m1")));
    assert_eq!(stored(&world).await, []);
}

/// A row of a feed can't be refused: its source would show it for ever.
pub(super) async fn f4_a_feed_keeps_an_excerpt<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for (id, told) in [("m1", 1), ("m2", 0)] {
        let mut row = large(id, 200_000);
        row.kind = SenderKind::Agent;
        row.extras.storage.refusable = false;
        row.extras.attachments = vec![file(7)];
        assert_eq!(world.does(row).await.outcome, Received::New(message(id)));
        let kept = world.message(id).await;
        assert!(
            kept.body.len() < EXCERPT_MAX_CHARS + 200,
            "{}",
            kept.body.len()
        );
        assert!(kept.attachments.is_empty());
        let MessageState::Dead { reason } = &kept.life.state else {
            panic!("{:?}", kept.life.state);
        };
        assert!(reason.contains("bytes_per_day"), "{reason}");
        let of = message(id);
        let replies = world.reads(move |rows| rows.replies(&of)).await;
        assert_eq!(replies.len(), told, "{id}");
    }
}

pub(super) async fn f4_a_refused_message_is_kept_as_excerpt<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let mut take = first("c", "m1", "ann");
    take.receive.kind = SenderKind::Agent;
    take.receive.extras.hops = HOPS_DEFAULT;
    take.receive.body = "ö".repeat(20_000);
    take.original = "o".repeat(50_000);
    take.brief = "brief".to_owned();
    let taken = world.does(take).await.outcome;
    assert!(matches!(taken, InputAccepted::New { .. }), "{taken:?}");
    let kept = world.message("m1").await;
    assert_eq!(kept.life.state.name(), StateName::Dead);
    assert!(kept.body.starts_with("öö") && kept.body.contains("500 of 20000 characters"));
    assert!(kept.body.chars().count() < 2 * EXCERPT_MAX_CHARS);
    let words = world
        .reads(|rows| match rows.task_of_message(&message("m1"))? {
            Some(task_id) => rows.task_inputs(&task_id),
            None => Ok(Vec::new()),
        })
        .await;
    assert_eq!(words[0].original, "brief");
}

/// Its files were stored before it was refused.
pub(super) async fn f4_files_of_refused_messages_count<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let mut row = large("m1", 10);
    row.kind = SenderKind::Agent;
    row.extras.hops = HOPS_DEFAULT;
    row.extras.attachments = vec![file(70_000)];
    world.does(row).await;
    assert_eq!(world.message("m1").await.attachments, []);
    let counted = stored(&world).await[0].bytes;
    assert_eq!(counted, 70_000 + 10 + MESSAGE_ROW_BYTES);
    let mut again = large("m2", 10);
    again.kind = SenderKind::Agent;
    again.extras.hops = HOPS_DEFAULT;
    again.extras.attachments = vec![file(70_000)];
    let refused = world.does(again).await.outcome;
    assert!(matches!(refused, Received::OverBudget(_)), "{refused:?}");
}

fn stop(cause: StopCause) -> StopSender {
    StopSender {
        sender: "mallory".to_owned(),
        session: None,
        channels: vec![ChannelId::new("local")],
        by: bridge_core::value::Actor::named("owner"),
        cause,
        after: None,
    }
}

/// A sender with a turn that runs and heard a second text, one that is claimed, others that wait, and a namesake elsewhere.
async fn busy<L: Ledger>(world: &mut World<L>) {
    let by = |key: &str, id: &str| Receive {
        sender: "mallory".to_owned(),
        mid_turn: MidTurn::Steer,
        ..text(key, id)
    };
    world.does(by("a", "m1")).await;
    world.claims().await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.does(by("a", "m2")).await;
    let message_id = message("m2");
    world.does(Join { message_id }).await;
    assert_eq!(world.state("m2").await, StateName::Steered);
    for id in ["m3", "m4", "m5"] {
        world.does(by(id, id)).await;
        world.pass_ms(1);
    }
    assert_eq!(world.claims().await, "m3");
    let mut elsewhere = by("b", "n1");
    elsewhere.channel = ChannelId::new("molecule");
    world.does(elsewhere).await;
    world.does(text("o", "o1")).await;
}

async fn states<L: Ledger>(world: &World<L>, ids: &[&str]) -> Vec<StateName> {
    let mut states = Vec::new();
    for id in ids {
        states.push(world.state(id).await);
    }
    states
}

async fn acts<L: Ledger>(world: &World<L>) -> Vec<String> {
    let acts = world.reads(|rows| rows.audit(9)).await;
    acts.into_iter()
        .map(|act| format!("{} {} {}: {}", act.actor, act.what, act.subject, act.detail))
        .collect()
}

pub(super) async fn f4_revoking_cancels_what_has_not_begun<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    busy(&mut world).await;
    let stopped = world.does(stop(StopCause::Revoked)).await;
    let expected = SenderStopped {
        cancelled: 2,
        running: ["m1", "m2", "m3"].map(message).to_vec(),
        joined: Vec::new(),
        next: None,
    };
    assert_eq!(stopped.outcome, expected);
    let interrupts = |action: &Action| matches!(action, Action::Interrupt { .. });
    assert!(!stopped.actions.iter().any(interrupts));
    use StateName::{Cancelled, Claimed, Received as Waits, Running, Steered};
    let all = ["m1", "m2", "m3", "m4", "m5", "n1", "o1"];
    let now = [
        Running, Steered, Claimed, Cancelled, Cancelled, Waits, Waits,
    ];
    assert_eq!(states(&world, &all).await, now);
    let entry = "owner stop-sender sender mallory: 2 cancelled, 3 go on";
    assert_eq!(acts(&world).await, [entry]);
    let reason = world.message("m4").await.life.state;
    let MessageState::Cancelled { reason } = reason else {
        panic!("{reason:?}");
    };
    assert!(reason.contains("revoked"), "{reason}");
    // Once more does nothing but say so.
    let again = world.does(stop(StopCause::Revoked)).await.outcome;
    assert_eq!((again.cancelled, again.running.len()), (0, 3));
}

/// A message may be on its way while its sender's token is revoked, and everything of it is cancelled.
pub(super) async fn f4_a_revoked_token_takes_nothing_in<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let add = AddToken {
        name: "ann".to_owned(),
        hash: "00".repeat(32),
        scopes: vec!["send".to_owned(), "a2a".to_owned()],
        rotate: true,
        by: "owner".to_owned(),
    };
    world.does(add.clone()).await;
    world.does(text("c", "m1")).await;
    world.does(start("t1", None)).await;
    world
        .does(RevokeToken {
            name: "ann".to_owned(),
            by: "owner".to_owned(),
        })
        .await;
    let late = world.does(text("c", "m2")).await.outcome;
    assert_eq!(late, Received::Revoked);
    let known = world.does(text("c", "m1")).await.outcome;
    assert_eq!(known, Received::Duplicate(message("m1")));
    let task = world.does(first("e", "m3", "ann")).await.outcome;
    assert_eq!(task, InputAccepted::Revoked);
    let task = world.does(start("t2", None)).await.outcome;
    assert_eq!(task, TaskStarted::Revoked);
    let steered = world.does(more("t1", "t3")).await.outcome;
    assert_eq!(steered, SteerStored::Revoked);
    // A namesake of a platform is somebody else, and another token of this name is good.
    let elsewhere = Receive {
        channel: ChannelId::new("molecule:w"),
        ..text("w", "m4")
    };
    assert_eq!(
        world.does(elsewhere).await.outcome,
        Received::New(message("m4"))
    );
    world.does(add).await;
    let taken = world.does(text("c", "m5")).await.outcome;
    assert_eq!(taken, Received::New(message("m5")));
}

pub(super) async fn f4_stopping_a_sender_ends_everything<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    busy(&mut world).await;
    let stopped = world.does(stop(StopCause::Operator)).await;
    assert_eq!(stopped.outcome.cancelled, 2);
    assert_eq!(stopped.outcome.running, ["m1", "m2", "m3"].map(message));
    let interrupted = stopped.actions.iter().filter_map(|action| match action {
        Action::Interrupt { message_id } => Some(message_id.clone()),
        _ => None,
    });
    assert_eq!(interrupted.collect::<Vec<_>>(), ["m1", "m3"].map(message));
    for id in ["m1", "m2", "m3"] {
        assert!(world.message(id).await.life.stop.is_some(), "{id}");
    }
    assert_eq!(
        states(&world, &["n1", "o1"]).await,
        [StateName::Received, StateName::Received]
    );
    let mut everywhere = stop(StopCause::Operator);
    everywhere.channels.clear();
    assert_eq!(world.does(everywhere).await.outcome.cancelled, 1);
    assert_eq!(world.state("n1").await, StateName::Cancelled);
}

/// What it sent is the owner's, and the rest of the owner's goes on.
pub(super) async fn f4_a_revoked_admin_session_takes_nothing_in<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let login = AddLogin {
        name: "console-1".to_owned(),
        hash: "c1".to_owned(),
        scopes: vec!["admin".to_owned()],
        label: "browser".to_owned(),
        by: LOCAL_OWNER.to_owned(),
    };
    world.does(login).await;
    let (code, hash) = ("c1".to_owned(), "h1".to_owned());
    world.does(OpenSession { code, hash }).await;
    let owners = |id: &str, session: Option<&str>| Receive {
        sender: LOCAL_OWNER.to_owned(),
        external_id: ExternalId::new(id_in_session(session, id.to_owned())),
        ..text(&format!("k-{id}"), id)
    };
    world.does(owners("m1", Some("console-1"))).await;
    world.does(owners("m2", Some("console-2"))).await;
    world.does(owners("m3", None)).await;
    let revoke = RevokeToken {
        name: "console-1".to_owned(),
        by: LOCAL_OWNER.to_owned(),
    };
    assert!(world.does(revoke).await.outcome);
    let late = world.does(owners("m4", Some("console-1"))).await.outcome;
    assert_eq!(late, Received::Revoked);
    let stop = StopSender {
        sender: LOCAL_OWNER.to_owned(),
        session: Some("console-1".to_owned()),
        ..stop(StopCause::Revoked)
    };
    let stopped = world.does(stop).await.outcome;
    assert_eq!((stopped.cancelled, stopped.running.len()), (1, 0));
    assert_eq!(
        states(&world, &["m1", "m2", "m3"]).await,
        [
            StateName::Cancelled,
            StateName::Received,
            StateName::Received
        ]
    );
    let acts = world.reads(|rows| rows.audit(1)).await;
    assert_eq!(acts[0].subject, "sender console-1");
}

/// What the turn of somebody else was given goes on there, and is not said to be interrupted.
pub(super) async fn f4_a_joined_message_is_told_apart<F: Fixture>() {
    for cause in [StopCause::Operator, StopCause::Revoked] {
        let fixture = F::open();
        let world = World::over(fixture.ledger());
        world.does(text("a", "m1")).await;
        world.claims().await;
        world.does(begin("m1", Sandbox::ReadOnly)).await;
        world.does(attach("m1")).await;
        let joins = Receive {
            sender: "mallory".to_owned(),
            mid_turn: MidTurn::Steer,
            ..text("a", "m2")
        };
        world.does(joins).await;
        let message_id = message("m2");
        world.does(Join { message_id }).await;
        let stopped = world.does(stop(cause)).await;
        let expected = SenderStopped {
            joined: vec![message("m2")],
            ..SenderStopped::default()
        };
        assert_eq!(stopped.outcome, expected);
        let interrupts = |action: &Action| matches!(action, Action::Interrupt { .. });
        assert!(!stopped.actions.iter().any(interrupts));
        assert_eq!(world.state("m1").await, StateName::Running);
        let told = acts(&world).await;
        match cause {
            StopCause::Operator => assert_eq!(
                told,
                [
                    "owner stop-sender sender mallory: 0 cancelled, 0 interrupted, 1 in turns of others, which go on"
                ]
            ),
            StopCause::Revoked => assert_eq!(told.len(), 0),
        }
    }
}

pub(super) async fn f4_a_sender_is_stopped_in_batches<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for n in 0..=STOP_MAX {
        let receive = Receive {
            sender: "mallory".to_owned(),
            ..text(&format!("k{n}"), &format!("m{n:03}"))
        };
        world.does(receive).await;
    }
    let one = world.does(stop(StopCause::Operator)).await.outcome;
    assert_eq!(
        (one.cancelled, &one.next),
        (STOP_MAX, &Some(message("m099")))
    );
    let two = StopSender {
        after: one.next,
        ..stop(StopCause::Operator)
    };
    let two = world.does(two).await.outcome;
    assert_eq!((two.cancelled, two.next), (1, None));
    assert_eq!(acts(&world).await.len(), 2);
    let backlog = world.reads(|rows| rows.counts()).await;
    let cancelled = backlog.iter().find(|one| one.state == StateName::Cancelled);
    assert_eq!(
        cancelled.map(|one| one.count),
        Some(u64::from(STOP_MAX) + 1)
    );
}
