//! Events of a task as its messages proceed: a subscriber sees every one of them in order, whenever it connects.

use super::*;
use crate::fixture;
use crate::value::{
    Answer, AnswerSource, ChannelId, ConversationId, Deciders, Failure, Hold, MessageState,
    Request, RequestId, RequestKind, RequestState, Task, Tier,
};

fn one(name: &str, came: i64, state: MessageState, attempt: u32) -> TaskMessage {
    let mut message = fixture::message(state, |life| life.attempt = attempt);
    message.message_id = MessageId::new(name);
    message.tier = Tier::Peer;
    message.received_at = Timestamp(came);
    message.life.updated_at = Timestamp(came + 100);
    TaskMessage {
        message,
        answer: None,
        files: Vec::new(),
        requests: Vec::new(),
        notice: None,
    }
}

fn answered(name: &str, came: i64, at: i64, text: &str) -> TaskMessage {
    TaskMessage {
        answer: Some(Answer {
            message_id: MessageId::new(name),
            attempt: 1,
            source: AnswerSource::Live,
            text: text.to_owned(),
            created_at: Timestamp(at),
        }),
        ..one(name, came, MessageState::Done, 1)
    }
}

fn received() -> MessageState {
    MessageState::Received { hold: None }
}

fn asks(deciders: Deciders) -> Request {
    Request {
        request_id: RequestId::new("r"),
        message_id: MessageId::new("m1"),
        kind: RequestKind::UserInput,
        deciders,
        ..fixture::request(RequestState::Open)
    }
}

fn timeline(messages: Vec<TaskMessage>) -> Timeline {
    let task = Task {
        task_id: TaskId::new("e"),
        channel: ChannelId::new("a2a"),
        conversation_id: ConversationId::new("c"),
        owner: "ann".to_owned(),
        sequence: 0,
        created_at: Timestamp(0),
        start: None,
    };
    Timeline {
        view: TaskSnapshot {
            task,
            context: "ann/x".to_owned(),
            changed_at: Timestamp(5),
            inputs: Vec::new(),
            messages,
        },
        began: Some(Timestamp(5)),
    }
}

/// All that a receiver hears behind a mark, as it would be sent; also that this comes to an end.
fn delivered(timeline: &Timeline, mark: Option<&str>) -> Vec<String> {
    let task_events = timeline.task_events();
    let mut mark = mark.map(ToOwned::to_owned);
    let mut delivered = Vec::new();
    while let Some(task_event) = behind(&task_events, mark.as_deref()) {
        mark = Some(task_event.mark.clone());
        delivered.push(task_event.mark.clone());
        assert!(
            delivered.len() <= task_events.len(),
            "it never ends: {delivered:?}"
        );
    }
    delivered
}

#[test]
fn task_events_cover_each_step_once() {
    let life = [
        one("m1", 1, received(), 0),
        one("m1", 1, MessageState::Claimed, 1),
        one("m1", 1, MessageState::Starting, 1),
        answered("m1", 1, 9, "42"),
    ];
    let mut mark = None;
    let mut all = Vec::new();
    for step in life {
        let now = delivered(&timeline(vec![step]), mark.as_deref());
        mark = now.last().cloned().or(mark);
        all.extend(now);
    }
    assert_eq!(
        all,
        ["m1/submitted", "m1/working", "m1/answer", "m1/completed"]
    );
    let late = timeline(vec![answered("m1", 1, 9, "42")]);
    assert_eq!(
        delivered(&late, None),
        all,
        "a receiver that was away gets the same"
    );
    assert!(late.over());
    let never_seen = Timeline {
        began: None,
        ..late
    };
    assert_eq!(
        delivered(&never_seen, None),
        all,
        "its first attempt had no turn"
    );
}

#[test]
fn answered_input_request_is_still_published() {
    let asked = answered("m1", 1, 9, "which one?\n[input-required]");
    let waits = timeline(vec![asked.clone()]);
    let marks = [
        "m1/submitted",
        "m1/working",
        "m1/answer",
        "m1/input-required",
    ];
    assert_eq!(delivered(&waits, None), marks);
    assert!(!waits.over());
    let on = timeline(vec![asked.clone(), one("m2", 20, received(), 0)]);
    assert_eq!(delivered(&on, Some("m1/input-required")), ["m2/working"]);
    let done = timeline(vec![asked, answered("m2", 20, 30, "that one")]);
    let rest = ["m2/working", "m2/answer", "m2/completed"];
    assert_eq!(delivered(&done, None), [&marks[..], &rest].concat());
}

