//! Alerts: who is told and how far that is comes back as it was written, in the order that it is sent in.

use crate::fixture::Fixture;
use crate::given::{World, Write};
use bridge_core::limits::ALERT_KEPT_MS;
use bridge_core::port::{AlertChange, AlertsTried, Change, Ledger};
use bridge_core::step::{Keep, KeepPushKey, Prune};
use bridge_core::value::{
    Alert, AlertDetail, AlertKind, AlertState, AlertSubject, ConversationId, PushDevice, PushKey,
    Receiver, ReceiverId, Timestamp,
};

fn id(name: &str) -> ReceiverId {
    ReceiverId::new(name)
}

fn target(name: &str) -> Receiver {
    Receiver {
        receiver_id: id(name),
        device: None,
        about: vec![AlertKind::Question, AlertKind::Task],
        detail: AlertDetail::Headline,
        error: Some("o'ne".to_owned()),
        created_at: Timestamp(3),
    }
}

fn browser(name: &str, session: &str) -> Receiver {
    Receiver {
        device: Some(PushDevice {
            session: session.to_owned(),
            endpoint: "https://push.example/a?b=\"c\"".to_owned(),
            p256dh: "public".to_owned(),
            auth: "secret".to_owned(),
            unreadable: false,
        }),
        about: Vec::new(),
        detail: AlertDetail::Hint,
        error: None,
        ..target(name)
    }
}

fn alert(to: &str, subject: &str, state: AlertState, at: i64) -> Alert {
    Alert {
        receiver_id: id(to),
        subject: AlertSubject {
            kind: AlertKind::Question,
            id: subject.to_owned(),
        },
        conversation_id: ConversationId::new("c"),
        mark: Alert::ASKED.to_owned(),
        state,
        summed: false,
        tries: 2,
        first_try_at: Some(Timestamp(at)),
        tried_at: Some(Timestamp(at)),
        created_at: Timestamp(at),
    }
}

const WAITS: AlertState = AlertState::Waiting { not_before: None };

async fn write<L: Ledger>(world: &World<L>, changes: Vec<AlertChange>) {
    let changes = changes.into_iter().map(Change::Alert).collect();
    world.does(Write(changes)).await;
}

async fn unsent<L: Ledger>(world: &World<L>, to: &str, limit: u32) -> Vec<String> {
    let to = id(to);
    let found = world.reads(move |rows| rows.unsent_alerts(&to, limit));
    found.await.into_iter().map(|one| one.subject.id).collect()
}

pub(super) async fn receivers_come_back_until_their_session_ends<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let all = [browser("a", "s1"), browser("b", "s2"), target("c")];
    let put = all.iter().cloned().map(AlertChange::PutReceiver);
    write(&world, put.collect()).await;
    assert_eq!(world.reads(|rows| rows.receivers()).await, all);
    let again = Receiver {
        error: None,
        ..browser("a", "s3")
    };
    let error = AlertChange::ReceiverError {
        receiver_id: id("c"),
        error: None,
    };
    let shown = alert("b", "q", AlertState::Shown, 1);
    let changes = vec![
        AlertChange::PutReceiver(again.clone()),
        error,
        AlertChange::Put(shown),
    ];
    write(&world, changes).await;
    let session = "s2".to_owned();
    write(&world, vec![AlertChange::DropDevicesOf { session }]).await;
    let silent = Receiver {
        error: None,
        ..target("c")
    };
    assert_eq!(world.reads(|rows| rows.receivers()).await, [again, silent]);
    assert!(
        world
            .reads(|rows| rows.shown_alerts(None, 9))
            .await
            .is_empty()
    );
    write(&world, vec![AlertChange::DropReceiver(id("c"))]).await;
    assert_eq!(world.reads(|rows| rows.receiver(&id("c"))).await, None);
}

