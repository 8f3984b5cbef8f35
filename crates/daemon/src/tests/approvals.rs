//! Questions of a turn, over a ledger that fails and an agent that hears badly: what a turn waits for is what the rows
//! say, and no decision of a person is lost on the way.

use super::lease::{lasting, over};
use super::stage::Stage;
use bridge_core::port::{ApprovalRequest, Read, RequestKey, Responded, TurnEvent};
use bridge_core::rules::Effect;
use bridge_core::step::{AnswerUndelivered, Authority, Decide, UndeliveredReason};
use bridge_core::value::{
    IncarnationId, MessageId, Request, RequestDecision, RequestId, RequestKind, RequestState,
    RequestVerdict, Timestamp, Wants,
};
use bridge_testkit::fault::{Fault, Span};
use std::collections::BTreeSet;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
/// More calls than such a turn makes before it waits.
const CALLS_MAX: u64 = 100;

fn asks(command: &str) -> ApprovalRequest {
    ApprovalRequest {
        key: RequestKey {
            incarnation: IncarnationId::new("i"),
            rpc_id: "0".to_owned(),
            item_id: None,
        },
        method: "item/commandExecution/requestApproval".to_owned(),
        kind: RequestKind::Command,
        headline: format!("run {command}"),
        shown: command.to_owned(),
        effect: Effect {
            command: Some(command.to_owned()),
            ..Effect::default()
        },
        payload: "{}".to_owned(),
        wants: Wants::Approval,
        secret_answer: false,
        tool_arguments: None,
    }
}

/// The message that asks.
fn message() -> MessageId {
    MessageId::new("m-one")
}

impl Stage {
    /// A turn that asks this begins.
    async fn asked(&self, questions: Vec<ApprovalRequest>) {
        self.agent.asks(questions, HOUR);
        self.start();
        self.shown("one").await;
    }

    fn requests(&self) -> Vec<Request> {
        let rows = self.ledger.inner().snapshot().unwrap();
        rows.requests(&message()).unwrap()
    }

    /// What the rows say is open.
    fn open(&self) -> BTreeSet<RequestId> {
        let requests = self.requests();
        let open = requests.iter().filter(|r| r.state == RequestState::Open);
        open.map(|request| request.request_id.clone()).collect()
    }

    /// What the turn waits for.
    fn waits_for(&self) -> BTreeSet<RequestId> {
        let running = self.daemon.turns.running.lock();
        let turn = running.get(&message()).unwrap();
        turn.requests.open()
    }

    async fn says(&self, request_id: RequestId, decision: RequestDecision) {
        let verdict = RequestVerdict {
            by: bridge_core::value::DecidedBy::caller("ann"),
            ..RequestVerdict::own(decision, "cli", Timestamp(0))
        };
        let decide = Decide {
            request_id,
            digest: None,
            verdict,
            authority: Authority::Owner,
        };
        self.daemon.insist(decide).await.unwrap();
    }

    /// Accepts the one open question.
    async fn accepts(&self) -> RequestId {
        let request_id = self.open().pop_first().unwrap();
        self.says(request_id.clone(), RequestDecision::Accept).await;
        request_id
    }
}

/// An accepted command runs, and nothing can take that back.
#[tokio::test(start_paused = true)]
async fn decisions_wait_for_no_lapsed_node() {
    let stage = Stage::new().dies_on_node(lasting());
    stage.agent.asks(vec![asks("make")], HOUR);
    stage.shown("one").await;
    stage
        .until("the open question", || !stage.open().is_empty())
        .await;
    stage.leases(over());
    let request_id = stage.accepts().await;
    let is_decided = || {
        let requests = stage.requests();
        let ours = requests.iter().find(|one| one.request_id == request_id);
        matches!(ours.unwrap().state, RequestState::Decided(_))
    };
    assert!(is_decided());
    let minute = Duration::from_secs(60);
    let answered = || !stage.agent.answers().is_empty();
    assert!(!stage.reaches(minute, answered).await);
}

/// One run; tells whether the fault was met before somebody had to decide.
async fn met(n: u64) -> bool {
    let stage = Stage::new();
    stage.ledger.plan(n, Span::Once, Fault::Unavailable);
    stage.asked(vec![asks("make")]).await;
    let case = format!("the open question at call {n}");
    stage.until(&case, || !stage.open().is_empty()).await;
    let met = stage.ledger.calls() >= n;
    stage.accepts().await;
    stage
        .until("its answer", || !stage.agent.answers().is_empty())
        .await;
    let accepted = [RequestDecision::Accept];
    assert!(
        stage.agent.answers().starts_with(&accepted),
        "{n}: {:?}",
        stage.agent.answers()
    );
    stage.done("one").await;
    met
}

#[tokio::test(start_paused = true)]
async fn ledger_outage_does_not_decline_approvals() {
    let mut n = 1;
    while met(n).await {
        n += 1;
        assert!(n < CALLS_MAX, "it never waits");
    }
    assert!(n > 10, "only {n} calls were made");
}

