//! Tasks: one row and one message together, told of once, gone with their messages.

use crate::fixture::Fixture;
use crate::given::{World, Write, answered, attach, begin, claim, failure, message, text};
use bridge_core::limits::REPLY_AGE_MAX_MS;
use bridge_core::port::{Change, Kept, LedgerError, RowsError};
use bridge_core::step::{
    Claim, ClaimOutcome, Keep, MidTurn, NotifyBegin, NotifyEnd, NotifyStep, Prune, StartTask,
    SteerStored, SteerTask, TaskStarted, Tell, TellOutcome,
};
use bridge_core::value::{
    ApprovalPolicy, AskedDigest, ChannelId, Class, ConversationId, ExternalId, ReadAccess, Sandbox,
    StateName, Subscription, SubscriptionState, Task, TaskId, TaskStart, TaskTerms, Tier,
    Timestamp,
};
use bridge_core::why::WhyRows;

pub(super) fn start(id: &str, target: Option<&str>) -> StartTask {
    let mut receive = text(id, id);
    receive.channel = ChannelId::new("task");
    StartTask {
        task: Task {
            task_id: TaskId::new(id),
            channel: receive.channel.clone(),
            conversation_id: receive.conversation_id.clone(),
            owner: "o'wner \"\\".to_owned(),
            sequence: 0,
            created_at: Timestamp(1),
            start: Some(TaskStart {
                prompt_summary: "do …".to_owned(),
                asked: AskedDigest::of([Some("do it")]),
                terms: TaskTerms {
                    cwd: "/work".to_owned(),
                    model: Some("m".to_owned()),
                    sandbox: Sandbox::WorkspaceWrite,
                    approval_policy: ApprovalPolicy::Untrusted,
                    codex_home: Some("/home".to_owned()),
                    reads: ReadAccess::Isolated,
                },
            }),
        },
        notify: target.map(str::to_owned),
        receive,
    }
}

pub(super) fn more(id: &str, text_id: &str) -> SteerTask {
    let mut receive = text(id, text_id);
    receive.channel = ChannelId::new("task");
    receive.mid_turn = MidTurn::Steer;
    SteerTask { receive }
}

fn tell(id: &str) -> Tell {
    Tell {
        message_id: message(id),
        text: "hurry".to_owned(),
        by: "ann".to_owned(),
        mark: "x".to_owned(),
    }
}

fn notify(id: &str) -> NotifyBegin {
    NotifyBegin {
        task_id: TaskId::new(id),
        subscription_id: Subscription::END.to_owned(),
        asked: None,
    }
}

async fn notification<L: bridge_core::port::Ledger>(world: &World<L>, id: &str) -> Subscription {
    let id = TaskId::new(id);
    let found = world.reads(move |rows| rows.subscription(&id, Subscription::END));
    found.await.unwrap()
}

fn ended(id: &str, class: Option<Class>) -> NotifyEnd {
    NotifyEnd {
        task_id: TaskId::new(id),
        subscription_id: Subscription::END.to_owned(),
        mark: Subscription::END.to_owned(),
        failure: class.map(failure),
        jitter: 1_000,
    }
}

/// Runs the message of a task to its answer.
async fn finish<L: bridge_core::port::Ledger>(world: &mut World<L>, id: &str) {
    let now = world.now;
    world.does(claim(16, now)).await;
    world.does(begin(id, Sandbox::ReadOnly)).await;
    world.does(attach(id)).await;
    world.does(answered(id, "done", None)).await;
}

