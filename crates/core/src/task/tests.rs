//! Every state of a message, alone and behind another one, and every question, with how the task then stands.

use super::A2aState::{
    AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working,
};
use super::*;
use crate::channels;
use crate::fixture;
use crate::phase::Phase;
use crate::value::{
    AnswerSource, ChannelId, Class, ConversationId, Deciders, ExternalId, Failure, Message,
    MessageId, RequestKind, RequestState, StateName, Tier, TurnId, Wants,
};

fn held() -> Option<Hold> {
    Some(Hold {
        until: Timestamp(9),
        failure: Failure::new(Class::Config, "no login"),
    })
}

fn one(state: MessageState, attempt: u32, answer: Option<&str>) -> TaskMessage {
    let mut message = fixture::message(state, |life| life.attempt = attempt);
    message.tier = Tier::Peer;
    TaskMessage {
        answer: answer.map(|text| Answer {
            message_id: message.message_id.clone(),
            attempt,
            source: AnswerSource::Live,
            text: text.to_owned(),
            created_at: Timestamp(0),
        }),
        files: Vec::new(),
        requests: Vec::new(),
        notice: None,
        message,
    }
}

fn stands(messages: Vec<TaskMessage>) -> (A2aState, Option<String>) {
    let view = TaskSnapshot {
        task: Task {
            task_id: TaskId::new("e"),
            channel: ChannelId::new("a2a"),
            conversation_id: ConversationId::new("c"),
            owner: "peer".to_owned(),
            sequence: 0,
            created_at: Timestamp(0),
            start: None,
        },
        context: "peer/c".to_owned(),
        inputs: Vec::new(),
        messages,
        changed_at: Timestamp(7),
    };
    let Stand { state, why, at } = view.now();
    assert_eq!(at, Timestamp(7));
    (state, why)
}

/// A message in this state as it would be: attempted where it must have been, answered where it is.
fn usual(state: StateName) -> TaskMessage {
    let reason = || "it broke".to_owned();
    let (state, attempt, answer) = match state {
        StateName::Received => (MessageState::Received { hold: None }, 0, None),
        StateName::Claimed => (MessageState::Claimed, 1, None),
        StateName::Starting => (MessageState::Starting, 1, None),
        StateName::Running => {
            let turn_id = TurnId::new("t");
            (MessageState::Running { turn_id }, 1, None)
        }
        StateName::Unclear => (MessageState::Unclear { hold: None }, 1, None),
        StateName::Steered => {
            let leader = MessageId::new("other");
            (MessageState::Steered { leader }, 1, None)
        }
        StateName::Parked => {
            let (until, reason) = (Timestamp(9), reason());
            (MessageState::Parked { until, reason }, 1, None)
        }
        StateName::Answered => (MessageState::Answered, 1, Some("yes")),
        StateName::Sending => (MessageState::Sending, 1, Some("yes")),
        StateName::Done => (MessageState::Done, 1, Some("yes")),
        StateName::Dead => (MessageState::Dead { reason: reason() }, 1, None),
        StateName::Cancelled => (MessageState::Cancelled { reason: reason() }, 0, None),
    };
    one(state, attempt, answer)
}

#[test]
fn message_state_maps_to_task_state() {
    for (state, alone, behind_an_answer) in [
        (StateName::Received, Submitted, Working),
        (StateName::Claimed, Working, Working),
        (StateName::Starting, Working, Working),
        (StateName::Running, Working, Working),
        (StateName::Unclear, Working, Working),
        (StateName::Steered, Working, Working),
        (StateName::Parked, AuthRequired, AuthRequired),
        (StateName::Answered, Completed, Completed),
        (StateName::Sending, Completed, Completed),
        (StateName::Done, Completed, Completed),
        (StateName::Dead, Failed, Failed),
        (StateName::Cancelled, Canceled, Canceled),
    ] {
        assert_eq!(stands(vec![usual(state)]).0, alone, "{state:?}");
        let answered = one(MessageState::Done, 1, Some("Which?\n[input-required]"));
        let chain = vec![answered, usual(state)];
        assert_eq!(stands(chain).0, behind_an_answer, "{state:?} behind");
        // What is not over goes before what is, wherever it stands in the chain.
        if state.awaits_answer() {
            let chain = vec![usual(state), usual(StateName::Done)];
            assert_eq!(stands(chain).0, alone, "{state:?} first");
        }
    }
}

