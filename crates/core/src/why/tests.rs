//! Every state has a sentence with an owner and a next step.

use super::*;
use crate::value::{Class, Failure, Hold, TurnId};

fn case(state: MessageState) -> Case {
    Case {
        message: crate::fixture::message(state, |life| {
            life.attempt = 2;
            life.failure = Some(Failure::new(Class::Ambiguous, "the link broke"));
        }),
        turn: None,
        replies: Vec::new(),
        behind: None,
    }
}

fn hold(class: Class, until: i64) -> MessageState {
    let failure = Failure::new(class, "Codex is not logged in");
    MessageState::Received {
        hold: Some(Hold {
            until: Timestamp(until),
            failure,
        }),
    }
}

#[test]
fn every_state_says_where_it_is_and_what_comes_next() {
    for (state, now, next) in [
        (
            MessageState::Received { hold: None },
            "it is on disk and waits for a free turn",
            "the scheduler claims it, people first, oldest first",
        ),
        (
            hold(Class::Config, 15_000),
            "it waits: Codex is not logged in",
            "the scheduler tries it again in 15 s",
        ),
        (
            MessageState::Claimed,
            "attempt 2: the bridge makes Codex and the conversation's thread ready",
            "its turn is written down, then given to Codex",
        ),
        (
            MessageState::Starting,
            "attempt 2: its turn is written down and is being given to Codex",
            "Codex names the turn; if that is not seen, the bridge looks what became of it",
        ),
        (
            MessageState::Running {
                turn_id: TurnId::new("u"),
            },
            "attempt 2: Codex works on it (turn u)",
            "Codex's answer is journaled as soon as the turn ends",
        ),
        (
            MessageState::Unclear,
            "the end of attempt 2 was not seen: the link broke",
            "the bridge reads the thread's history and decides; nothing is run again blindly",
        ),
        (
            MessageState::Answered,
            "it is answered, and the answer is on disk",
            "the reply goes out when its place in the conversation's lane comes",
        ),
        (
            MessageState::Sending,
            "it is answered; 0 of 0 replies are delivered",
            "the platform's receipt for the reply is awaited",
        ),
        (
            MessageState::Replied,
            "the reply was delivered",
            "the source is told that the message is finished",
        ),
        (
            MessageState::Done,
            "it was answered and the reply was delivered",
            "nothing",
        ),
        (
            MessageState::Dead {
                reason: "too old".to_owned(),
            },
            "it is a dead letter: too old",
            "a person decides; the text is kept and can be sent again",
        ),
        (
            MessageState::Cancelled {
                reason: "by me".to_owned(),
            },
            "it was cancelled: by me",
            "nothing",
        ),
    ] {
        let name = state.name();
        let why = explain(&case(state), Timestamp(0));
        assert_eq!(
            (why.now.as_str(), why.next.as_str()),
            (now, next),
            "{name:?}"
        );
    }
}

#[test]
fn a_message_behind_another_names_it() {
    let mut behind = case(MessageState::Received { hold: None });
    behind.behind = Some(MessageId::new("first"));
    let why = explain(&behind, Timestamp(0));
    assert_eq!(
        why.now,
        "it waits behind message first of the same conversation"
    );
}

#[test]
fn people_wait_for_what_comes_by_itself_soon() {
    let worth = |state| worth_waiting(&case(state).message, Timestamp(0));
    assert!(worth(MessageState::Received { hold: None }));
    assert!(worth(MessageState::Unclear));
    let mut blind = case(MessageState::Unclear).message;
    blind.life.failure = Some(Failure::new(Class::Config, "no login"));
    assert!(!worth_waiting(&blind, Timestamp(0)));
    assert!(worth(hold(Class::Transient, 4_000)));
    assert!(worth(hold(Class::Capacity { until: None }, 60_000)));
    assert!(!worth(hold(Class::Capacity { until: None }, 3_600_000)));
    assert!(!worth(hold(Class::Config, 15_000)));
    assert!(!worth(MessageState::Done));
}
