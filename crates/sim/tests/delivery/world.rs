//! One state of the model: the durable rows, what the daemon knows in memory only, Codex, the platform, and the
//! faults that may still happen. What tells two states apart is in `key`.
//!
//! Time is not part of it: a hold is always due when it is looked at, so a claim may come at any moment after it
//! was written, which is all that a wait means to the order of steps.

use crate::codex::{Codex, Seen};
use crate::platform::Platform;
use crate::setup::{Faults, Setup};
use bridge_core::port::Read;
use bridge_core::value::{ConversationId, Message, MessageId, StateName, Timestamp};
use bridge_store::MemoryRows;

/// When everything happens.
pub(crate) const NOW: Timestamp = Timestamp(1_000_000_000);
/// When everything that was put off is due; before anything is too old.
pub(crate) const DUE: Timestamp = Timestamp(NOW.0 + 3_600_000);

/// What a daemon's task for one message is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    None,
    /// Make the thread ready.
    Work,
    /// Bind the thread that was opened in this life of Codex.
    Opened {
        thread: u8,
        life: u8,
    },
    /// Write the intent down.
    Ready {
        thread: u8,
        life: u8,
    },
    /// Ask for the turn.
    Begun {
        thread: u8,
        life: u8,
    },
    /// Read the response.
    Asked {
        turn: u8,
    },
    /// Write the intent of a turn that was asked for already (a planted defect).
    AskedEarly {
        turn: u8,
    },
    /// Attach.
    Started {
        turn: u8,
    },
    /// Read the stream.
    Following {
        turn: u8,
    },
    /// Journal an answer that was sent already (a planted defect).
    Told {
        turn: u8,
    },
    /// Look.
    Reconcile,
    /// Journal what was seen.
    Looked(Seen),
}

/// What the platform said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Taken,
    Unknown,
    Refused,
    Forbidden,
}

/// What the daemon's reply lane is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Closed,
    /// Ask for the next reply.
    Open,
    /// Hand it to the platform.
    Sending {
        message: u8,
        ordinal: u32,
    },
    /// Journal what the platform said.
    Heard {
        message: u8,
        ordinal: u32,
        verdict: Verdict,
    },
}

/// What a daemon knows in memory only.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) tasks: [Task; 2],
    pub(crate) lane: Lane,
    /// It was told to stop.
    pub(crate) stopping: bool,
}

/// A rule that was broken where it can't be seen in a state alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    CalledAfterAnswer,
    LedgerConflict,
    DuplicateTaken,
}

/// One state.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) rows: MemoryRows,
    /// Absent while no daemon runs.
    pub(crate) daemon: Option<Memory>,
    pub(crate) codex: Codex,
    pub(crate) platform: Platform,
    pub(crate) faults: Faults,
    pub(crate) broken: Option<Broken>,
}

pub(crate) fn message_id(message: u8) -> MessageId {
    MessageId::new(format!("m{message}"))
}

pub(crate) fn conversation_id() -> ConversationId {
    ConversationId::new("c")
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            tasks: [Task::None; 2],
            lane: Lane::Closed,
            stopping: false,
        }
    }

    pub(crate) fn task(&self, message: u8) -> Task {
        *self.tasks.get(usize::from(message)).unwrap()
    }

    pub(crate) fn set(&mut self, message: u8, task: Task) {
        *self.tasks.get_mut(usize::from(message)).unwrap() = task;
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            rows: MemoryRows::default(),
            daemon: Some(Memory::new()),
            codex: Codex::default(),
            platform: Platform::default(),
            faults: setup.faults,
            broken: None,
        }
    }

    pub(crate) fn message(&self, message: u8) -> Option<Message> {
        self.rows.message(&message_id(message)).unwrap()
    }

    pub(crate) fn state(&self, message: u8) -> Option<StateName> {
        self.message(message).map(|row| row.life.state.name())
    }
}