#[tokio::test(start_paused = true)]
async fn turn_waits_for_open_ledger_requests() {
    let stage = Stage::new();
    stage.asked(vec![asks("make"), asks("make install")]).await;
    stage
        .until("the second question", || stage.requests().len() == 2)
        .await;
    stage
        .until("what it waits for", || stage.waits_for() == stage.open())
        .await;
    assert_eq!(stage.open().len(), 1, "the same name asks one thing");
    stage.agent.hears(Responded::Invalid {
        why: "as the script says".to_owned(),
    });
    let request_id = stage.accepts().await;
    stage
        .until("the refused answer", || stage.agent.answers().len() == 1)
        .await;
    stage
        .until("it is open again", || {
            stage.waits_for() == BTreeSet::from([request_id.clone()])
        })
        .await;
    stage.accepts().await;
    stage
        .until("nothing is open", || stage.waits_for().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn decision_at_codex_death_becomes_grant() {
    let stage = Stage::new();
    stage.asked(vec![asks("make")]).await;
    stage
        .until("the question", || !stage.open().is_empty())
        .await;
    stage.agent.hears(Responded::Disconnected);
    stage.accepts().await;
    let granted = || matches!(stage.requests()[0].state, RequestState::Granted(_));
    stage.until("the grant", granted).await;
}

/// A restart: the rows say that the turn runs, Codex has not asked again, and nobody follows it for a moment.
#[tokio::test(start_paused = true)]
async fn decision_before_reattach_becomes_grant() {
    let stage = Stage::new();
    stage.asked(vec![asks("make")]).await;
    stage
        .until("the question", || !stage.open().is_empty())
        .await;
    let followed = stage.daemon.turns.running.lock().remove(&message());
    assert!(followed.is_some());
    stage.agent.hears(Responded::Gone);
    stage.accepts().await;
    let settled = || !matches!(stage.requests()[0].state, RequestState::Decided(_));
    stage.until("what becomes of it", settled).await;
    let state = stage.requests()[0].state.clone();
    assert!(matches!(state, RequestState::Granted(_)), "{state:?}");
}

/// Until Codex confirms that it has the answer, the answer may have to be given again.
#[tokio::test(start_paused = true)]
async fn f5_a_secret_is_kept_until_confirmed() {
    let stage = Stage::new();
    let mut question = asks("what is the password?");
    question.method = "item/tool/requestUserInput".to_owned();
    question.kind = RequestKind::UserInput;
    question.wants = Wants::Text;
    question.secret_answer = true;
    let name = question.key.clone();
    stage.asked(vec![question]).await;
    stage
        .until("the question", || !stage.open().is_empty())
        .await;
    let verdict = RequestVerdict {
        by: bridge_core::value::DecidedBy::caller("ann"),
        answers: Some(r#"{"q": "hunter2"}"#.to_owned()),
        ..RequestVerdict::own(RequestDecision::Accept, "cli", Timestamp(0))
    };
    let decide = Decide {
        request_id: stage.open().pop_first().unwrap(),
        digest: None,
        verdict,
        authority: Authority::Owner,
    };
    stage.daemon.insist(decide).await.unwrap();
    stage
        .until("its answer", || !stage.agent.answers().is_empty())
        .await;
    let kept = || {
        let state = stage.requests()[0].state.clone();
        let RequestState::Decided(verdict) = state else {
            panic!("{state:?}");
        };
        verdict.answers.is_some()
    };
    assert!(!stage.reaches(Duration::from_secs(20), || !kept()).await);
    stage.agent.tells(TurnEvent::Confirmed(name));
    stage.until("it is forgotten", || !kept()).await;
}

/// Codex asks again and is answered between a failed answer and the commit that records the failure.
#[tokio::test(start_paused = true)]
async fn f10_stale_undelivered_report_grants_nothing() {
    let stage = Stage::new();
    stage.asked(vec![asks("make")]).await;
    stage
        .until("the question", || !stage.open().is_empty())
        .await;
    let request_id = stage.accepts().await;
    stage
        .until("its answer", || stage.agent.answers().len() == 1)
        .await;
    stage.agent.tells(TurnEvent::Request(asks("make")));
    stage
        .until("the second answer", || stage.agent.answers().len() == 2)
        .await;
    assert_eq!(stage.requests()[0].resends, 1);
    let late = AnswerUndelivered {
        request_id,
        because: UndeliveredReason::Cut,
        resends: 0,
    };
    stage.daemon.insist(late.clone()).await.unwrap();
    let state = stage.requests()[0].state.clone();
    assert!(matches!(state, RequestState::Decided(_)), "{state:?}");
    let newest = AnswerUndelivered { resends: 1, ..late };
    stage.daemon.insist(newest).await.unwrap();
    let state = stage.requests()[0].state.clone();
    assert!(matches!(state, RequestState::Granted(_)), "{state:?}");
}