pub(super) async fn a_task_and_its_message_are_on_disk_together<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let started = start("t1", Some("webhook:https://h"));
    let task = started.task.clone();
    let new = world.does(started).await.outcome;
    assert_eq!(new, TaskStarted::New(task.clone()));
    let again = StartTask {
        task: Task {
            task_id: TaskId::new("other"),
            ..task.clone()
        },
        ..start("t1", None)
    };
    assert_eq!(
        world.does(again).await.outcome,
        TaskStarted::Known(task.clone())
    );
    world.does(start("t2", None)).await;
    let listed = world.reads(|rows| rows.started_tasks(None, 10)).await;
    let ids: Vec<_> = listed.iter().map(|task| task.task_id.as_str()).collect();
    assert_eq!(ids, ["t2", "t1"]);
    let older = world.reads(|rows| rows.started_tasks(Some(&TaskId::new("t2")), 10));
    assert_eq!(older.await, std::slice::from_ref(&task));
    let unknown = world.reads(|rows| rows.started_tasks(Some(&TaskId::new("t9")), 10));
    assert!(unknown.await.is_empty());
    let found = world.reads(|rows| rows.task(&TaskId::new("t1"))).await;
    assert_eq!(found, Some(task.clone()));
    let id = task.conversation_id.clone();
    let found = world.reads(move |rows| rows.started_task(&id)).await;
    assert_eq!(found, Some(task.clone()));
    let twice = world.tries(Write(vec![Change::NewTask(task)])).await;
    let conflict =
        |error: &LedgerError| matches!(error, LedgerError::Rows(RowsError::Conflict { .. }));
    assert!(twice.is_err_and(|error| conflict(&error)));
}

pub(super) async fn a_task_is_told_more_until_it_is_over<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let unknown = world.does(more("t1", "m0")).await.outcome;
    assert_eq!(unknown, SteerStored::Over);
    world.does(start("t1", None)).await;
    let stored = |id: &str, running| SteerStored::Stored {
        message_id: message(id),
        running,
    };
    assert_eq!(
        world.does(more("t1", "m1")).await.outcome,
        stored("m1", false)
    );
    let idle = world.does(tell("t1")).await.outcome;
    assert_eq!(idle, TellOutcome::Idle(StateName::Received));
    let now = world.now;
    world.does(claim(16, now)).await;
    world.does(begin("t1", Sandbox::ReadOnly)).await;
    world.does(attach("t1")).await;
    assert_eq!(
        world.does(more("t1", "m2")).await.outcome,
        stored("m2", true)
    );
    let TellOutcome::Steer(steer) = world.does(tell("t1")).await.outcome else {
        panic!("a running turn can be told");
    };
    assert_eq!(
        (steer.text.as_str(), steer.client_id.as_str()),
        ("hurry", "t1.1.x")
    );
    let acts = world.reads(|rows| rows.audit_of(&message("t1"), 9)).await;
    assert_eq!(acts.len(), 1);
    let order = world
        .reads(|rows| rows.messages_before(&ConversationId::new("c-t1"), None, 2))
        .await;
    let order: Vec<_> = order.iter().map(|m| m.message_id.as_str()).collect();
    assert_eq!(order, ["m2", "m1"]);
    world.does(answered("t1", "one", None)).await;
    for id in ["m1", "m2"] {
        finish(&mut world, id).await;
    }
    assert_eq!(
        world.does(more("t1", "m3")).await.outcome,
        SteerStored::Over
    );
}

pub(super) async fn a_finished_task_is_told_of_once<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(start("t1", Some("webhook:https://h"))).await;
    world.does(start("t2", None)).await;
    let untold = world.reads(|rows| rows.subscriptions_open(None, 10)).await;
    assert_eq!(untold.len(), 1);
    assert_eq!(world.does(notify("t1")).await.outcome, NotifyStep::Nothing);
    for id in ["t1", "t2"] {
        finish(&mut world, id).await;
    }
    assert_eq!(world.does(notify("t2")).await.outcome, NotifyStep::Nothing);
    let NotifyStep::Send(sent) = world.does(notify("t1")).await.outcome else {
        panic!("it is over");
    };
    assert_eq!((sent.subscription.tries, sent.again), (1, false));
    // The daemon died here.
    let NotifyStep::Send(sent) = world.does(notify("t1")).await.outcome else {
        panic!("its outcome is not known");
    };
    assert!(sent.again);
    let state = world
        .does(ended("t1", Some(Class::Transient)))
        .await
        .outcome;
    let Some(SubscriptionState::Waiting {
        not_before: Some(at),
    }) = state
    else {
        panic!("it is tried again: {state:?}");
    };
    assert_eq!(
        world.does(notify("t1")).await.outcome,
        NotifyStep::Later(at)
    );
    world.now = at;
    world.does(notify("t1")).await;
    let sent = SubscriptionState::Closed { at: world.now };
    assert_eq!(world.does(ended("t1", None)).await.outcome, Some(sent));
    assert_eq!(world.does(ended("t1", None)).await.outcome, None);
    assert_eq!(world.does(notify("t1")).await.outcome, NotifyStep::Nothing);
    let told = notification(&world, "t1").await;
    assert_eq!((told.state, told.tries, told.error), (sent, 3, None));
    let untold = world.reads(|rows| rows.subscriptions_open(None, 10)).await;
    assert!(untold.is_empty());
}

