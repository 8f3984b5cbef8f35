//! What happens when: events in the order of virtual time, and in the order they were planned at the same time.

use bridge_core::port::{Steer, TurnHistory};
use bridge_core::step::{Answered, Attach, DeferReconcile, Fail, JoinUnknown, Leave, Lose, Note};
use bridge_core::value::{ClientId, ConversationId, Failure, Message, MessageId, Reply, ThreadId};
use bridge_sim::history::RowId;
use std::collections::BTreeMap;

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    Post(RowId),
    /// A live turn takes its next sub-step.
    Advance {
        turn: usize,
    },
    CodexDies,
    DaemonDies,
    DaemonStarts,
    Reboot,
    ClockJumps {
        by_ms: i64,
    },
    /// The source shows a row again although it was read.
    Redeliver(RowId),
    /// From here on nothing goes wrong any more.
    Calm,
    /// Done by one life of the daemon, or not at all.
    Duty {
        life: u32,
        duty: Duty,
    },
}

/// The next step of one of the daemon's tasks.
#[derive(Debug)]
pub(crate) enum Duty {
    Poll {
        number: u64,
    },
    Schedule {
        number: u64,
    },
    Work(MessageId),
    Bind {
        message_id: MessageId,
        conversation_id: ConversationId,
        thread: ThreadId,
        codex: u32,
    },
    Begin {
        message_id: MessageId,
        thread: ThreadId,
        codex: u32,
    },
    Ask {
        message_id: MessageId,
        thread: ThreadId,
        client_id: ClientId,
        text: String,
        codex: u32,
    },
    Named {
        message_id: MessageId,
        turn: usize,
    },
    /// A transition of a followed turn is through.
    Freed {
        turn: usize,
    },
    Follow {
        turn: usize,
    },
    Settle {
        what: Settling,
        tries: u32,
        then: Option<Box<Self>>,
    },
    Look {
        message_id: MessageId,
        tries: u32,
    },
    Looked {
        message_id: MessageId,
        found: TurnHistory,
        turn: Option<usize>,
        tries: u32,
    },
    Join(MessageId),
    Tell {
        message_id: MessageId,
        steer: Steer,
    },
    Lane(ConversationId),
    Hand {
        message: Box<Message>,
        reply: Box<Reply>,
        again: bool,
    },
    Heard {
        message: Box<Message>,
        reply: Box<Reply>,
        verdict: Result<String, Failure>,
    },
}

/// A transition that is offered until the ledger takes it.
#[derive(Clone, Debug)]
pub(crate) enum Settling {
    Attach(Attach),
    Note(Note),
    Answered(Answered),
    Fail(Fail),
    Lose(Lose),
    Leave(Leave),
    JoinUnknown(JoinUnknown),
    DeferReconcile(DeferReconcile),
}

/// All that is planned.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    planned: u64,
    events: BTreeMap<(u64, u64), Event>,
}

impl Queue {
    pub(crate) fn push(&mut self, at_ms: u64, event: Event) {
        self.planned += 1;
        self.events.insert((at_ms, self.planned), event);
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
