//! What the owners of tasks are pushed while receivers are away for hours and days, the daemon dies and the ledger
//! fails.

use super::HOUR;
use super::agent::Trouble;
use super::stage::Stage;
use crate::delivery::push_client::{Delivering, PushClient};
use crate::settings::Settings;
use bridge_core::limits::{PUSHES_PER_TASK_MAX, REPLY_AGE_MAX_MS};
use bridge_core::port::Read;
use bridge_core::step::{
    AcceptInput, EventDelivery, Extras, InputAccepted, InputTarget, MidTurn, Receive, Verdict,
};
use bridge_core::task::{A2aState, TaskSnapshot};
use bridge_core::task_events::FROM_NOW;
use bridge_core::value::{
    ChannelId, Class, ConversationId, ExternalId, Failure, MessageId, PushTarget, SenderKind,
    StateName, Subscription, SubscriptionState, SubscriptionTarget, Task, TaskId, Tier, Timestamp,
};
use bridge_front::PushPut;
use bridge_front::a2a::push_payload;
use bridge_testkit::fault::{Fault, Span};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Known {
    away_until: Option<Instant>,
    slow: Option<Duration>,
    tries: u32,
    going: u32,
    most: u32,
    /// By task and configuration, as it came.
    got: Vec<(String, String)>,
    /// The same, as it looks on the wire.
    bodies: Vec<(String, String)>,
}

/// Receivers that are away, or slow, as a test says.
#[derive(Clone, Debug, Default)]
struct Receivers(Arc<Mutex<Known>>);

impl Receivers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap()
    }

    fn away_for(&self, time: Duration) {
        self.known().away_until = Some(Instant::now() + time);
    }

    fn slow(&self, time: Option<Duration>) {
        self.known().slow = time;
    }

    /// What came through one configuration.
    fn got(&self, config: &str) -> Vec<String> {
        let known = self.known();
        let of = known.got.iter().filter(|(of, _)| of == config);
        of.map(|(_, mark)| mark.clone()).collect()
    }
}

impl PushClient for Receivers {
    fn check(&self, _push: &Subscription) -> Result<(), String> {
        Ok(())
    }

    fn deliver<'a>(&'a self, delivery: &'a EventDelivery) -> Delivering<'a> {
        Box::pin(async move {
            let (away, slow) = {
                let mut known = self.known();
                known.tries += 1;
                known.going += 1;
                known.most = known.most.max(known.going);
                let away = known.away_until.is_some_and(|until| Instant::now() < until);
                (away, known.slow)
            };
            if let Some(time) = slow {
                let mut end = tokio::time::interval_at(Instant::now() + time, time);
                end.tick().await;
            }
            let mut known = self.known();
            known.going -= 1;
            if away {
                return Err(Failure::new(Class::Transient, "nobody is there"));
            }
            let mark = delivery.task_event.mark.clone();
            let config = &delivery.subscription.subscription_id;
            known.got.push((config.clone(), mark));
            let body = push_payload(None, delivery).to_string();
            known.bodies.push((config.clone(), body));
            Ok(())
        })
    }
}

fn push(name: &str, config: &str) -> Subscription {
    Subscription {
        task_id: TaskId::new(format!("e-{name}")),
        subscription_id: config.to_owned(),
        target: SubscriptionTarget::Push(target("1.0")),
        state: SubscriptionState::Waiting { not_before: None },
        mark: None,
        tries: 0,
        first_try_at: None,
        error: None,
        created_at: Timestamp(1),
    }
}

fn target(version: &str) -> PushTarget {
    PushTarget {
        url: "https://hooks.example.com/push?key=hunter2".to_owned(),
        token: Some("hunter2".to_owned()),
        authorization: Some(("Bearer".to_owned(), "hunter2".to_owned())),
        unreadable: false,
        version: version.to_owned(),
    }
}

