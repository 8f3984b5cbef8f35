//! Where owners of tasks want to be told: kept for them alone, told in order over restarts, given up after a day.

use super::a2a_tasks::{answers, first};
use crate::fixture::Fixture;
use crate::given::{World, Write, failure, message};
use bridge_core::limits::{PUSHES_PER_OWNER_MAX, PUSHES_PER_TASK_MAX, REPLY_AGE_MAX_MS};
use bridge_core::port::{Change, Ledger};
use bridge_core::step::{
    AddToken, DropPush, EventDelivery, NotifyBegin, NotifyEnd, NotifyStep, PushStored, PutPush,
    RevokeToken,
};
use bridge_core::value::{
    Class, PushTarget, Subscription, SubscriptionState, SubscriptionTarget, TaskId, Timestamp,
};

fn push(task_id: &str, config_id: &str) -> Subscription {
    Subscription {
        task_id: TaskId::new(task_id),
        subscription_id: config_id.to_owned(),
        target: SubscriptionTarget::Push(target()),
        state: SubscriptionState::Waiting { not_before: None },
        mark: None,
        tries: 0,
        first_try_at: None,
        error: None,
        created_at: Timestamp(7),
    }
}

fn target() -> PushTarget {
    PushTarget {
        url: "https://hooks.example.com/o'r \"?key=1".to_owned(),
        token: Some("t'oken".to_owned()),
        authorization: Some(("Bearer".to_owned(), "c\"redentials".to_owned())),
        unreadable: false,
        version: "1.0".to_owned(),
    }
}

fn put(task_id: &str, config_id: &str) -> PutPush {
    PutPush {
        subscription: push(task_id, config_id),
        by: "ann".to_owned(),
    }
}

async fn kept<L: Ledger>(world: &World<L>, task_id: &str, config_id: &str) -> Option<Subscription> {
    let (task_id, config_id) = (TaskId::new(task_id), config_id.to_owned());
    world
        .reads(move |rows| rows.subscription(&task_id, &config_id))
        .await
}

async fn open<L: Ledger>(world: &World<L>, after: Option<(&str, &str)>, limit: u32) -> Vec<String> {
    let after = after.map(|(id, config)| (TaskId::new(id), config.to_owned()));
    let found = world.reads(move |rows| {
        let after = after.as_ref().map(|(id, config)| (id, config.as_str()));
        rows.subscriptions_open(after, limit)
    });
    let name = |it: Subscription| format!("{}/{}", it.task_id, it.subscription_id);
    found.await.into_iter().map(name).collect()
}

fn begin(config_id: &str) -> NotifyBegin {
    NotifyBegin {
        task_id: TaskId::new("e-m1"),
        subscription_id: config_id.to_owned(),
        asked: None,
    }
}

async fn telling<L: Ledger>(world: &World<L>) -> EventDelivery {
    match world.does(begin("p")).await.outcome {
        NotifyStep::Send(telling) => *telling,
        other => panic!("{other:?}"),
    }
}

fn end(telling: &EventDelivery, class: Option<Class>) -> NotifyEnd {
    NotifyEnd {
        task_id: telling.subscription.task_id.clone(),
        subscription_id: telling.subscription.subscription_id.clone(),
        mark: telling.task_event.mark.clone(),
        failure: class.map(failure),
        jitter: 1_000,
    }
}