pub(super) async fn a_notification_is_given_up_and_sent_again_when_asked_for<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(start("t1", Some("webhook:https://h"))).await;
    finish(&mut world, "t1").await;
    world.does(notify("t1")).await;
    world.now = world.now.plus_ms(REPLY_AGE_MAX_MS + 1);
    let failed = SubscriptionState::Dead { at: world.now };
    let state = world
        .does(ended("t1", Some(Class::Ambiguous)))
        .await
        .outcome;
    assert_eq!(state, Some(failed));
    assert_eq!(world.does(notify("t1")).await.outcome, NotifyStep::Nothing);
    let asked = NotifyBegin {
        asked: Some("ann".to_owned()),
        ..notify("t1")
    };
    let step = world.does(asked).await.outcome;
    assert!(matches!(step, NotifyStep::Send(_)));
    let state = world
        .does(ended("t1", Some(Class::Permanent)))
        .await
        .outcome;
    assert_eq!(state, Some(SubscriptionState::Dead { at: world.now }));
    let stray = Subscription {
        task_id: TaskId::new("t9"),
        ..notification(&world, "t1").await
    };
    let wrong = Write(vec![Change::PutSubscription(stray)]);
    assert!(world.tries(wrong).await.is_err());
}

pub(super) async fn a_task_goes_with_its_messages<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(start("t1", Some("webhook:https://h"))).await;
    finish(&mut world, "t1").await;
    let reply = world.sends("t1").await;
    world.confirms(&reply).await;
    world.now = world.now.plus_ms(10_000);
    let keep = Keep {
        done_ms: 1_000,
        dead_ms: 1_000,
        audit_ms: 1_000,
        redelivery_ms: 0,
    };
    let now = world.now;
    assert_eq!(world.does(Prune { now, keep }).await.outcome, 1);
    let task = world.reads(|rows| rows.task(&TaskId::new("t1"))).await;
    assert_eq!(task, None);
    let external = ExternalId::new("x-t1");
    let known =
        world.reads(move |rows| rows.message_by_external(&ChannelId::new("task"), &external));
    assert_eq!(known.await, None);
}

/// The tier of tasks only reads, as is the default; a task that was given more writes all the same.
pub(super) async fn tasks_that_write_in_one_directory_take_turns<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for (id, sandbox) in [
        ("t1", Sandbox::WorkspaceWrite),
        ("t2", Sandbox::WorkspaceWrite),
        ("t3", Sandbox::ReadOnly),
    ] {
        let mut start = start(id, None);
        start.receive.tier = Tier::Tool;
        start.task.start.as_mut().unwrap().terms.sandbox = sandbox;
        world.does(start).await;
    }
    let mut claimed = Vec::new();
    for _ in 0..3 {
        let one_writer = Claim {
            one_writer: vec!["/work".to_owned()],
            readers: vec![Tier::Tool],
            ..claim(9, world.now)
        };
        if let ClaimOutcome::Claimed { message, .. } = world.does(one_writer).await.outcome {
            claimed.push(message.message_id.to_string());
        }
    }
    assert_eq!(claimed, ["t1", "t3"]);
    let one_writer = Claim {
        one_writer: vec!["/work".to_owned()],
        readers: vec![Tier::Tool],
        ..claim(9, world.now)
    };
    let why = world.reads(move |rows| WhyRows::load(rows, &message("t2"), &one_writer));
    assert_eq!(why.await.unwrap().kept, Some(Kept::Writer));
}
