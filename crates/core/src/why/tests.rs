//! Every state has a sentence with an owner and a next step.

use super::*;
use crate::value::{Class, Failure, Hold, StateName, TurnId};
use std::collections::BTreeSet;

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
    let mut explained = BTreeSet::new();
    for (state, now, next) in [
        (
            MessageState::Received { hold: None },
            "it is on disk and waits for a free turn",
            "the scheduler claims it: people first, senders in turn, oldest first",
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
            MessageState::Unclear { hold: None },
            "the end of attempt 2 was not seen: the link broke",
            "the bridge reads the thread's history and decides; nothing is run again blindly",
        ),
        (
            MessageState::Unclear {
                hold: hold(Class::Config, 60_000).hold().cloned(),
            },
            "the end of attempt 2 was not seen, and can't be looked up yet: Codex is not logged in",
            "the bridge looks again in 60 s; other conversations go on meanwhile",
        ),
        (
            MessageState::Steered {
                leader: MessageId::new("first"),
            },
            "its text was given to the running turn of message first",
            "it is answered together with first; if that turn did not hear it, it gets its own",
        ),
        (
            MessageState::Parked {
                until: Timestamp(3_600_000),
                reason: "cut at a command".to_owned(),
            },
            "it waits for a person: cut at a command",
            "`codex-bridge dead redrive m` goes on with it, `codex-bridge dead drop m` gives it up; it is given up in 60 min",
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
            "a person decides: `codex-bridge dead redrive m` sends it again, `codex-bridge dead drop m` gives it up",
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
        explained.insert(name);
        let why = explain(&case(state), Timestamp(0));
        assert_eq!(
            (why.now.as_str(), why.next.as_str()),
            (now, next),
            "{name:?}"
        );
    }
    assert_eq!(explained, StateName::ALL.into_iter().collect());
}

#[test]
fn a_stopped_message_says_who_stopped_it() {
    let mut stopped = case(MessageState::Starting);
    stopped.message.life.stop = Some("stopped by me".to_owned());
    let why = explain(&stopped, Timestamp(0));
    assert!(why.now.ends_with("; stopped by me"), "{}", why.now);
    assert!(why.next.starts_with("it ends as cancelled"), "{}", why.next);
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
    assert!(worth(MessageState::Unclear { hold: None }));
    assert!(!worth(MessageState::Unclear {
        hold: hold(Class::Config, 15_000).hold().cloned(),
    }));
    assert!(worth(hold(Class::Transient, 4_000)));
    assert!(worth(hold(Class::Capacity { until: None }, 60_000)));
    assert!(!worth(hold(Class::Capacity { until: None }, 3_600_000)));
    assert!(!worth(hold(Class::Config, 15_000)));
    assert!(!worth(MessageState::Done));
}
