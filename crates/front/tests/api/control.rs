//! Who may say what to whom.

use crate::service::{Put, TestService, message};
use bridge_core::step::StartTask;
use bridge_core::value::MessageId;
use bridge_core::value::{
    ApprovalPolicy, AskedDigest, ReadAccess, Sandbox, Task, TaskId, TaskStart, TaskTerms, Timestamp,
};
use bridge_front::{
    BridgeService, Caller, Control, ControlAction, ControlErrorKind, Grants, LiveUpdate, Scope,
    TaskService, TaskWatch, Via,
};

use std::time::Duration;

pub(crate) const TASK: &str = "codex-0123456789ab";

/// A task that `starter` began, and whose end a webhook waits for.
pub(crate) async fn begin(service: &TestService, starter: &str) {
    let receive = message("t1-first", "task", starter);
    let task = Task {
        task_id: TaskId::new(TASK),
        channel: receive.channel.clone(),
        conversation_id: receive.conversation_id.clone(),
        owner: starter.to_owned(),
        sequence: 0,
        created_at: Timestamp(1),
        start: Some(TaskStart {
            prompt_summary: "hello".to_owned(),
            asked: AskedDigest::of([Some("hello")]),
            terms: TaskTerms {
                cwd: "/work".to_owned(),
                model: None,
                sandbox: Sandbox::ReadOnly,
                approval_policy: ApprovalPolicy::OnRequest,
                codex_home: None,
                reads: ReadAccess::Disk,
            },
        }),
    };
    let start = StartTask {
        receive,
        task,
        notify: Some("webhook:https://hooks.test/a".to_owned()),
    };
    service.does(start).await.unwrap();
}

fn token(name: &str, scopes: &[Scope]) -> Caller {
    Caller {
        name: name.to_owned(),
        via: Via::Http,
        program: None,
        grants: Grants::Scopes(scopes.to_vec()),
        trace: None,
    }
}

#[tokio::test]
async fn threat_1_token_steers_only_own_tasks() {
    let service = TestService::new();
    begin(&service, "ann").await;
    service.receives("m1-of-ann").await;
    service
        .does(message("m2-elsewhere", "molecule:a", "ann"))
        .await
        .unwrap();
    let control = TaskService::new(service);
    let steer = async |caller: &Caller, id: &str| {
        let act = ControlAction::Steer {
            task_id: id.to_owned(),
            instruction: "left".to_owned(),
        };
        let said = control.act(caller, act).await;
        said.map_err(|refusal| refusal.kind).map(drop)
    };
    let forbidden = Err(ControlErrorKind::Forbidden);
    let ann = token("ann", &[Scope::Control]);
    let ci = token("ci", &[Scope::Control, Scope::Send, Scope::Approve]);
    let admin = token("root", &[Scope::Control, Scope::Admin]);
    let owner = Caller::local_owner(Via::Cli);
    for id in [TASK, "t1-first", "m1-of-ann", "m2-elsewhere"] {
        assert_eq!(steer(&ci, id).await, forbidden, "{id}");
        assert_eq!(steer(&admin, id).await, Ok(()), "{id}");
        assert_eq!(steer(&owner, id).await, Ok(()), "{id}");
        let theirs = match id {
            "m2-elsewhere" => forbidden,
            _ => Ok(()),
        };
        assert_eq!(steer(&ann, id).await, theirs, "{id}");
    }
}

/// As over HTTP.
#[tokio::test(start_paused = true)]
async fn approve_alone_decides() {
    let service = TestService::new();
    service.receives("m1-of-ann").await;
    let asked = crate::audit::asks("m1-of-ann", service.now());
    service.does(Put(asked)).await.unwrap();
    let control = TaskService::new(service);
    let respond = async |caller: &Caller, decision: &str| {
        let act = ControlAction::Respond {
            task_id: "m1-of-ann".to_owned(),
            request_id: "0123456789abcdefghjkmnpqrs".to_owned(),
            decision: Some(decision.to_owned()),
            answers: None,
        };
        let said = control.act(caller, act).await;
        said.map_err(|refusal| refusal.kind).map(drop)
    };
    let forbidden = Err(ControlErrorKind::Forbidden);
    let reads = token("reads", &[Scope::Read]);
    assert_eq!(respond(&reads, "decline").await, forbidden);
    let controls = token("controls", &[Scope::Control]);
    assert_eq!(respond(&controls, "accept").await, forbidden);
    let approves = token("approves", &[Scope::Approve]);
    assert_eq!(respond(&approves, "accept").await, Ok(()));
}

/// Whether there is news now, once everything that is ready was done.
async fn is_notified(news: &mut impl TaskWatch) -> bool {
    tokio::time::timeout(Duration::from_hours(1), news.changed())
        .await
        .is_ok()
}

#[tokio::test(start_paused = true)]
async fn waiters_are_notified_on_task_change() {
    let service = TestService::new();
    begin(&service, "ann").await;
    let control = TaskService::new(service.clone());
    let first = MessageId::new("t1-first");
    for id in [TASK, "t1-first", " codex-01234567 "] {
        let mut news = control.news(id);
        assert!(is_notified(&mut news).await, "{id}: it listens");
        assert!(!is_notified(&mut news).await, "{id}: nothing happened");
        service.hub().publish(&first, LiveUpdate::Diff("+1".into()));
        assert!(!is_notified(&mut news).await, "{id}: what Codex writes");
        service.hub().publish(&first, LiveUpdate::Changed);
        assert!(is_notified(&mut news).await, "{id}: it changed");
    }
}

#[tokio::test(start_paused = true)]
async fn task_end_before_listening_is_reported() {
    let service = TestService::new();
    begin(&service, "ann").await;
    let control = TaskService::new(service.clone());
    let (mut early, mut late) = (control.news(TASK), control.news(TASK));
    let mut nobodys = control.news("codex-unknown");
    assert!(is_notified(&mut early).await);
    service
        .cancel(
            MessageId::new("t1-first"),
            bridge_core::value::Actor::named("ann"),
        )
        .await
        .unwrap();
    for news in [&mut early, &mut late, &mut nobodys] {
        assert!(is_notified(news).await);
        assert!(
            !is_notified(news).await,
            "nothing is left that could change"
        );
    }
}
