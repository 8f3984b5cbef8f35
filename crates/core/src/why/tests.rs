//! Every state has a sentence with an owner and a next step.

use super::*;
use crate::port::QueuePosition;
use crate::quota::QuotaCause;
use crate::value::{
    Class, ConversationId, Failure, Hold, LoanId, MessageId, QuotaWindow, ReplyKey, ReplyKind, Seq,
    StateName, TurnId,
};
use std::collections::BTreeSet;

fn case(state: MessageState) -> WhyRows {
    WhyRows {
        message: crate::fixture::message(state, |life| {
            life.attempt = 2;
            life.failure = Some(Failure::new(Class::Ambiguous, "the link broke"));
        }),
        turn: None,
        replies: Vec::new(),
        behind: None,
        followers: Vec::new(),
        lane: None,
        kept: None,
        slowed: None,
        position: None,
        answered_lately: 0,
        asked: Vec::new(),
        given_up: Vec::new(),
        loan: None,
    }
}

/// The message that goes first, in this state.
fn first(state: MessageState) -> Option<Box<Message>> {
    let mut first = crate::fixture::message(state, |_| {});
    first.message_id = MessageId::new("first");
    Some(Box::new(first))
}

fn reply(id: &str, state: ReplyState) -> Reply {
    Reply {
        message_id: MessageId::new(id),
        ordinal: 0,
        conversation_id: ConversationId::new("c"),
        seq: Seq(1),
        key: ReplyKey::new("key"),
        kind: ReplyKind::Answer,
        body: "yes".to_owned(),
        attachments: Vec::new(),
        state,
        tries: 3,
        first_try_at: None,
        created_at: Timestamp(0),
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

/// A state, and what is said of it: where it is, and what comes next.
type Said = (MessageState, &'static str, &'static str);

/// On the way to an answer, and what is said.
fn on_the_way() -> Vec<Said> {
    vec![
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
            "Codex's answer is stored as soon as the turn ends",
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
    ]
}

/// The rest of a life, and what is said.
fn later() -> Vec<Said> {
    vec![
        (
            MessageState::Steered {
                leader: MessageId::new("first"),
            },
            "its text was given to the running turn of message first, which may not have received it: the link broke; later messages wait behind it",
            "it is answered together with first; if that turn did not receive it, it gets its own",
        ),
        (
            MessageState::Parked {
                until: Timestamp(3_600_000),
                reason: "cut at a command".to_owned(),
            },
            "it waits for a person: cut at a command",
            "`codex-bridge retry m` goes on with it, `codex-bridge discard m` gives it up; it is given up in 60 min",
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
            MessageState::Done,
            "it was answered and the reply was delivered",
            "nothing",
        ),
        (
            MessageState::Dead {
                reason: "too old".to_owned(),
            },
            "it failed: too old",
            "a person decides: `codex-bridge retry m` sends it again, `codex-bridge discard m` gives it up",
        ),
        (
            MessageState::Cancelled {
                reason: "by me".to_owned(),
            },
            "it was stopped: by me",
            "nothing",
        ),
    ]
}

#[test]
fn lent_conversation_is_named_with_its_end() {
    let mut case = case(MessageState::Received { hold: None });
    let mut loan = Loan {
        loan_id: LoanId::new("l"),
        conversation_id: case.message.conversation_id.clone(),
        borrower: "local owner".to_owned(),
        since: Timestamp(0),
        until: Timestamp(60_000),
        error: None,
    };
    case.loan = Some(loan.clone());
    let why = explain(&case, Timestamp(0));
    assert!(why.now.contains("lent to local owner"), "{why:?}");
    assert!(why.next.contains("in 60 s"), "{why:?}");
    loan.error = Some("a terminal has it".to_owned());
    case.loan = Some(loan);
    let why = explain(&case, Timestamp(60_000));
    assert!(
        why.now.contains("takes it back: a terminal has it"),
        "{why:?}"
    );
}

#[test]
fn explains_every_message_state() {
    let mut explained = BTreeSet::new();
    for (state, now, next) in on_the_way().into_iter().chain(later()) {
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
fn follower_with_known_receipt_is_plain() {
    let leader = MessageId::new("first");
    let mut steered = case(MessageState::Steered { leader });
    steered.message.life.failure = None;
    let why = explain(&steered, Timestamp(0));
    assert_eq!(
        why.now,
        "its text was given to the running turn of message first"
    );
}

#[test]
fn a_stopped_message_says_who_stopped_it() {
    let mut stopped = case(MessageState::Starting);
    stopped.message.life.stop = Some("stopped by me".to_owned());
    let why = explain(&stopped, Timestamp(0));
    assert!(why.now.ends_with("; stopped by me"), "{}", why.now);
    assert!(why.next.starts_with("it ends as stopped"), "{}", why.next);
}

#[test]
fn explains_message_blocked_by_earlier_message() {
    let parked = MessageState::Parked {
        until: Timestamp(1),
        reason: "cut at a command".to_owned(),
    };
    for (state, now, next) in [
        (
            MessageState::Claimed,
            "it waits behind message first of the same conversation",
            "it is worked on when that one is answered",
        ),
        (
            hold(Class::Config, 15_000),
            "it waits behind message first of the same conversation, which waits: Codex is not logged in",
            "it is worked on when that one is answered",
        ),
        (
            parked,
            "it waits behind message first of the same conversation, which waits for a person: cut at a command",
            "`codex-bridge retry first` goes on with that one, `codex-bridge discard first` gives it up; then this one is worked on",
        ),
    ] {
        let mut behind = case(MessageState::Received { hold: None });
        behind.behind = first(state);
        let why = explain(&behind, Timestamp(0));
        assert_eq!((why.now.as_str(), why.next.as_str()), (now, next));
    }
}

#[test]
fn every_reason_of_the_scheduler_is_explained() {
    let mut explained = BTreeSet::new();
    for (kept, now, next) in [
        (
            Kept::Slots,
            "it waits: as many turns run as may at the same time (`daemon.turns_max`)",
            "the scheduler claims it when a turn has ended: people first, senders in turn, oldest first",
        ),
        (
            Kept::Reserved,
            "it waits: the places that are left are kept for the owner (`daemon.turns_reserved`)",
            "the scheduler claims it when a turn of somebody who is not a person has ended: senders in turn, oldest first",
        ),
        (
            Kept::Sender,
            "it waits: its sender has as many turns as one sender may at the same time (`daemon.turns_per_sender`)",
            "the scheduler claims it when a turn of that sender has ended",
        ),
        (
            Kept::Channel,
            "it waits: its channel has as many turns as it may at the same time (`daemon.turns_per_channel`)",
            "the scheduler claims it when a turn of that channel has ended",
        ),
        (
            Kept::Suspect,
            "it waits: Codex died while it worked on it, and another message like that is being tried",
            "the scheduler claims it when that one has ended: they are tried one at a time, so that the cause is found",
        ),
        (
            Kept::Writer,
            "it waits: another turn writes in its directory, where they take turns (`one_writer`)",
            "the scheduler claims it when that turn has ended",
        ),
        (
            Kept::NodeGone,
            "it waits: the node that worked on its conversation is gone, and the files that were written there with it (`fleet.on_node_lost`)",
            "it goes on when that node is back; `codex-bridge move` gives it to another one, without the files",
        ),
        (
            Kept::Lent,
            "it waits: its conversation is lent to a Codex terminal",
            "it is worked on when that terminal has ended; `codex-bridge return` ends the loan",
        ),
        (
            Kept::Quota,
            "it waits: most of the account's limit is used, so agents and programs take turns one at a time (`quota.slow_percent`)",
            "the scheduler claims it when its turn comes; `codex-bridge status` shows the limit",
        ),
    ] {
        explained.insert(kept);
        // A hold whose time is up says nothing any more.
        for state in [
            MessageState::Received { hold: None },
            hold(Class::Transient, 0),
        ] {
            let mut waiting = case(state);
            waiting.kept = Some(kept);
            let why = explain(&waiting, Timestamp(0));
            assert_eq!((why.now.as_str(), why.next.as_str()), (now, next));
        }
        let mut held = case(hold(Class::Transient, 9_000));
        held.kept = Some(kept);
        let why = explain(&held, Timestamp(0));
        assert_eq!(why.next, "the scheduler tries it again in 9 s");
    }
    assert_eq!(explained, Kept::ALL.into_iter().collect());
}

#[test]
fn explains_reply_blocked_by_earlier_reply() {
    let later = ReplyState::Queued {
        not_before: Some(Timestamp(5_000)),
    };
    let mut blocked = case(MessageState::Answered);
    blocked.lane = Some(Box::new(reply("first", later.clone())));
    let why = explain(&blocked, Timestamp(0));
    assert_eq!(
        why.now,
        "it is answered, and the answer is on disk; its reply waits for the one to message first of the same conversation"
    );
    assert_eq!(
        why.next,
        "for message first the reply is sent again in 5 s (after 3 tries); then this one goes out"
    );
    blocked.message.life.state = MessageState::Sending;
    let why = explain(&blocked, Timestamp(0));
    assert!(why.next.ends_with("then this one goes out"), "{why:?}");

    let mut own = case(MessageState::Sending);
    own.replies = vec![
        reply(
            "m",
            ReplyState::Sent {
                receipt: "r".to_owned(),
                at: Some(Timestamp(0)),
            },
        ),
        reply("m", later),
    ];
    let why = explain(&own, Timestamp(0));
    assert_eq!(why.now, "it is answered; 1 of 2 replies are delivered");
    assert_eq!(why.next, "the reply is sent again in 5 s (after 3 tries)");
}

#[test]
fn explains_texts_added_to_a_turn() {
    let mut leader = case(MessageState::Running {
        turn_id: TurnId::new("u"),
    });
    leader.followers = vec![MessageId::new("m2"), MessageId::new("m3")];
    let why = explain(&leader, Timestamp(0));
    assert_eq!(
        why.now,
        "attempt 2: Codex works on it (turn u); its turn was also given the text of m2, m3"
    );
}

#[test]
fn waits_only_for_imminent_progress() {
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

#[test]
fn explains_who_decides_open_requests() {
    let mut asked = case(MessageState::Running {
        turn_id: TurnId::new("t"),
    });
    asked.asked = vec![crate::fixture::request(RequestState::Open)];
    let Why { now, next } = explain(&asked, Timestamp(0));
    assert!(
        now.ends_with("waits for a decision, for token me (HTTP, tier owner): run make"),
        "{now}"
    );
    for words in [
        "codex-bridge approve k3v9qa",
        "declined in 60 min",
        "whoever sent it",
    ] {
        assert!(next.contains(words), "{words}: {next}");
    }
    asked.asked = vec![crate::fixture::request(RequestState::Orphaned)];
    let Why { now, next } = explain(&asked, Timestamp(0));
    assert!(
        now.contains("Codex died while it asked, for token me (HTTP, tier owner): run make"),
        "{now}"
    );
    assert!(next.contains("asks the same again"), "{next}");
}

#[test]
fn explains_place_in_queue() {
    let minute = 60_000;
    let mut waiting = case(hold(
        Class::Capacity {
            until: Some(Timestamp(10 * minute)),
        },
        10 * minute,
    ));
    waiting.position = Some(QueuePosition {
        ahead: 13,
        waiting: 203,
    });
    waiting.answered_lately = 30;
    let why = explain(&waiting, Timestamp(0));
    assert_eq!(
        why.next,
        "the scheduler tries it again in 10 min; position 14 of 203, expected in about 36 min"
    );
    waiting.answered_lately = 0;
    let why = explain(&waiting, Timestamp(0));
    assert!(why.next.ends_with("expected in about 10 min"), "{why:?}");

    let mut slow = case(MessageState::Received { hold: None });
    slow.kept = Some(Kept::Quota);
    slow.slowed = Some(QuotaWait {
        cause: QuotaCause::Slowed,
        window: Some(QuotaWindow {
            used_percent: 75,
            minutes: Some(300),
            resets_at: Some(Timestamp(200 * minute)),
        }),
        until: Timestamp(12 * minute),
    });
    slow.position = Some(QueuePosition {
        ahead: 0,
        waiting: 1,
    });
    let why = explain(&slow, Timestamp(0));
    assert_eq!(
        (why.now.as_str(), why.next.as_str()),
        (
            "it waits: 75 % of the account's 5-hour limit are used, so agents and programs take turns one at a time, spread up to the reset (`quota.slow_percent`)",
            "the next of them begins in 12 min; position 1 of 1, expected in about 12 min",
        )
    );
}
