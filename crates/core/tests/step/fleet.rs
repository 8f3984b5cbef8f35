//! Several nodes over one ledger: whose conversations are whose, and what happens when a node is gone.

use crate::fixture;
use crate::rows::{Given, turn};
use bridge_core::port::{
    Change, FleetChange, FleetRead, Kept, Ledger, LedgerError, Read, TurnHistory,
};
use bridge_core::step::{
    Claim, ClaimOutcome, Lend, LendOutcome, MoveConversation, MoveOutcome, Pace, Reconcile,
    Release, Resume, Send, SendOutcome, SetNodeState, StoreSegments, TakeOver, Transition,
    TurnsPerSender,
};
use bridge_core::value::{
    BootId, ConversationId, CutPolicy, ExternalId, Home, LoanId, Message, MessageId, MessageState,
    NextInput, NodeId, NodeInfo, NodeState, Reply, ReplyKey, ReplyKind, ReplyState, Sandbox,
    Segment, Seq, StateName, ThreadId, Timestamp, TurnId,
};
use bridge_core::why;
use bridge_testkit::MemoryLedger;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const LEASE_MS: i64 = 10_000;

fn a() -> NodeId {
    NodeId::new("a")
}

fn b() -> NodeId {
    NodeId::new("b")
}

fn conversation() -> ConversationId {
    ConversationId::new("c")
}

fn claim(leave_written: bool) -> Claim {
    Claim {
        turns_max: 1,
        turns_reserved: 0,
        turns_per_channel: 4,
        per_sender: Arc::new(TurnsPerSender::UNLIMITED),
        one_writer: Vec::new(),
        readers: Vec::new(),
        budgets: Arc::default(),
        leave_written,
        now: Timestamp(100),
    }
}

/// Two nodes over the same rows.
struct Fleet {
    ledger: MemoryLedger,
    a: MemoryLedger,
    b: MemoryLedger,
}

impl Fleet {
    fn over(given: Given) -> Self {
        let ledger = MemoryLedger::over(given.rows());
        let join = |id| ledger.join(&id, NodeInfo::default(), LEASE_MS).unwrap();
        Self {
            a: join(a()),
            b: join(b()),
            ledger,
        }
    }

    fn waiting() -> Self {
        let waiting = MessageState::Received { hold: None };
        Self::over(Given::message(fixture::message(waiting, |_| {})))
    }

    /// A message that waits on `a`, where an earlier turn wrote files.
    fn written() -> Self {
        let waiting = MessageState::Received { hold: None };
        let message = fixture::message(waiting, |life| life.attempt = 1);
        let given = Given::message(message).turn(turn(Sandbox::WorkspaceWrite, true));
        Self::over(given.with(home(&a(), 1)))
    }

    /// A message whose turn runs on `a`, with what that turn may have done.
    fn running(touched: bool) -> Self {
        let running = MessageState::Running {
            turn_id: TurnId::new("u"),
        };
        let message = fixture::message(running, |life| life.attempt = 1);
        let given = Given::message(message).turn(turn(Sandbox::WorkspaceWrite, touched));
        let fleet = Self::over(given.with(home(&a(), 1)));
        assert_eq!(fleet.home().generation, 1);
        fleet
    }

    /// The lease of `a` ends; `b` renews its own.
    fn lapse_a(&self) {
        self.ledger.set_clock(Timestamp(LEASE_MS - 1)).unwrap();
        run(&self.b, release(false)).unwrap();
        self.ledger.set_clock(Timestamp(LEASE_MS)).unwrap();
    }

    fn home(&self) -> Home {
        let rows = self.ledger.snapshot().unwrap();
        rows.home(&conversation()).unwrap().unwrap()
    }

    fn message(&self) -> Message {
        let rows = self.ledger.snapshot().unwrap();
        rows.message(&MessageId::new("m")).unwrap().unwrap()
    }
}

fn home(node_id: &NodeId, generation: u32) -> Change {
    Change::Fleet(FleetChange::Home {
        from: None,
        to: Home {
            conversation_id: conversation(),
            node_id: Some(node_id.clone()),
            generation,
            since: Timestamp(0),
        },
    })
}

