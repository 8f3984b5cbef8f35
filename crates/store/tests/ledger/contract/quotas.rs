//! Limits of accounts: reports are kept by their source, what is kept for people is taken by nobody else, and who waits
//! goes on as soon as there is room.

use super::tasks::start;
use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, claim, message, text};
use bridge_core::budget::{Budgets, QuotaRules};
use bridge_core::limits::QUOTA_WINDOW_MAX_MS;
use bridge_core::port::{Kept, Ledger, QueuePosition};
use bridge_core::step::{
    Claim, ClaimOutcome, FreeHeld, Keep, NoteQuota, Prune, QuotaNoted, Receive,
};
use bridge_core::value::{
    ChannelId, QuotaReport, QuotaWindow, ReplyKind, Sandbox, SenderKind, Tier, Timestamp,
};
use bridge_core::why::WhyRows;
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

fn rules() -> QuotaRules {
    QuotaRules {
        reserve_percent: 10,
        slow_percent: 70,
        account: None,
    }
}

fn claims(now: Timestamp) -> Claim {
    Claim {
        budgets: Arc::new(Budgets {
            quota: rules(),
            ..Budgets::default()
        }),
        ..claim(99, now)
    }
}

fn used(percent: u32, resets_at: Timestamp) -> QuotaReport {
    QuotaReport {
        primary: Some(QuotaWindow {
            used_percent: percent,
            minutes: Some(300),
            resets_at: Some(resets_at),
        }),
        ..QuotaReport::default()
    }
}

fn note(codex_home: Option<&str>, report: QuotaReport) -> NoteQuota {
    NoteQuota {
        codex_home: codex_home.map(str::to_owned),
        report,
        rules: rules(),
    }
}

/// A text of an agent in a conversation of its own.
fn agent(id: &str) -> Receive {
    Receive {
        kind: SenderKind::Agent,
        tier: Tier::Peer,
        channel: ChannelId::new("a2a"),
        sender: "bob".to_owned(),
        ..text(id, id)
    }
}

/// What is claimed until nothing is, and when the scheduler looks again.
async fn taken<L: Ledger>(world: &World<L>) -> (Vec<String>, Option<Timestamp>) {
    let mut ids = Vec::new();
    loop {
        match world.does(claims(world.now)).await.outcome {
            ClaimOutcome::Claimed { message, .. } => ids.push(message.message_id.to_string()),
            ClaimOutcome::Held | ClaimOutcome::Buried => {}
            ClaimOutcome::Idle { next_due } | ClaimOutcome::Full { next_due } => {
                return (ids, next_due);
            }
        }
    }
}

async fn ends<L: Ledger>(world: &World<L>, id: &str) {
    world.does(begin(id, Sandbox::ReadOnly)).await;
    world.does(attach(id)).await;
    world.does(answered(id, "yes", None)).await;
}

pub(super) async fn reports_are_kept_by_node_and_home<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let resets_at = world.now.plus_ms(HOUR_MS);
    let full = QuotaReport {
        account: Some("team".to_owned()),
        secondary: Some(QuotaWindow {
            used_percent: 71,
            minutes: None,
            resets_at: None,
        }),
        has_credits: true,
        refused_until: Some(resets_at),
        ..used(80, resets_at)
    };
    for (home, report, expected) in [
        (None, QuotaReport::default(), QuotaNoted::Known),
        (None, full.clone(), QuotaNoted::Noted { opens: false }),
        (None, full.clone(), QuotaNoted::Known),
        (
            Some("/home/b"),
            used(3, resets_at),
            QuotaNoted::Noted { opens: false },
        ),
        (
            Some("/home/b"),
            used(4, resets_at),
            QuotaNoted::Noted { opens: false },
        ),
    ] {
        let noted = world.does(note(home, report)).await.outcome;
        assert_eq!(noted, expected);
    }
    let kept = world.reads(|rows| rows.quotas()).await;
    let homes: Vec<_> = kept.iter().map(|it| it.source.codex_home.clone()).collect();
    assert_eq!(homes, [None, Some("/home/b".to_owned())]);
    assert_eq!(kept[0].report, full);
    assert_eq!(kept[0].primary_slowed.unwrap().used_percent, 80);
    assert_eq!(kept[0].secondary_slowed.unwrap().at, world.now);
    assert_eq!(kept[1].report, used(4, resets_at));
    world.pass_ms(QUOTA_WINDOW_MAX_MS + 1);
    let prune = Prune {
        now: world.now,
        keep: Keep {
            done_ms: 1,
            dead_ms: 1,
            audit_ms: 1,
            redelivery_ms: 1,
        },
    };
    world.does(prune).await;
    assert!(world.reads(|rows| rows.quotas()).await.is_empty());
}

