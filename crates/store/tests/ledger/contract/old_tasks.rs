//! Tasks of the older tool: taken over once, as finished ones that nobody can send again, and fetched once.

use crate::fixture::Fixture;
use crate::given::World;
use bridge_core::limits::IMPORTED_TASKS_MAX;
use bridge_core::step::{
    ImportTasks, Imported, Keep, NotifyBegin, NotifyEnd, NotifyStep, OldEvent, OldTask, Prune,
    Redrive, RedriveOutcome,
};
use bridge_core::task::{ControlStatus, TaskSnapshot};
use bridge_core::task_events::Timeline;
use bridge_core::value::{
    ChannelId, ConversationId, EventKind, MessageId, Subscription, SubscriptionState, TaskId,
    Timestamp, TurnId,
};

fn old(id: &str, status: &str) -> OldTask {
    OldTask {
        task_id: id.to_owned(),
        status: status.to_owned(),
        prompt_summary: Some("do it".to_owned()),
        thread: Some("thread".to_owned()),
        turn: Some("turn".to_owned()),
        cwd: Some("/project".to_owned()),
        model: Some("gpt".to_owned()),
        sandbox: Some("workspace-write".to_owned()),
        approval_policy: Some("untrusted".to_owned()),
        last_progress: Some("item/started: x".to_owned()),
        final_summary: Some("{\"turn\": {}}".to_owned()),
        error_summary: None,
        notify_target: None,
        notification_status: None,
        notified_at: None,
        notification_error: None,
        created_at: Timestamp(100),
        updated_at: Timestamp(300),
        completed_at: Some(Timestamp(200)),
        events: vec![OldEvent {
            source: "turn/started".to_owned(),
            status: Some("working".to_owned()),
            summary: "{}".to_owned(),
            at: Timestamp(150),
        }],
    }
}

fn import(mark: &str, tasks: Vec<OldTask>) -> ImportTasks {
    let ids = |task: OldTask| {
        let conversation = ConversationId::new(format!("c-{}", task.task_id));
        (conversation, message_of(&task.task_id), task)
    };
    ImportTasks {
        mark: ChannelId::new(mark),
        from: "codex_bridge.db".to_owned(),
        tasks: tasks.into_iter().map(ids).collect(),
    }
}

fn message_of(id: &str) -> MessageId {
    MessageId::new(format!("m-{id}"))
}

async fn snapshot<L: bridge_core::port::Ledger>(world: &World<L>, id: &str) -> TaskSnapshot {
    let id = TaskId::new(id);
    let found = world.reads(move |rows| TaskSnapshot::load(rows, &id));
    found.await.unwrap()
}

pub(super) async fn old_tasks_are_imported_as_finished<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let failed = OldTask {
        error_summary: Some("no quota".to_owned()),
        ..old("codex-f", "failed")
    };
    let tasks = vec![
        old("codex-c", "completed"),
        failed,
        old("codex-x", "cancelled"),
        old("codex-w", "waiting_for_approval"),
    ];
    let done = world.does(import("old", tasks)).await.outcome;
    assert_eq!(done, Imported::Now { taken: 4, known: 0 });
    for (id, status, why) in [
        ("codex-c", ControlStatus::Completed, None),
        ("codex-f", ControlStatus::Failed, Some("no quota")),
        ("codex-x", ControlStatus::Cancelled, Some("cancelled under")),
        (
            "codex-w",
            ControlStatus::Failed,
            Some("process that ran it is gone"),
        ),
    ] {
        let task = snapshot(&world, id).await;
        assert_eq!(task.state().control(), status, "{id}");
        assert!(task.settled(), "{id}");
        let said = task.now().why.unwrap_or_default();
        assert!(said.contains(why.unwrap_or_default()), "{id}: {said}");
        let answer = task.messages[0].answer.as_ref();
        assert_eq!(answer.is_some(), status == ControlStatus::Completed, "{id}");
    }
    let task = snapshot(&world, "codex-c").await;
    let start = task.task.start.as_ref().unwrap();
    assert_eq!(
        (start.terms.cwd.as_str(), start.prompt_summary.as_str()),
        ("/project", "do it")
    );
    assert_eq!(task.task.created_at, Timestamp(100));
    assert_eq!(
        task.messages[0].answer.as_ref().unwrap().created_at,
        Timestamp(200)
    );
    let id = task.task.conversation_id.clone();
    let conversation = world
        .reads(move |rows| rows.conversation(&id))
        .await
        .unwrap();
    assert_eq!(conversation.last_turn, Some(TurnId::new("turn")));
    let active = world.reads(|rows| rows.conversations(None, 9)).await;
    assert_eq!(active.len(), 4);
    for (conversation, at) in active {
        assert_eq!(at, Timestamp(200), "{}: its end", conversation.external_key);
    }
    let events = world
        .reads(|rows| rows.events(&message_of("codex-c"), 0, 10))
        .await;
    let lines: Vec<_> = events.iter().map(|it| OldEvent::read(&it.text)).collect();
    assert_eq!(lines[0], ("turn/started", Some("working"), "{}"));
    assert_eq!(lines[1].0, OldEvent::TAKEN_OVER);
    assert!(events.iter().all(|it| it.kind == EventKind::Imported));
}