fn queued_reply() -> Change {
    let message_id = MessageId::new("m");
    Change::NewReply(Reply {
        key: ReplyKey::of(&message_id, 0),
        message_id,
        ordinal: 0,
        conversation_id: conversation(),
        seq: Seq(1),
        kind: ReplyKind::Answer,
        body: "done".to_owned(),
        attachments: Vec::new(),
        state: ReplyState::Queued { not_before: None },
        tries: 0,
        first_try_at: None,
        created_at: Timestamp(0),
    })
}

fn run<T: Transition>(on: &MemoryLedger, transition: T) -> Result<T::Outcome, LedgerError> {
    let ran = pin!(on.transact(transition, Timestamp(100)));
    match ran.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(committed) => committed.map(|committed| committed.outcome),
        Poll::Pending => panic!("rows in memory wait for nothing"),
    }
}

fn release(leave_written: bool) -> Release {
    Release {
        after: None,
        limit: 10,
        leave_written,
    }
}

fn take_over(leave_written: bool) -> TakeOver {
    TakeOver {
        limit: 10,
        leave_written,
    }
}

fn reconcile(found: TurnHistory) -> Reconcile {
    Reconcile {
        message_id: MessageId::new("m"),
        found,
        boot_id: BootId::new("boot"),
        attachments: Vec::new(),
        reply_max_chars: None,
        on_cut: CutPolicy::Continue,
        pace: Pace {
            backoff_base_ms: 1,
            config_probe_ms: 1,
            jitter: 0,
        },
    }
}

fn is_claimed(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Claimed { .. })
}

#[test]
fn first_claim_makes_a_home() {
    let fleet = Fleet::waiting();
    assert!(is_claimed(&run(&fleet.a, claim(true)).unwrap()));
    assert_eq!(fleet.home().node_id, Some(a()));
    assert_eq!(fleet.home().generation, 1);
}

#[test]
fn a_living_home_keeps_its_conversations() {
    let waiting = MessageState::Received { hold: None };
    let given = Given::message(fixture::message(waiting, |_| {}));
    let fleet = Fleet::over(given.with(home(&a(), 1)));
    assert!(!is_claimed(&run(&fleet.b, claim(false)).unwrap()));
    fleet.lapse_a();
    assert!(is_claimed(&run(&fleet.b, claim(false)).unwrap()));
    assert_eq!(fleet.home().node_id, Some(b()));
    assert_eq!(fleet.home().generation, 2);
}

#[test]
fn places_count_for_each_node() {
    let running = MessageState::Running {
        turn_id: TurnId::new("u"),
    };
    let running = fixture::message(running, |life| life.attempt = 1);
    let waiting = MessageState::Received { hold: None };
    let waiting = Message {
        message_id: MessageId::new("n"),
        external_id: ExternalId::new("f"),
        conversation_id: ConversationId::new("other"),
        ..fixture::message(waiting, |_| {})
    };
    let given = Given::message(running).with(home(&a(), 1));
    let fleet = Fleet::over(given.beside("other", waiting));
    let full = run(&fleet.a, claim(false)).unwrap();
    assert!(matches!(full, ClaimOutcome::Full { .. }), "{full:?}");
    assert!(is_claimed(&run(&fleet.b, claim(false)).unwrap()));
}

#[test]
fn a_lapsed_node_can_write_nothing() {
    let fleet = Fleet::running(false);
    fleet.lapse_a();
    let late = run(&fleet.a, claim(false));
    assert!(matches!(late, Err(LedgerError::Fenced { .. })), "{late:?}");
}

#[test]
fn others_leave_a_running_turn_alone() {
    let fleet = Fleet::running(false);
    let message_id = MessageId::new("m");
    run(&fleet.b, Resume { message_id }).unwrap();
    assert_eq!(fleet.message().life.state.name(), StateName::Running);
}