pub(super) async fn a_push_configuration_comes_back_as_it_was_put<F: Fixture>() {
    let mut fixture = F::open();
    let world = World::over(fixture.ledger());
    let unknown = world.does(put("e-m1", "p")).await.outcome;
    assert_eq!(unknown, PushStored::Unknown);
    world.does(first("c", "m1", "ann")).await;
    world.does(first("d", "m2", "bob")).await;
    let strangers = world.does(put("e-m2", "p")).await.outcome;
    assert_eq!(strangers, PushStored::Unknown);
    for config_id in ["q", "p", ""] {
        let stored = world.does(put("e-m1", config_id)).await.outcome;
        assert_eq!(stored, PushStored::Stored);
    }
    fixture.reopen();
    let world = World::over(fixture.ledger());
    assert_eq!(kept(&world, "e-m1", "p").await, Some(push("e-m1", "p")));
    let id = TaskId::new("e-m1");
    let of = world.reads(move |rows| rows.subscriptions_of(&id)).await;
    assert_eq!(of, ["", "p", "q"].map(|config| push("e-m1", config)));
    assert_eq!(open(&world, None, 2).await, ["e-m1/", "e-m1/p"]);
    assert_eq!(open(&world, Some(("e-m1", "p")), 9).await, ["e-m1/q"]);
    let other = Subscription {
        target: SubscriptionTarget::Push(PushTarget {
            token: None,
            authorization: None,
            ..target()
        }),
        state: SubscriptionState::Dead { at: Timestamp(9) },
        mark: Some("m1/working".to_owned()),
        tries: 3,
        first_try_at: Some(Timestamp(8)),
        error: Some("away".to_owned()),
        ..push("e-m1", "p")
    };
    world
        .does(Write(vec![Change::PutSubscription(other.clone())]))
        .await;
    assert_eq!(kept(&world, "e-m1", "p").await, Some(other.clone()));
    assert_eq!(open(&world, None, 9).await, ["e-m1/", "e-m1/q"]);
    world.does(put("e-m1", "p")).await;
    let again = kept(&world, "e-m1", "p").await.unwrap();
    assert_eq!((again.mark, again.tries), (other.mark, 0));
    let dropped = |by: &str| DropPush {
        task_id: TaskId::new("e-m1"),
        subscription_id: "p".to_owned(),
        by: by.to_owned(),
    };
    assert!(!world.does(dropped("bob")).await.outcome);
    assert!(kept(&world, "e-m1", "p").await.is_some());
    for _ in 0..2 {
        assert!(world.does(dropped("ann")).await.outcome);
    }
    assert_eq!(kept(&world, "e-m1", "p").await, None);
    let orphan = Write(vec![Change::PutSubscription(push("e-none", "p"))]);
    assert!(world.tries(orphan).await.is_err());
}

pub(super) async fn everything_is_told_in_order_and_then_it_is_closed<F: Fixture>() {
    let mut fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    world.does(put("e-m1", "p")).await;
    let told = telling(&world).await;
    assert_eq!(
        (told.task_event.mark.as_str(), told.subscription.tries),
        ("m1/submitted", 1)
    );
    // The daemon dies: nobody knows whether it was taken.
    fixture.reopen();
    world = World::over(fixture.ledger());
    let told = telling(&world).await;
    assert_eq!(
        (told.task_event.mark.as_str(), told.subscription.tries),
        ("m1/submitted", 2)
    );
    world.does(end(&told, None)).await;
    assert_eq!(world.does(begin("p")).await.outcome, NotifyStep::Nothing);
    answers(&mut world, "m1", "42").await;
    for mark in ["m1/working", "m1/answer", "m1/completed"] {
        let told = telling(&world).await;
        assert_eq!(
            (told.task_event.mark.as_str(), told.subscription.tries),
            (mark, 1)
        );
        world.does(end(&told, None)).await;
    }
    let closed = kept(&world, "e-m1", "p").await.unwrap();
    assert!(closed.state.is_closed());
    assert_eq!(world.does(begin("p")).await.outcome, NotifyStep::Nothing);
    assert!(open(&world, None, 9).await.is_empty());
    let late = world.does(end(&told, None)).await;
    assert_eq!(late.outcome, None, "nothing was under way");
    assert_eq!(world.does(begin("q")).await.outcome, NotifyStep::Nothing);
}