pub(super) async fn old_tasks_are_imported_once<F: Fixture>() {
    let mut fixture = F::open();
    let world = World::over(fixture.ledger());
    world
        .does(import("a", vec![old("codex-1", "completed")]))
        .await;
    let again = world
        .does(import("a", vec![old("codex-2", "completed")]))
        .await;
    assert_eq!(again.outcome, Imported::Before);
    let other = vec![old("codex-1", "failed"), old("codex-3", "completed")];
    let other = world.does(import("b", other)).await.outcome;
    assert_eq!(other, Imported::Now { taken: 1, known: 1 });
    let first = snapshot(&world, "codex-1").await;
    assert_eq!(first.state().control(), ControlStatus::Completed);
    let many = (0..IMPORTED_TASKS_MAX + 3).map(|n| old(&format!("codex-m{n}"), "completed"));
    let many = world.does(import("c", many.collect())).await.outcome;
    let taken = IMPORTED_TASKS_MAX;
    assert_eq!(many, Imported::Now { taken, known: 0 });
    let oldest = TaskId::new("codex-m0");
    assert_eq!(world.reads(move |rows| rows.task(&oldest)).await, None);
    drop(world);
    fixture.reopen();
    let world = World::over(fixture.ledger());
    let newest = world.reads(|rows| rows.started_tasks(None, 1)).await;
    assert_eq!(
        newest[0].task_id,
        TaskId::new(format!("codex-m{}", taken + 2))
    );
}

/// All that is left of a prompt is its beginning.
pub(super) async fn old_failures_are_no_dead_letters<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world
        .does(import("a", vec![old("codex-1", "failed")]))
        .await;
    let redrive = Redrive {
        message_id: message_of("codex-1"),
        by: "ann".to_owned(),
        not_before: None,
    };
    let refused = world.does(redrive).await.outcome;
    assert_eq!(refused, RedriveOutcome::NotDead);
    let keep = Keep {
        done_ms: 1_000,
        dead_ms: 1_000,
        audit_ms: 1_000,
        redelivery_ms: 0,
    };
    let imported_at = world.now;
    let prune = |now| Prune { now, keep };
    let kept = world.does(prune(imported_at.plus_ms(900))).await.outcome;
    assert_eq!(kept, 0, "kept from the import on, however old it is");
    let gone = world.does(prune(imported_at.plus_ms(2_000))).await.outcome;
    assert_eq!(gone, 1);
    let id = TaskId::new("codex-1");
    assert_eq!(world.reads(move |rows| rows.task(&id)).await, None);
}

fn begin(id: &str, asked: bool) -> NotifyBegin {
    NotifyBegin {
        task_id: TaskId::new(id),
        subscription_id: Subscription::END.to_owned(),
        asked: asked.then(|| "ann".to_owned()),
    }
}

pub(super) async fn old_notifications_wait_until_asked_for<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let told = |id: &str, target: Option<&str>, status: Option<&str>| OldTask {
        notify_target: target.map(str::to_owned),
        notification_status: status.map(str::to_owned),
        notified_at: Some(Timestamp(250)),
        ..old(id, "completed")
    };
    let tasks = vec![
        told("codex-l", Some("local"), Some("pending")),
        told("codex-p", Some("feishu:chat"), Some("pending")),
        told("codex-s", Some("feishu:chat"), Some("sent")),
        told("codex-n", None, Some("no_target")),
        told("codex-o", None, None),
    ];
    world.does(import("a", tasks)).await;
    let of = |id: &'static str| {
        world.reads(move |rows| rows.subscription(&TaskId::new(id), Subscription::END))
    };
    let waiting = SubscriptionState::Waiting { not_before: None };
    assert_eq!(of("codex-l").await.unwrap().state, waiting);
    let unsent = of("codex-p").await.unwrap();
    assert!(matches!(unsent.state, SubscriptionState::Dead { .. }));
    assert!(unsent.error.unwrap().contains("notify_completed"));
    let at = Timestamp(250);
    let closed = SubscriptionState::Closed { at };
    assert_eq!(of("codex-s").await.unwrap().state, closed);
    assert_eq!(of("codex-n").await.unwrap().state, closed);
    assert_eq!(of("codex-o").await, None);
    for id in ["codex-l", "codex-p"] {
        let step = world.does(begin(id, false)).await.outcome;
        assert_eq!(step, NotifyStep::Nothing, "{id}: nobody asked");
        let step = world.does(begin(id, true)).await.outcome;
        assert!(matches!(step, NotifyStep::Send(_)), "{id}: {step:?}");
    }
}

/// A cron that polls learns each end exactly once; one that died half way learns it again.
pub(super) async fn local_end_is_fetched_once<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let task = OldTask {
        notify_target: Some("local".to_owned()),
        ..old("codex-l", "completed")
    };
    world.does(import("a", vec![task])).await;
    let due = world.reads(|rows| {
        let id = TaskId::new("codex-l");
        let one = rows.subscription(&id, Subscription::END)?;
        Ok(one.zip(Timeline::load(rows, &id)?))
    });
    let (one, timeline) = due.await.unwrap();
    assert!(!bridge_core::step::delivery_is_due(&one, &timeline));
    for _half_way in 0..2 {
        let step = world.does(begin("codex-l", true)).await.outcome;
        assert!(matches!(step, NotifyStep::Send(_)), "{step:?}");
    }
    let end = NotifyEnd {
        task_id: TaskId::new("codex-l"),
        subscription_id: Subscription::END.to_owned(),
        mark: Subscription::END.to_owned(),
        failure: None,
        jitter: 0,
    };
    let state = world.does(end).await.outcome.unwrap();
    assert!(state.is_closed());
    let again = world.does(begin("codex-l", true)).await.outcome;
    assert_eq!(again, NotifyStep::Nothing);
}