#[test]
fn others_decide_nothing_of_lost_turns() {
    let unclear = MessageState::Unclear { hold: None };
    let message = fixture::message(unclear, |life| life.attempt = 1);
    let given = Given::message(message).turn(turn(Sandbox::WorkspaceWrite, false));
    let fleet = Fleet::over(given.with(home(&a(), 1)));
    let late = run(&fleet.b, reconcile(TurnHistory::Absent));
    assert!(matches!(late, Err(LedgerError::Refused(_))), "{late:?}");
    assert!(!run(&fleet.a, reconcile(TurnHistory::Absent)).unwrap());
}

#[test]
fn take_over_loses_the_turn_and_reconciles() {
    let fleet = Fleet::running(false);
    assert!(
        run(&fleet.b, take_over(true))
            .unwrap()
            .conversations
            .is_empty()
    );
    fleet.lapse_a();
    let taken = run(&fleet.b, take_over(true)).unwrap();
    assert_eq!(taken.conversations, [conversation()]);
    assert_eq!(fleet.home().node_id, Some(b()));
    assert_eq!(fleet.message().life.state.name(), StateName::Unclear);
}

#[test]
fn a_turn_lost_elsewhere_counts_as_touched() {
    let fleet = Fleet::running(false);
    fleet.lapse_a();
    run(&fleet.b, take_over(true)).unwrap();
    run(&fleet.b, reconcile(TurnHistory::Absent)).unwrap();
    assert_eq!(fleet.message().life.input, NextInput::Continue);
}

#[test]
fn written_files_keep_a_conversation() {
    let fleet = Fleet::running(true);
    fleet.lapse_a();
    let taken = run(&fleet.b, take_over(true)).unwrap();
    assert!(taken.conversations.is_empty() && !taken.more);
    let taken = run(&fleet.b, take_over(false)).unwrap();
    assert_eq!(taken.conversations, [conversation()]);
}

/// However many of them there are, and however few are looked at together.
#[test]
fn left_conversations_hold_up_no_others() {
    let running = || MessageState::Running {
        turn_id: TurnId::new("u"),
    };
    let written = fixture::message(running(), |life| life.attempt = 1);
    let other = ConversationId::new("other");
    let beside = Message {
        message_id: MessageId::new("n"),
        external_id: ExternalId::new("f"),
        conversation_id: other.clone(),
        ..fixture::message(running(), |life| life.attempt = 1)
    };
    let given = Given::message(written).turn(turn(Sandbox::WorkspaceWrite, true));
    let fleet = Fleet::over(given.with(home(&a(), 1)).beside("other", beside));
    fleet.lapse_a();
    let one = TakeOver {
        limit: 1,
        ..take_over(true)
    };
    assert_eq!(run(&fleet.b, one).unwrap().conversations, [other]);
}

#[test]
fn released_conversations_are_kept_by_nobody() {
    let unclear = MessageState::Unclear { hold: None };
    let message = fixture::message(unclear, |life| life.attempt = 1);
    let given = Given::message(message).turn(turn(Sandbox::WorkspaceWrite, true));
    let released = FleetChange::Home {
        from: None,
        to: Home {
            conversation_id: conversation(),
            node_id: None,
            generation: 1,
            since: Timestamp(0),
        },
    };
    let fleet = Fleet::over(given.with(Change::Fleet(released)));
    let taken = run(&fleet.b, take_over(true)).unwrap();
    assert_eq!(taken.conversations, [conversation()]);
}

#[test]
fn written_files_wait_for_a_drained_node() {
    let fleet = Fleet::written();
    let leave = SetNodeState {
        node_id: a(),
        state: NodeState::Left,
        actor: None,
    };
    let kept = run(&fleet.a, release(true)).unwrap();
    assert_eq!((kept.released, kept.waiting), (0, 1));
    run(&fleet.a, leave).unwrap();
    assert!(!is_claimed(&run(&fleet.b, claim(true)).unwrap()));
    let again = fleet.ledger.join(&a(), NodeInfo::default(), LEASE_MS);
    assert!(is_claimed(&run(&again.unwrap(), claim(true)).unwrap()));
    assert_eq!(fleet.home().generation, 1);
}

#[test]
fn why_names_the_missing_node() {
    let fleet = Fleet::written();
    fleet.lapse_a();
    assert!(!is_claimed(&run(&fleet.b, claim(true)).unwrap()));
    let mut rows = fleet.ledger.snapshot().unwrap();
    rows.set_node(Some(b()));
    let case = why::WhyRows::load(&rows, &MessageId::new("m"), &claim(true)).unwrap();
    assert_eq!(case.unwrap().kept, Some(Kept::NodeGone));
}