pub(super) async fn a_receiver_that_is_away_is_tried_later_and_given_up_in_a_day<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    world.does(put("e-m1", "p")).await;
    let told = telling(&world).await;
    world.does(end(&told, Some(Class::Transient))).await;
    let later = world.does(begin("p")).await.outcome;
    assert_eq!(later, NotifyStep::Later(world.now.plus_ms(1_000)));
    world.pass_ms(REPLY_AGE_MAX_MS);
    let told = telling(&world).await;
    world.does(end(&told, Some(Class::Transient))).await;
    world.pass_ms(REPLY_AGE_MAX_MS);
    let told = telling(&world).await;
    assert_eq!(told.subscription.tries, 3);
    let dead = world.does(end(&told, Some(Class::Transient))).await.outcome;
    assert_eq!(dead, Some(SubscriptionState::Dead { at: world.now }));
    assert_eq!(world.does(begin("p")).await.outcome, NotifyStep::Nothing);
    let events = world.reads(|rows| rows.events(&message("m1"), 0, 9)).await;
    assert_eq!(events.len(), 1);
    assert!(
        events[0].text.contains("given up after 3 tries"),
        "{events:?}"
    );
    world.does(put("e-m1", "p")).await;
    assert_eq!(telling(&world).await.task_event.mark, "m1/submitted");
}

pub(super) async fn an_owner_has_so_many_push_configurations_and_no_more<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    for n in 0..PUSHES_PER_TASK_MAX {
        let stored = world.does(put("e-m1", &format!("p{n}"))).await.outcome;
        assert_eq!(stored, PushStored::Stored);
    }
    let full = world.does(put("e-m1", "more")).await.outcome;
    assert!(matches!(full, PushStored::Full { .. }), "{full:?}");
    let same = world.does(put("e-m1", "p0")).await.outcome;
    assert_eq!(same, PushStored::Stored);
    world.does(first("d", "m2", "ann")).await;
    let many = (PUSHES_PER_TASK_MAX..PUSHES_PER_OWNER_MAX)
        .map(|n| Change::PutSubscription(push("e-m2", &format!("p{n}"))));
    world.does(Write(many.collect())).await;
    let held = world.reads(|rows| rows.pushes_held("ann")).await;
    assert_eq!(held, u64::from(PUSHES_PER_OWNER_MAX));
    assert_eq!(world.reads(|rows| rows.pushes_held("bob")).await, 0);
    world.does(first("e", "m3", "ann")).await;
    let full = world.does(put("e-m3", "p")).await.outcome;
    assert!(matches!(full, PushStored::Full { .. }), "{full:?}");
    let closed = Subscription {
        state: SubscriptionState::Closed { at: Timestamp(9) },
        ..push("e-m1", "p0")
    };
    world
        .does(Write(vec![Change::PutSubscription(closed)]))
        .await;
    let stored = world.does(put("e-m3", "p")).await.outcome;
    assert_eq!(stored, PushStored::Stored);
    let again = world.does(put("e-m1", "p0")).await.outcome;
    let opened = "one that was closed counts when it is opened again";
    assert!(matches!(again, PushStored::Full { .. }), "{opened}");
    let same = world.does(put("e-m1", "p1")).await.outcome;
    assert_eq!(same, PushStored::Stored, "one that is open counts already");
}

pub(super) async fn whoever_loses_its_token_is_told_nothing_more<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id, owner) in [("c", "m1", "ann"), ("d", "m2", "bob"), ("e", "m3", "ann")] {
        world
            .does(AddToken {
                name: owner.to_owned(),
                hash: id.to_owned(),
                scopes: vec!["a2a".to_owned()],
                rotate: false,
                by: "owner".to_owned(),
            })
            .await;
        world.does(first(key, id, owner)).await;
        let put = PutPush {
            subscription: push(&format!("e-{id}"), "p"),
            by: owner.to_owned(),
        };
        assert_eq!(world.does(put).await.outcome, PushStored::Stored);
    }
    let told = telling(&world).await;
    let revoke = |name: &str| RevokeToken {
        name: name.to_owned(),
        by: "owner".to_owned(),
    };
    assert!(!world.does(revoke("eve")).await.outcome);
    assert_eq!(open(&world, None, 9).await.len(), 3);
    assert!(world.does(revoke("ann")).await.outcome);
    assert_eq!(open(&world, None, 9).await, ["e-m2/p"]);
    assert_eq!(world.does(end(&told, None)).await.outcome, None);
    answers(&mut world, "m1", "42").await;
    assert_eq!(world.does(begin("p")).await.outcome, NotifyStep::Nothing);
    assert_eq!(kept(&world, "e-m1", "p").await, None);
}