/// All that there is to tell of a task of one message.
fn life(name: &str) -> [String; 4] {
    ["submitted", "working", "answer", "completed"].map(|step| format!("m-{name}/{step}"))
}

impl Stage {
    /// A daemon whose pushes go to these receivers.
    fn pushing(&self, receivers: &Receivers) {
        let mut settings = Settings::clone(&self.daemon.settings());
        settings.push_client = Arc::new(receivers.clone());
        *self.daemon.settings.write().unwrap() = Arc::new(settings);
        tokio::spawn(Arc::clone(&self.daemon).deliver_events());
    }

    /// An agent gives a task.
    async fn given(&self, name: &str) {
        let receive = Receive {
            message_id: MessageId::new(format!("m-{name}")),
            conversation_id: ConversationId::new(format!("c-{name}")),
            workdir: format!("/nowhere/{name}"),
            channel: ChannelId::new("a2a"),
            external_key: format!("ann/{name}"),
            external_id: ExternalId::new(name),
            kind: SenderKind::Agent,
            sender: "ann".to_owned(),
            tier: Tier::Peer,
            body: name.to_owned(),
            mid_turn: MidTurn::Queue,
            verdict: Verdict::Fit,
            extras: Extras::default(),
        };
        let task = Task {
            task_id: TaskId::new(format!("e-{name}")),
            channel: receive.channel.clone(),
            conversation_id: receive.conversation_id.clone(),
            owner: "ann".to_owned(),
            sequence: 0,
            created_at: crate::process::ids::now(),
            start: None,
        };
        let take = AcceptInput {
            receive,
            place: InputTarget::New(task),
            client_message_id: name.to_owned(),
            original: "{}".to_owned(),
            brief: String::new(),
        };
        let taken = self.daemon.commit(take).await.unwrap();
        assert!(matches!(taken, InputAccepted::New { .. }), "{taken:?}");
    }

    async fn wants(&self, push: Subscription) -> PushPut {
        self.daemon.put_push(push, "ann").await.unwrap()
    }

    fn kept(&self, name: &str, config: &str) -> Subscription {
        let rows = self.ledger.inner().snapshot().unwrap();
        let id = TaskId::new(format!("e-{name}"));
        rows.subscription(&id, config).unwrap().unwrap()
    }