#[test]
fn replies_are_sent_at_home_alone() {
    let answered = fixture::message(MessageState::Answered, |life| life.attempt = 1);
    let given = Given::message(answered).with(queued_reply());
    let fleet = Fleet::over(given.with(home(&a(), 1)));
    let send = || Send {
        conversation_id: conversation(),
    };
    assert_eq!(run(&fleet.b, send()).unwrap(), SendOutcome::Empty);
    let sent = run(&fleet.a, send()).unwrap();
    assert!(matches!(sent, SendOutcome::Send { .. }), "{sent:?}");
}

#[test]
fn sending_takes_nothing_from_lost_nodes() {
    let answered = fixture::message(MessageState::Answered, |life| life.attempt = 1);
    let given = Given::message(answered).with(queued_reply());
    let fleet = Fleet::over(given.with(home(&a(), 1)));
    fleet.lapse_a();
    let send = || Send {
        conversation_id: conversation(),
    };
    assert_eq!(run(&fleet.b, send()).unwrap(), SendOutcome::Empty);
    assert_eq!(fleet.home().node_id, Some(a()));
    run(&fleet.b, take_over(true)).unwrap();
    let sent = run(&fleet.b, send()).unwrap();
    assert!(matches!(sent, SendOutcome::Send { .. }), "{sent:?}");
}

#[test]
fn a_draining_node_takes_nothing_new() {
    let fleet = Fleet::waiting();
    let drain = SetNodeState {
        node_id: a(),
        state: NodeState::Draining,
        actor: Some("ada".to_owned()),
    };
    assert!(run(&fleet.b, drain).unwrap().is_some());
    assert!(!is_claimed(&run(&fleet.a, claim(false)).unwrap()));
    assert!(is_claimed(&run(&fleet.b, claim(false)).unwrap()));
}

#[test]
fn release_leaves_what_runs() {
    let fleet = Fleet::running(false);
    let released = run(&fleet.a, release(false)).unwrap();
    assert_eq!((released.released, released.busy), (0, 1));
    let waiting = MessageState::Received { hold: None };
    let given = Given::message(fixture::message(waiting, |_| {}));
    let fleet = Fleet::over(given.with(home(&a(), 1)));
    let released = run(&fleet.a, release(true)).unwrap();
    assert_eq!((released.released, released.busy), (1, 0));
    assert!(is_claimed(&run(&fleet.b, claim(true)).unwrap()));
    assert_eq!(fleet.home().generation, 2);
}

#[test]
fn a_move_waits_for_the_turn() {
    let to_b = || MoveConversation {
        conversation_id: conversation(),
        to: b(),
        actor: "ada".to_owned(),
    };
    let fleet = Fleet::running(false);
    let moved = run(&fleet.a, to_b()).unwrap();
    assert!(
        matches!(
            moved,
            MoveOutcome::Busy {
                message_id: Some(_)
            }
        ),
        "{moved:?}"
    );
    let fleet = Fleet::waiting();
    assert_eq!(run(&fleet.a, to_b()).unwrap(), MoveOutcome::Moved);
    assert_eq!(run(&fleet.a, to_b()).unwrap(), MoveOutcome::AtHome);
    assert!(!is_claimed(&run(&fleet.a, claim(false)).unwrap()));
    assert!(is_claimed(&run(&fleet.b, claim(false)).unwrap()));
}