/// Every state of a message with every request: A2A's state and the control surfaces' status.
#[test]
fn message_and_request_decide_both_projections() {
    let base = [
        (StateName::Received, Submitted, ControlStatus::Queued),
        (StateName::Claimed, Working, ControlStatus::Starting),
        (StateName::Starting, Working, ControlStatus::Starting),
        (StateName::Running, Working, ControlStatus::Working),
        (StateName::Unclear, Working, ControlStatus::Unclear),
        (StateName::Steered, Working, ControlStatus::Working),
        (StateName::Parked, AuthRequired, ControlStatus::Parked),
        (StateName::Answered, Completed, ControlStatus::Completed),
        (StateName::Sending, Completed, ControlStatus::Completed),
        (StateName::Done, Completed, ControlStatus::Completed),
        (StateName::Dead, Failed, ControlStatus::Failed),
        (StateName::Cancelled, Canceled, ControlStatus::Cancelled),
    ];
    let approval = (RequestKind::Command, Deciders::Owner, Wants::Approval);
    let question = (RequestKind::UserInput, Deciders::Sender, Wants::Text);
    let guarded = (RequestKind::UserInput, Deciders::Owner, Wants::Text);
    for (name, a2a, control) in base {
        let found = TaskState::derive(&[usual(name)], false);
        assert_eq!((found.a2a(), found.control()), (a2a, control), "{name:?}");
        for (request, a2a_asked, control_asked) in [
            (&approval, AuthRequired, ControlStatus::WaitingForApproval),
            (&question, InputRequired, ControlStatus::WaitingForUserInput),
            (&guarded, AuthRequired, ControlStatus::WaitingForUserInput),
        ] {
            for (state, waits) in [
                (RequestState::Open, true),
                (RequestState::Orphaned, true),
                (RequestState::Withdrawn { why: String::new() }, false),
            ] {
                let mut one = usual(name);
                one.requests = vec![Request {
                    kind: request.0.clone(),
                    deciders: request.1,
                    wants: request.2,
                    ..fixture::request(state)
                }];
                let found = TaskState::derive(&[one], false);
                // The end of a turn withdraws its requests.
                let expected = if waits && name.awaits_answer() {
                    (a2a_asked, control_asked)
                } else {
                    (a2a, control)
                };
                assert_eq!(
                    (found.a2a(), found.control()),
                    expected,
                    "{name:?} {request:?}"
                );
            }
        }
    }
}

/// An approval and a question at once: A2A shows what the sender may answer, control the first.
#[test]
fn two_requests_are_projected_apart() {
    let mut one = usual(StateName::Running);
    one.requests = vec![
        Request {
            kind: RequestKind::Command,
            wants: Wants::Approval,
            deciders: Deciders::Owner,
            ..fixture::request(RequestState::Open)
        },
        Request {
            kind: RequestKind::UserInput,
            wants: Wants::Text,
            deciders: Deciders::Sender,
            ..fixture::request(RequestState::Open)
        },
    ];
    let found = TaskState::derive(&[one], false);
    let expected = (InputRequired, ControlStatus::WaitingForApproval);
    assert_eq!((found.a2a(), found.control()), expected);
}

#[test]
fn a_question_of_any_message_decides() {
    let mut first = usual(StateName::Running);
    let second = usual(StateName::Received);
    assert_eq!(phase(&[]), Phase::Queued);
    assert_eq!(
        phase(&[usual(StateName::Done), second.clone()]),
        Phase::Queued
    );
    assert_eq!(phase(&[first.clone(), second.clone()]), Phase::Working);
    first.requests = vec![fixture::request(RequestState::Open)];
    assert_eq!(phase(&[first, second]), Phase::WaitingForYou);
    assert_eq!(phase(&[usual(StateName::Dead)]), Phase::Failed);
}

#[test]
fn task_that_failed_elsewhere_shows_failed() {
    let mut old = usual(StateName::Cancelled);
    old.message.channel = ChannelId::new(channels::TASK);
    old.message.external_id = ExternalId::new(format!("{}codex-1", Message::IMPORTED));
    assert_eq!(phase(std::slice::from_ref(&old)), Phase::Stopped);
    old.message.life.failure = Some(Failure::new(Class::Permanent, "its process is gone"));
    assert_eq!(phase(std::slice::from_ref(&old)), Phase::Failed);
    let derived = TaskState::derive(&[old], false);
    assert_eq!(derived.control(), ControlStatus::Failed);
}

/// Answers and ends beside the plain ones: an answer that asks back completes a task for the control surfaces.
#[test]
fn answers_and_ends_decide_both_projections() {
    let dead = |reason: &str| MessageState::Dead {
        reason: reason.to_owned(),
    };
    let asks = || one(MessageState::Done, 1, Some("Which?\n[input-required]"));
    for (messages, ended, a2a, control) in [
        (vec![asks()], false, InputRequired, ControlStatus::Completed),
        (vec![asks()], true, Canceled, ControlStatus::Cancelled),
        (
            vec![one(MessageState::Done, 1, Some("No.\n[rejected]"))],
            false,
            Rejected,
            ControlStatus::Completed,
        ),
        (
            vec![one(dead("x"), 0, None)],
            false,
            Rejected,
            ControlStatus::Failed,
        ),
        (
            vec![one(dead("x"), 1, Some("yes"))],
            false,
            Completed,
            ControlStatus::Completed,
        ),
        (
            vec![usual(StateName::Done), usual(StateName::Received)],
            false,
            Working,
            ControlStatus::Queued,
        ),
        (
            vec![usual(StateName::Dead), usual(StateName::Done)],
            true,
            Completed,
            ControlStatus::Completed,
        ),
        (Vec::new(), false, Submitted, ControlStatus::Queued),
    ] {
        let found = TaskState::derive(&messages, ended);
        assert_eq!(
            (found.a2a(), found.control()),
            (a2a, control),
            "{messages:?}"
        );
    }
}