    async fn told_all(&self, name: &str) {
        let closed = || self.kept(name, "p").state.is_closed();
        self.until("the end of the telling", closed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn late_push_config_gets_only_new_events() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    stage.agent.trouble(Trouble::Slow(HOUR));
    stage.given("one").await;
    assert_eq!(stage.wants(push("one", "p")).await, PushPut::Put);
    let runs = || stage.state("one") == Some(StateName::Running);
    stage.until("the turn", runs).await;
    stage
        .until("the news of it", || receivers.got("p").len() == 2)
        .await;
    let late = Subscription {
        mark: Some(FROM_NOW.to_owned()),
        ..push("one", "late")
    };
    assert_eq!(stage.wants(late.clone()).await, PushPut::Put);
    stage.told_all("one").await;
    assert_eq!(receivers.got("p"), life("one"));
    let received = || receivers.got("late").len() == 2;
    stage.until("the late one", received).await;
    assert_eq!(receivers.got("late"), life("one")[2..]);
    let after = Subscription {
        subscription_id: "after".to_owned(),
        ..late
    };
    assert_eq!(stage.wants(after).await, PushPut::Put);
    let closed = || stage.kept("one", "after").state.is_closed();
    stage.until("nothing to tell", closed).await;
    assert_eq!(receivers.got("after"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn push_sends_completion_once_per_version() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    stage.given("one").await;
    for (config, version) in [("p", "1.0"), ("old", "0.3")] {
        let push = Subscription {
            target: SubscriptionTarget::Push(target(version)),
            ..push("one", config)
        };
        assert_eq!(stage.wants(push).await, PushPut::Put);
    }
    stage.told_all("one").await;
    let closed = || stage.kept("one", "old").state.is_closed();
    stage.until("the old one", closed).await;
    let bodies = receivers.known().bodies.clone();
    for config in ["p", "old"] {
        let of = bodies.iter().filter(|(of, _)| of == config);
        let ends = of.filter(|(_, body)| body.to_lowercase().contains("completed"));
        assert_eq!(ends.count(), 1, "{config}: {bodies:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn f1_unreadable_push_is_never_sent() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    stage.given("one").await;
    // As the ledger gives it whose key is another one.
    let unreadable = Subscription {
        target: SubscriptionTarget::Push(PushTarget {
            url: String::new(),
            token: None,
            authorization: None,
            unreadable: true,
            ..target("1.0")
        }),
        ..push("one", "p")
    };
    stage.wants(unreadable).await;
    let dead = || matches!(stage.kept("one", "p").state, SubscriptionState::Dead { .. });
    stage.until("the end of it", dead).await;
    stage.done("one").await;
    assert_eq!(receivers.known().tries, 0, "nothing is sent");
    let rows = stage.ledger.inner().snapshot().unwrap();
    let events = rows.events(&MessageId::new("m-one"), 0, 50).unwrap();
    let reported = events.iter().any(|event| {
        event.text.contains("given up after 1 try") && event.text.contains("can't be decrypted")
    });
    assert!(reported, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn p15_returning_receiver_gets_events_in_order() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    receivers.away_for(5 * HOUR);
    stage.given("one").await;
    stage.wants(push("one", "p")).await;
    stage.done("one").await;
    assert!(stage.kept("one", "p").error.is_some());
    stage.told_all("one").await;
    assert_eq!(receivers.got("p"), life("one"));
    let tries = receivers.known().tries;
    assert!((20..60).contains(&tries), "{tries} tries in five hours");
    assert_eq!(stage.kept("one", "p").error, None);
}

#[tokio::test(start_paused = true)]
async fn p15_push_is_abandoned_after_a_day() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    receivers.away_for(1_000 * HOUR);
    stage.given("one").await;
    stage.wants(push("one", "p")).await;
    let began = Instant::now();
    stage.done("one").await;
    let dead = || matches!(stage.kept("one", "p").state, SubscriptionState::Dead { .. });
    assert!(stage.reaches(30 * HOUR, dead).await);
    let day = Duration::from_millis(u64::try_from(REPLY_AGE_MAX_MS).unwrap());
    assert!(began.elapsed() > day, "{:?}", began.elapsed());
    assert!(began.elapsed() < day + HOUR, "{:?}", began.elapsed());
    let tries = receivers.known().tries;
    assert!((100..400).contains(&tries), "{tries} tries in a day");
    let rows = stage.ledger.inner().snapshot().unwrap();
    let events = rows.events(&MessageId::new("m-one"), 0, 50).unwrap();
    let said = events.last().unwrap().text.clone();
    assert!(said.contains("\"p\" are given up after"), "{said}");
    assert!(said.contains("nobody is there"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let view = TaskSnapshot::load(&rows, &TaskId::new("e-one")).unwrap();
    assert_eq!(view.unwrap().now().state, A2aState::Completed);
    assert!(
        !stage
            .reaches(HOUR, || receivers.known().tries > tries)
            .await
    );
    // A new subscription gets all events again.
    receivers.known().away_until = None;
    stage.wants(push("one", "p")).await;
    stage.told_all("one").await;
    assert_eq!(receivers.got("p"), life("one"));
}

#[tokio::test(start_paused = true)]
async fn p15_push_resumes_in_order_after_crash() {
    for step in 0..3 {
        let (stage, receivers) = (Stage::new(), Receivers::default());
        stage.pushing(&receivers);
        stage.start();
        receivers.slow(Some(MINUTE));
        stage.given("one").await;
        stage.wants(push("one", "p")).await;
        stage
            .until("a few", || receivers.got("p").len() == step)
            .await;
        let begun = || stage.kept("one", "p").state == SubscriptionState::Sending;
        stage.until("the intent", begun).await;
        let stage = stage.dies();
        receivers.slow(None);
        stage.pushing(&receivers);
        stage.told_all("one").await;
        let mut got = receivers.got("p");
        let last = life("one")[3].clone();
        let end = got.iter().position(|mark| *mark == last).unwrap();
        got.truncate(end + 1);
        got.dedup();
        assert_eq!(got, life("one"), "after {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn push_completion_survives_ledger_outage() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    stage.given("one").await;
    stage.done("one").await;
    receivers.slow(Some(MINUTE));
    stage.wants(push("one", "p")).await;
    let begun = || stage.kept("one", "p").state == SubscriptionState::Sending;
    stage.until("the intent", begun).await;
    stage.ledger.plan(1, Span::From, Fault::Unavailable);
    assert!(!stage.reaches(2 * MINUTE, || false).await);
    receivers.slow(None);
    stage.ledger.mend();
    stage.told_all("one").await;
    assert_eq!(receivers.got("p"), life("one"));
}

#[tokio::test(start_paused = true)]
async fn push_limits_concurrency_and_configs() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    stage.given("one").await;
    stage.done("one").await;
    receivers.slow(Some(MINUTE));
    for n in 0..PUSHES_PER_TASK_MAX {
        assert_eq!(
            stage.wants(push("one", &format!("p{n}"))).await,
            PushPut::Put
        );
    }
    let more = stage.wants(push("one", "more")).await;
    assert!(matches!(more, PushPut::Refused { .. }), "{more:?}");
    assert_eq!(stage.wants(push("one", "p0")).await, PushPut::Put);
    let strangers = stage.daemon.put_push(push("one", "x"), "bob").await;
    assert_eq!(strangers, Ok(PushPut::Unknown));
    let all = 4 * PUSHES_PER_TASK_MAX as usize;
    stage
        .until("all of it", || receivers.known().got.len() >= all)
        .await;
    assert_eq!(receivers.known().most, 4);
    for n in 0..PUSHES_PER_TASK_MAX {
        let mut got = receivers.got(&format!("p{n}"));
        got.dedup();
        assert!(got.ends_with(&life("one")), "{got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_push_sends_nothing_more() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    receivers.away_for(HOUR);
    stage.given("one").await;
    stage.wants(push("one", "p")).await;
    stage.until("a try", || receivers.known().tries > 2).await;
    let id = TaskId::new("e-one");
    assert_eq!(stage.daemon.drop_push(&id, "p", "bob").await, Ok(false));
    for _ in 0..2 {
        assert_eq!(stage.daemon.drop_push(&id, "p", "ann").await, Ok(true));
    }
    assert!(
        !stage
            .reaches(3 * HOUR, || !receivers.got("p").is_empty())
            .await
    );
}

/// Those that have nothing to tell take no place, and nobody turns in a circle because of them.
#[tokio::test(start_paused = true)]
async fn idle_pushes_take_no_owner_slot() {
    let (stage, receivers) = (Stage::new(), Receivers::default());
    stage.pushing(&receivers);
    stage.start();
    let names = ["one", "two", "three", "four", "five", "six"];
    let received = |name: &str| receivers.got(name) == life(name)[..2];
    for name in names {
        stage.agent.trouble(Trouble::Slow(HOUR));
        stage.given(name).await;
        assert_eq!(stage.wants(push(name, name)).await, PushPut::Put);
        let reached = stage.reaches(MINUTE, || received(name)).await;
        assert!(reached, "{name}: {:?}", receivers.known().got);
    }
    assert!(
        names.into_iter().all(received),
        "{:?}",
        receivers.known().got
    );
    let before = stage.ledger.calls();
    assert!(!stage.reaches(10 * MINUTE, || false).await);
    let calls = stage.ledger.calls() - before;
    assert!(calls < 1_000, "{calls} calls in ten minutes");
}