/// The second word came while the first one was worked on: its answer comes behind it, and is delivered.
#[test]
fn what_was_told_never_moves() {
    let running = || one("m1", 1, MessageState::Starting, 1);
    let both = timeline(vec![running(), one("m2", 7, received(), 0)]);
    let marks = delivered(&both, None);
    assert_eq!(marks, ["m1/submitted", "m1/working", "m2/working"]);
    let one_done = timeline(vec![
        answered("m1", 1, 9, "one"),
        one("m2", 7, received(), 0),
    ]);
    assert_eq!(delivered(&one_done, Some("m2/working")), ["m1/answer"]);
    let done = timeline(vec![
        answered("m1", 1, 9, "one"),
        answered("m2", 7, 12, "two"),
    ]);
    assert_eq!(
        delivered(&done, Some("m1/answer")),
        ["m2/answer", "m2/completed"]
    );
}

#[test]
fn only_open_approvals_are_published() {
    let mut asking = one("m1", 1, MessageState::Starting, 1);
    for (deciders, mark) in [
        (Deciders::Owner, "m1/r/auth-required"),
        (Deciders::Sender, "m1/r/input-required"),
    ] {
        asking.requests = vec![asks(deciders)];
        let open = timeline(vec![asking.clone()]);
        assert_eq!(delivered(&open, Some("m1/working")), [mark]);
        let running = one("m1", 1, MessageState::Starting, 1);
        let on = timeline(vec![running]);
        assert_eq!(delivered(&on, Some(mark)), ["m1/working"]);
        let done = timeline(vec![answered("m1", 1, 9, "42")]);
        assert_eq!(
            delivered(&done, Some(mark)),
            ["m1/working", "m1/answer", "m1/completed"]
        );
        assert_eq!(delivered(&done, Some("m1/working")).len(), 2);
    }
}

#[test]
fn retries_are_silent_but_redrives_published() {
    let hold = Some(Hold {
        until: Timestamp(99),
        failure: Failure::new(crate::value::Class::Transient, "busy"),
    });
    let waits = timeline(vec![one("m1", 1, MessageState::Received { hold }, 1)]);
    assert_eq!(delivered(&waits, Some("m1/working")), [""; 0]);
    let reason = "broken".to_owned();
    let dead = timeline(vec![one("m1", 1, MessageState::Dead { reason }, 1)]);
    assert_eq!(delivered(&dead, Some("m1/working")), ["m1/failed"]);
    let again = timeline(vec![one("m1", 1, MessageState::Claimed, 2)]);
    assert_eq!(delivered(&again, Some("m1/failed")), ["m1/working"]);
    let done = timeline(vec![answered("m1", 1, 9, "42")]);
    assert_eq!(
        delivered(&done, Some("m1/failed")),
        ["m1/working", "m1/answer", "m1/completed"]
    );
    let reason = "too many".to_owned();
    let never = timeline(vec![one("m1", 1, MessageState::Dead { reason }, 0)]);
    assert_eq!(delivered(&never, None), ["m1/submitted", "m1/rejected"]);
}

/// The end would be delivered twice by a task_event that has nothing else to say.
#[test]
fn answer_is_published_once_if_any() {
    let mut steered = answered("m2", 7, 9, "42");
    if let Some(answer) = &mut steered.answer {
        answer.source = AnswerSource::Shared;
    }
    let both = timeline(vec![answered("m1", 1, 9, "42"), steered.clone()]);
    let marks = ["m1/submitted", "m1/working", "m2/working", "m1/answer"];
    assert_eq!(
        delivered(&both, None),
        [&marks[..], &["m2/completed"]].concat()
    );
    let alone = timeline(vec![steered]);
    let marks = ["m2/submitted", "m2/working", "m2/answer", "m2/completed"];
    assert_eq!(
        delivered(&alone, None),
        marks,
        "the turn was another task's"
    );
    let silent = timeline(vec![answered("m1", 1, 9, "[rejected]")]);
    let marks = ["m1/submitted", "m1/working", "m1/rejected"];
    assert_eq!(delivered(&silent, None), marks);
}