#[test]
fn lent_conversations_come_here_and_stay() {
    let lend = || Lend {
        conversation_id: conversation(),
        loan_id: LoanId::new("l"),
        borrower: "ada".to_owned(),
        until: Timestamp(1_000),
    };
    let to_b = || MoveConversation {
        conversation_id: conversation(),
        to: b(),
        actor: "ada".to_owned(),
    };
    let fleet = Fleet::waiting();
    assert_eq!(run(&fleet.b, to_b()).unwrap(), MoveOutcome::Moved);
    let lent = run(&fleet.a, lend()).unwrap();
    assert!(matches!(lent, LendOutcome::Lent(_)), "{lent:?}");
    assert_eq!(fleet.home().node_id, Some(a()));
    let moved = run(&fleet.b, to_b()).unwrap();
    assert!(matches!(moved, MoveOutcome::Lent(_)), "{moved:?}");
    let kept = run(&fleet.a, release(false)).unwrap();
    assert_eq!((kept.released, kept.busy), (0, 1));
    assert!(!is_claimed(&run(&fleet.a, claim(false)).unwrap()));

    let busy = Fleet::running(false);
    let lent = run(&busy.b, lend()).unwrap();
    assert!(matches!(lent, LendOutcome::Busy { .. }), "{lent:?}");
    assert_eq!(busy.home().node_id, Some(a()));
}

#[test]
fn moves_take_what_gone_nodes_left() {
    let fleet = Fleet::running(true);
    fleet.lapse_a();
    let to_b = MoveConversation {
        conversation_id: conversation(),
        to: b(),
        actor: "ada".to_owned(),
    };
    assert_eq!(run(&fleet.b, to_b).unwrap(), MoveOutcome::Moved);
    assert_eq!(fleet.home().node_id, Some(b()));
    assert_eq!(fleet.message().life.state.name(), StateName::Unclear);
    let rows = fleet.ledger.snapshot().unwrap();
    assert_eq!(rows.homes_counted(&a(), 9).unwrap(), 0);
    assert_eq!(rows.homes_counted(&b(), 9).unwrap(), 1);
}

/// The lost turn belongs to the new home, and nobody else says what became of it.
#[test]
fn a_third_node_may_ask_for_moves() {
    let fleet = Fleet::running(true);
    let c = NodeId::new("c");
    let third = fleet.ledger.join(&c, NodeInfo::default(), i64::MAX);
    let third = third.unwrap();
    fleet.lapse_a();
    let to_b = MoveConversation {
        conversation_id: conversation(),
        to: b(),
        actor: "ada".to_owned(),
    };
    assert_eq!(run(&third, to_b).unwrap(), MoveOutcome::Moved);
    assert_eq!(fleet.message().life.state.name(), StateName::Unclear);
    let late = run(&third, reconcile(TurnHistory::Absent));
    assert!(matches!(late, Err(LedgerError::Refused(_))), "{late:?}");
    run(&fleet.b, reconcile(TurnHistory::Absent)).unwrap();
    assert_eq!(fleet.message().life.input, NextInput::Continue);
}

#[test]
fn segments_need_the_present_generation() {
    let segment = |generation, offset, bytes: &[u8]| StoreSegments {
        message_id: MessageId::new("m"),
        anew: None,
        segments: vec![Segment {
            thread: ThreadId::new("t"),
            path: "sessions/2026/11/18/rollout-x-t.jsonl".to_owned(),
            generation,
            offset,
            bytes: bytes.to_vec(),
            digest: [0; 32],
        }],
    };
    let fleet = Fleet::running(false);
    run(&fleet.a, segment(1, 0, b"one\n")).unwrap();
    run(&fleet.a, segment(1, 4, b"two\n")).unwrap();
    let gap = run(&fleet.a, segment(1, 9, b"four\n"));
    assert!(matches!(gap, Err(LedgerError::Rows(_))), "{gap:?}");
    for late in [
        run(&fleet.a, segment(0, 8, b"x\n")),
        run(&fleet.b, segment(1, 8, b"x\n")),
    ] {
        assert!(matches!(late, Err(LedgerError::Refused(_))), "{late:?}");
    }
    let rows = fleet.ledger.snapshot().unwrap();
    let thread = ThreadId::new("t");
    let files = rows.thread_files(&thread).unwrap();
    assert_eq!((files[0].length, files[0].generation), (8, 1));
    let anew = StoreSegments {
        anew: Some(thread.clone()),
        ..segment(1, 0, b"whole\n")
    };
    run(&fleet.a, anew).unwrap();
    let rows = fleet.ledger.snapshot().unwrap();
    assert_eq!(rows.thread_files(&thread).unwrap()[0].length, 6);
}
