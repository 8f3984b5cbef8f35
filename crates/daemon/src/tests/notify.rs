//! Notifications of finished tasks and texts to running turns, while callers go away, the ledger fails and Codex is
//! silent.

use super::HOUR;
use super::agent::{Trouble, Word};
use super::platform::Mood;
use super::stage::Stage;
use crate::config::Config;
use crate::delivery::notify_targets::NotifySettings;
use crate::settings::Settings;
use bridge_core::port::{Read, Steering};
use bridge_core::step::{
    EventDelivery, Extras, MidTurn, Receive, StartTask, TaskStarted, Tell, Verdict,
};
use bridge_core::task::A2aState;
use bridge_core::task_events::{TaskEvent, Timeline, What};
use bridge_core::value::{
    ApprovalPolicy, AskedDigest, ChannelId, Class, ConversationId, ExternalId, Failure, MessageId,
    ReadAccess, Sandbox, SenderKind, StateName, Subscription, SubscriptionState, Task, TaskId,
    TaskStart, TaskTerms, Tier, Timestamp,
};
use bridge_front::Notified;
use bridge_testkit::fault::{Fault, Span};
use std::sync::Arc;
use std::time::Duration;

/// A workspace as a target, which its channel is called as well.
const WORKSPACE: &str = "molecule:0199aaaa-0000-7000-8000-000000000001";
const MINUTE: Duration = Duration::from_secs(60);

impl Stage {
    fn tells(&self, notify: NotifySettings) {
        let mut settings = Settings::clone(&self.daemon.settings());
        Arc::make_mut(&mut settings.start).notify = notify;
        *self.daemon.settings.write().unwrap() = Arc::new(settings);
    }

    /// A daemon that can tell its workspace.
    fn telling() -> Self {
        let stage = Self::new();
        let channel = ChannelId::new(WORKSPACE);
        stage.tells(NotifySettings::default().through([channel].into_iter()));
        stage.start();
        stage
    }

    async fn starts(&self, name: &str, target: &str) -> Task {
        let cwd = self.daemon.settings().start.work_root.join(name);
        let cwd = cwd.display().to_string();
        let receive = Receive {
            message_id: MessageId::new(format!("m-{name}")),
            conversation_id: ConversationId::new(format!("c-{name}")),
            workdir: cwd.clone(),
            channel: ChannelId::new("task"),
            external_key: name.to_owned(),
            external_id: ExternalId::new(name),
            kind: SenderKind::Person,
            sender: "ann".to_owned(),
            tier: Tier::Tool,
            body: name.to_owned(),
            mid_turn: MidTurn::Queue,
            verdict: Verdict::Fit,
            extras: Extras::default(),
        };
        let task = Task {
            task_id: TaskId::new(name),
            channel: receive.channel.clone(),
            conversation_id: receive.conversation_id.clone(),
            owner: "ann".to_owned(),
            sequence: 0,
            created_at: Timestamp(1),
            start: Some(TaskStart {
                prompt_summary: name.to_owned(),
                asked: AskedDigest::of([Some(name)]),
                terms: TaskTerms {
                    cwd,
                    model: None,
                    sandbox: Sandbox::ReadOnly,
                    approval_policy: ApprovalPolicy::OnRequest,
                    codex_home: None,
                    reads: ReadAccess::Isolated,
                },
            }),
        };
        let start = StartTask {
            receive,
            task,
            notify: Some(target.to_owned()),
        };
        match self.daemon.commit(start).await {
            Ok(TaskStarted::New(task)) => task,
            other => panic!("{other:?}"),
        }
    }

    /// A task that is over.
    async fn ended_task(&self, name: &str, target: &str) -> Task {
        let task = self.starts(name, target).await;
        self.done(name).await;
        task
    }

    /// Tells the target of a task, over or not. `again`: an earlier send may have arrived.
    async fn delivers(&self, task: &Task, again: bool) -> Result<(), Failure> {
        let rows = self.ledger.inner().snapshot().unwrap();
        let subscription = rows.subscription(&task.task_id, Subscription::END).unwrap();
        let subscription = subscription.unwrap();
        let target = subscription.notify().unwrap().to_owned();
        let delivery = EventDelivery {
            subscription,
            again,
            task_event: TaskEvent {
                mark: Subscription::END.to_owned(),
                what: What::Stands(A2aState::Completed),
            },
            timeline: Timeline::load(&rows, &task.task_id).unwrap().unwrap(),
        };
        self.daemon.notify_end(&target, &delivery).await
    }