pub(super) async fn alerts_are_sent_in_order<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let later = AlertState::Waiting {
        not_before: Some(Timestamp(99)),
    };
    let alerts = [
        alert("a", "new", WAITS, 30),
        alert("a", "old", later, 10),
        alert("a", "cut", AlertState::Sending, 20),
        alert("a", "over", AlertState::Over, 5),
        alert("a", "shown", AlertState::Shown, 5),
        alert("b", "other", WAITS, 1),
    ];
    let mut changes: Vec<_> = ["a", "b"]
        .map(|to| AlertChange::PutReceiver(target(to)))
        .into();
    changes.extend(alerts.iter().cloned().map(AlertChange::Put));
    write(&world, changes).await;
    assert_eq!(unsent(&world, "a", 9).await, ["old", "cut", "new"]);
    assert_eq!(unsent(&world, "a", 2).await, ["old", "cut"]);
    for one in alerts {
        let (to, of) = (one.receiver_id.clone(), one.subject.clone());
        let found = world.reads(move |rows| rows.alert(&to, &of)).await;
        assert_eq!(found, Some(one));
    }
    let summed = Alert {
        summed: true,
        ..alert("a", "new", AlertState::Over, 40)
    };
    write(&world, vec![AlertChange::Put(summed)]).await;
    assert_eq!(unsent(&world, "a", 9).await, ["old", "cut"]);
    for (since, single, summary_at) in [(0, 4, Some(40)), (20, 1, Some(40)), (41, 0, None)] {
        let tried = world.reads(move |rows| rows.alerts_tried(&id("a"), Timestamp(since)));
        let expected = AlertsTried {
            single,
            summary_at: summary_at.map(Timestamp),
        };
        assert_eq!(tried.await, expected, "{since}");
    }
}

pub(super) async fn shown_alerts_are_walked_and_kept<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let mut changes: Vec<_> = ["a", "b"]
        .map(|to| AlertChange::PutReceiver(target(to)))
        .into();
    for (to, subject) in [("b", "1"), ("a", "2"), ("a", "1")] {
        changes.push(AlertChange::Put(alert(to, subject, AlertState::Shown, 1)));
    }
    changes.push(AlertChange::Put(alert("a", "over", AlertState::Over, 1)));
    write(&world, changes).await;
    let (mut names, mut after) = (Vec::new(), None::<Alert>);
    loop {
        let from = after.take();
        let page = world.reads(move |rows| {
            let from = from
                .as_ref()
                .map(|it: &Alert| (&it.receiver_id, &it.subject));
            rows.shown_alerts(from, 2)
        });
        let page = page.await;
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.clone());
        names.extend(
            page.iter()
                .map(|it| format!("{}{}", it.receiver_id, it.subject.id)),
        );
    }
    assert_eq!(names, ["a1", "a2", "b1"]);
    world.pass_ms(ALERT_KEPT_MS);
    let keep = Keep {
        done_ms: i64::MAX,
        dead_ms: i64::MAX,
        audit_ms: i64::MAX,
        redelivery_ms: 0,
    };
    let now = world.now;
    world.does(Prune { now, keep }).await;
    let of = |subject: &str| AlertSubject {
        kind: AlertKind::Question,
        id: subject.to_owned(),
    };
    let (over, shown) = (of("over"), of("1"));
    assert_eq!(
        world.reads(move |rows| rows.alert(&id("a"), &over)).await,
        None
    );
    assert!(
        world
            .reads(move |rows| rows.alert(&id("a"), &shown))
            .await
            .is_some()
    );
}

pub(super) async fn one_push_key_is_kept<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    assert_eq!(world.reads(|rows| rows.push_key()).await, None);
    let keep = |key: &str| KeepPushKey {
        proposed: PushKey(key.to_owned()),
    };
    let first = PushKey("first".to_owned());
    assert_eq!(world.does(keep("first")).await.outcome, first);
    assert_eq!(world.does(keep("second")).await.outcome, first);
    assert_eq!(world.reads(|rows| rows.push_key()).await, Some(first));
}