pub(super) async fn what_is_kept_for_people_is_left_to_them<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let resets_at = world.now.plus_ms(HOUR_MS);
    world.does(note(None, used(93, resets_at))).await;
    for receive in [agent("a1"), agent("a2"), text("p1", "p1")] {
        world.does(receive).await;
        world.pass_ms(1);
    }
    assert_eq!(
        taken(&world).await,
        (vec!["p1".to_owned()], Some(resets_at))
    );
    let held = world.message("a1").await;
    let hold = held.life.state.hold().unwrap();
    assert_eq!(
        (hold.until, held.life.attempt, held.life.spent),
        (resets_at, 0, 0)
    );
    let reason = &hold.failure.reason;
    assert!(
        reason.contains("7 % of the account's 5-hour limit"),
        "{reason}"
    );
    let told = world.reads(|rows| rows.replies(&message("a1"))).await;
    assert_eq!((told.len(), told[0].kind), (1, ReplyKind::Notice));
    // Used up: people wait too, and go first when there is room again.
    world.does(note(None, used(100, resets_at))).await;
    world.does(text("p2", "p2")).await;
    assert_eq!(taken(&world).await, (Vec::new(), Some(resets_at)));
    world.now = resets_at;
    let (ids, _) = taken(&world).await;
    assert_eq!(ids, ["p2", "a1", "a2"]);
}

pub(super) async fn slowed_agents_take_turns_one_at_a_time<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let resets_at = world.now.plus_ms(20 * HOUR_MS);
    for id in ["a1", "a2", "a3"] {
        world.does(agent(id)).await;
        world.pass_ms(1);
    }
    let since = world.now;
    world.does(note(None, used(70, resets_at))).await;
    assert_eq!(taken(&world).await, (vec!["a1".to_owned()], None));
    let question = claims(world.now);
    let why = world.reads(move |rows| WhyRows::load(rows, &message("a2"), &question));
    let why = why.await.unwrap();
    assert_eq!(why.kept, Some(Kept::Quota));
    let position = QueuePosition {
        ahead: 0,
        waiting: 2,
    };
    assert_eq!(why.position, Some(position));
    // One percent of twenty in as many hours: the next one has an hour to wait, and people have not.
    world.does(note(None, used(71, resets_at))).await;
    ends(&world, "a1").await;
    let (ids, due) = taken(&world).await;
    assert!(ids.is_empty());
    let due = due.unwrap();
    let hour = resets_at.since_ms(since) / 20;
    assert_eq!(due, since.plus_ms(hour));
    world.does(text("p1", "p1")).await;
    assert_eq!(taken(&world).await.0, ["p1"]);
    world.now = due;
    assert_eq!(taken(&world).await.0, ["a2"]);
}

pub(super) async fn room_before_its_time_lets_go_of_who_waits<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let resets_at = world.now.plus_ms(HOUR_MS);
    world.does(note(None, used(100, resets_at))).await;
    world.does(agent("a1")).await;
    world.does(text("p1", "p1")).await;
    assert!(taken(&world).await.0.is_empty());
    let free = || FreeHeld {
        rules: rules(),
        owners: Vec::new(),
    };
    assert!(!world.does(free()).await.outcome);
    assert!(world.message("p1").await.life.state.hold().is_some());
    let noted = world.does(note(None, used(95, resets_at))).await.outcome;
    assert_eq!(noted, QuotaNoted::Noted { opens: true });
    world.does(free()).await;
    assert_eq!(taken(&world).await.0, ["p1"]);
    let noted = world.does(note(None, used(5, resets_at))).await.outcome;
    assert_eq!(noted, QuotaNoted::Noted { opens: true });
    world.does(free()).await;
    assert_eq!(taken(&world).await.0, ["a1"]);
    let told = world.reads(|rows| rows.replies(&message("a1"))).await;
    assert_eq!(told.len(), 1, "told once");
}

pub(super) async fn each_home_waits_for_its_own_account<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let resets_at = world.now.plus_ms(HOUR_MS);
    for (id, home) in [("t1", None), ("t2", Some("/home/b"))] {
        let mut task = start(id, None);
        task.receive.tier = Tier::Tool;
        task.receive.sender = "ci".to_owned();
        let start = task.task.start.as_mut().unwrap();
        start.terms.codex_home = home.map(str::to_owned);
        world.does(task).await;
    }
    for percent in [75, 95] {
        world.does(note(None, used(percent, resets_at))).await;
        let before = world.now.plus_ms(HOUR_MS / 2);
        world.does(note(Some("/home/c"), used(100, before))).await;
    }
    assert_eq!(taken(&world).await.0, ["t2"]);
    ends(&world, "t2").await;
    assert!(world.message("t1").await.life.state.hold().is_some());
}