    fn notified(&self, task: &Task) -> SubscriptionState {
        let rows = self.ledger.inner().snapshot().unwrap();
        let found = rows.subscription(&task.task_id, Subscription::END).unwrap();
        found.unwrap().state
    }

    async fn sent(&self, task: &Task) {
        let is_sent = || self.notified(task).is_closed();
        self.until("the notification", is_sent).await;
    }
}

/// The caller's call ends at its deadline while the target is slow.
#[tokio::test(start_paused = true)]
async fn abandoned_notify_call_sends_once() {
    let stage = Stage::telling();
    let task = stage.ended_task("one", WORKSPACE).await;
    let before = stage.platform.sends();
    stage.platform.be(Mood::Slow(MINUTE));
    let asked = stage.daemon.notify_now(&task.task_id, "ann");
    let gone = tokio::time::timeout(Duration::from_secs(5), asked).await;
    assert!(gone.is_err(), "{gone:?}");
    tokio::spawn(Arc::clone(&stage.daemon).deliver_events());
    let again = stage.daemon.notify_now(&task.task_id, "bob").await;
    assert_eq!(again, Ok(Notified::Busy), "it is on its way");
    stage.sent(&task).await;
    assert_eq!(stage.platform.sends(), before + 1);
}

/// A caller that waits learns within a bound that the call is still under way; nothing is cut off.
#[tokio::test(start_paused = true)]
async fn notify_call_returns_busy_when_slow() {
    let stage = Stage::telling();
    let task = stage.ended_task("one", WORKSPACE).await;
    stage.platform.be(Mood::Slow(HOUR));
    let asked = stage.daemon.notify_now(&task.task_id, "ann").await;
    assert_eq!(asked, Ok(Notified::Busy));
    assert_eq!(stage.notified(&task), SubscriptionState::Sending);
    stage.sent(&task).await;
    let asked = stage.daemon.notify_now(&task.task_id, "ann").await;
    assert_eq!(asked, Ok(Notified::Nothing));
}