#[test]
fn an_answer_says_what_it_is() {
    for (answer, state, why) in [
        (Some("done"), Completed, None),
        (Some("hello\n[message]"), Completed, None),
        (
            Some("Which?\n[input-required]"),
            InputRequired,
            Some("Which?"),
        ),
        (Some("No.\n[rejected]"), Rejected, Some("No.")),
        (None, Completed, None),
    ] {
        let why = why.map(str::to_owned);
        let found = stands(vec![one(MessageState::Done, 1, answer)]);
        assert_eq!(found, (state, why), "{answer:?}");
    }
    assert_eq!(stands(Vec::new()), (Submitted, None));
}

#[test]
fn what_waits_or_failed_says_why() {
    let waits = |hold| MessageState::Received { hold };
    let dead = || MessageState::Dead {
        reason: "it broke".to_owned(),
    };
    for (message, state, why) in [
        (one(waits(held()), 0, None), Submitted, Some("no login")),
        (one(waits(held()), 1, None), Working, Some("no login")),
        (one(waits(None), 2, None), Working, None),
        (
            one(MessageState::Unclear { hold: held() }, 1, None),
            Working,
            Some("no login"),
        ),
        (one(dead(), 0, None), Rejected, Some("it broke")),
        (one(dead(), 3, None), Failed, Some("it broke")),
        (one(dead(), 1, Some("yes")), Completed, None),
        (usual(StateName::Parked), AuthRequired, Some("it broke")),
        (usual(StateName::Cancelled), Canceled, Some("it broke")),
    ] {
        let found = stands(vec![message]);
        assert_eq!(found, (state, why.map(str::to_owned)));
    }
}

fn asks(kind: RequestKind, deciders: Deciders, state: RequestState) -> Request {
    Request {
        headline: format!("{} {}", kind.as_str(), deciders.as_str()),
        kind,
        deciders,
        ..fixture::request(state)
    }
}

#[test]
fn approval_state_depends_on_who_decides() {
    use Deciders::{Owner, Sender};
    use RequestKind::{Command, UserInput};
    let owners = "For token me (HTTP, tier peer): waits for the owner of this bridge to decide: whether a command may run";
    for (requests, state, why) in [
        (
            vec![(Command, Sender, RequestState::Open)],
            AuthRequired,
            Some(owners),
        ),
        (
            vec![(UserInput, Owner, RequestState::Open)],
            AuthRequired,
            Some(
                "For token me (HTTP, tier peer): waits for the owner of this bridge to decide: a question to the user",
            ),
        ),
        (
            vec![(UserInput, Sender, RequestState::Orphaned)],
            InputRequired,
            Some("user_input sender"),
        ),
        (
            vec![
                (Command, Sender, RequestState::Open),
                (UserInput, Sender, RequestState::Open),
            ],
            InputRequired,
            Some("user_input sender"),
        ),
        (
            vec![(
                UserInput,
                Sender,
                RequestState::Withdrawn {
                    why: "gone".to_owned(),
                },
            )],
            Working,
            None,
        ),
    ] {
        for running in [StateName::Running, StateName::Unclear] {
            let mut message = usual(running);
            let all = requests.iter().cloned();
            message.requests = all
                .map(|(kind, who, state)| asks(kind, who, state))
                .collect();
            let found = stands(vec![message]);
            assert_eq!(found, (state, why.map(str::to_owned)), "{requests:?}");
        }
    }
    let mut over = usual(StateName::Done);
    over.requests = vec![asks(UserInput, Sender, RequestState::Open)];
    assert_eq!(stands(vec![over]).0, Completed, "nobody waits any more");
}

#[test]
fn owner_approval_is_input_required() {
    let mut message = usual(StateName::Running);
    message.message.tier = Tier::Owner;
    let command = asks(RequestKind::Command, Deciders::Owner, RequestState::Open);
    message.requests = vec![command];
    assert_eq!(stands(vec![message]).0, InputRequired);
}

#[test]
fn f10_peers_see_no_local_paths() {
    const PATH: &str = "/root/.local/state/codex-bridge";
    let why = |tier: Tier, state: StateName, change: &dyn Fn(&mut TaskMessage)| {
        let mut one = usual(state);
        one.message.tier = tier;
        change(&mut one);
        stands(vec![one]).1.unwrap_or_default()
    };
    let asked = |one: &mut TaskMessage| {
        let mut request = asks(RequestKind::Command, Deciders::Owner, RequestState::Open);
        request.headline = format!("run cat {PATH}/token");
        one.requests = vec![request];
    };
    let dead = |one: &mut TaskMessage| {
        let reason = format!("can't read {PATH}/ledger.db");
        one.message.life.state = MessageState::Dead { reason };
    };
    for (state, change) in [
        (StateName::Running, &asked as &dyn Fn(&mut TaskMessage)),
        (StateName::Dead, &dead),
    ] {
        let owner = why(Tier::Owner, state, change);
        assert!(owner.contains(PATH), "{owner}");
        let peer = why(Tier::Peer, state, change);
        assert!(!peer.is_empty() && !peer.contains("/root"), "{peer}");
    }
}