#[tokio::test(start_paused = true)]
async fn notification_completion_survives_ledger_outage() {
    let stage = Stage::telling();
    let task = stage.ended_task("one", WORKSPACE).await;
    let before = stage.platform.sends();
    stage.platform.be(Mood::Slow(MINUTE));
    tokio::spawn(Arc::clone(&stage.daemon).deliver_events());
    let begun = || stage.notified(&task) == SubscriptionState::Sending;
    stage.until("the intent", begun).await;
    stage.ledger.plan(1, Span::From, Fault::Unavailable);
    assert!(!stage.reaches(2 * MINUTE, || false).await);
    assert_eq!(stage.notified(&task), SubscriptionState::Sending);
    stage.ledger.mend();
    stage.sent(&task).await;
    assert_eq!(stage.platform.sends(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn notifications_limited_to_eight_in_flight() {
    let stage = Stage::telling();
    let mut tasks = Vec::new();
    for index in 0..10 {
        tasks.push(stage.ended_task(&format!("t{index}"), WORKSPACE).await);
    }
    let before = stage.platform.sends();
    for _ in &tasks {
        stage.platform.be(Mood::Slow(MINUTE));
    }
    tokio::spawn(Arc::clone(&stage.daemon).deliver_events());
    let going = || stage.platform.sends() == before + 8;
    stage.until("the first eight", going).await;
    assert_eq!(stage.daemon.tasks.len(), 8, "nobody else was begun");
    let asked = stage.daemon.notify_now(&tasks[9].task_id, "ann").await;
    assert_eq!(asked, Ok(Notified::Busy));
    for task in &tasks {
        stage.sent(task).await;
    }
    assert_eq!(stage.platform.sends(), before + 10);
}

/// What a command may have done is not done again by itself.
#[tokio::test]
async fn interrupted_notify_command_is_not_rerun() {
    let stage = Stage::new();
    let place = tempfile::tempdir().unwrap();
    let made = place.path().join("made");
    let config = format!(
        "[[notify.command]]\nname = 'touch'\nargv = ['/bin/sh', '-c', 'cat; echo > {}']\n\
         [[notify.command]]\nname = 'slow'\ntimeout_secs = 0\nargv = ['/bin/sh', '-c', 'exec sleep 1000']\n",
        made.display()
    );
    let config: Config = toml::from_str(&config).unwrap();
    stage.tells(NotifySettings::new(&config, &[]));
    let task = stage.starts("one", "command:touch").await;
    let cut = stage.delivers(&task, true).await;
    assert_eq!(cut.unwrap_err().class, Class::Permanent);
    assert!(!made.exists());
    stage.delivers(&task, false).await.unwrap();
    assert!(made.exists());
    let slow = stage.starts("two", "command:slow").await;
    let overrun = stage.delivers(&slow, false).await;
    assert_eq!(overrun.unwrap_err().class, Class::Permanent);
}

/// A stranger's task must not write to anybody.
#[test]
fn tasks_name_only_listed_addresses() {
    let config = "[notify.ntfy]\nserver = 'https://ntfy.example'\n\
         [notify.smtp]\nhost = 'mail.example'\nfrom = 'bridge@example.org'\n\
         [[notify.alert]]\nto = 'ntfy:codex'\nabout = []\n\
         [[notify.alert]]\nto = 'mailto:ann@example.org'\nabout = ['failure']\n";
    let config: Config = toml::from_str(config).unwrap();
    let notify = NotifySettings::new(&config, &[]);
    for listed in ["ntfy:codex", "email:ann@example.org"] {
        assert_eq!(notify.check(listed), Ok(()), "{listed}");
    }
    for other in [
        "ntfy:other",
        "ntfy:https://ntfy.example/codex",
        "email:bob@example.org",
    ] {
        let why = notify.check(other).unwrap_err();
        assert!(why.contains("[[notify.alert]]"), "{why}");
    }
    let alerted = notify.alert_receivers();
    assert_eq!(alerted.len(), 1, "who is about nothing is not alerted");
    let way = notify.way_of(&alerted[0].receiver_id).unwrap();
    assert!(way.sums_up && !way.takes_back);
}

fn tell(name: &str, text: &str) -> Tell {
    Tell {
        message_id: MessageId::new(format!("m-{name}")),
        text: text.to_owned(),
        by: "ann".to_owned(),
        mark: format!("x{text}"),
    }
}

impl Stage {
    /// Messages whose turns run for hours.
    async fn running(names: &[&str]) -> Self {
        let stage = Self::new();
        stage.start();
        for name in names {
            stage.agent.trouble(Trouble::Slow(3 * HOUR));
            stage.shown(name).await;
            let runs = || stage.state(name) == Some(StateName::Running);
            stage.until("the turn", runs).await;
        }
        stage
    }

    fn events(&self, name: &str) -> Vec<String> {
        let rows = self.ledger.inner().snapshot().unwrap();
        let id = MessageId::new(format!("m-{name}"));
        let events = rows.events(&id, 0, 50).unwrap();
        events.into_iter().map(|event| event.text).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn steer_outcome_is_recorded_in_events() {
    let stage = Stage::running(&["one"]).await;
    for word in [Word::InDoubt, Word::Taken] {
        stage.agent.says(word);
    }
    let unknown = stage.daemon.tell_running(tell("one", "a")).await.unwrap();
    assert!(matches!(unknown, Steering::Unknown { .. }), "{unknown:?}");
    let taken = stage.daemon.tell_running(tell("one", "b")).await.unwrap();
    assert_eq!(taken, Steering::Steered);
    let refused = stage.daemon.tell_running(tell("one", "c")).await.unwrap();
    assert!(matches!(refused, Steering::Refused { .. }), "{refused:?}");
    let said = stage.events("one");
    let about: Vec<_> = said
        .iter()
        .filter(|text| text.contains("steered by") || text.contains("running turn"))
        .map(|text| text.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        about,
        [
            "steered by ann",
            "whether the running turn has it is not known",
            "steered by ann",
            "the running turn has the text of ann",
            "steered by ann",
            "the running turn did not take it",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn silent_codex_blocks_only_its_conversation() {
    let stage = Stage::running(&["one", "two"]).await;
    for word in [Word::Silence, Word::Taken] {
        stage.agent.says(word);
    }
    for text in ["first", "second"] {
        let unknown = stage.daemon.tell_running(tell("one", text)).await.unwrap();
        assert!(matches!(unknown, Steering::Unknown { .. }), "{unknown:?}");
    }
    assert_eq!(stage.agent.steered(), ["first"], "nothing overtakes");
    let taken = stage.daemon.tell_running(tell("two", "other")).await;
    assert_eq!(taken, Ok(Steering::Steered));
}
