//! One state of the model: the durable rows, what the daemon knows in memory only, Codex, the platform, and the
//! faults that may still happen. What tells two states apart is in `key`.
//!
//! Time is not part of it: a hold is always due when it is looked at, so a claim may come at any moment after it
//! was written, which is all that a wait means to the order of steps.

use crate::codex::Codex;
use crate::fleet::Fleet;
use crate::history::Seen;
use crate::platform::Platform;
use crate::setup::{Faults, MESSAGES_MAX, Setup};
use crate::sight::{Row, Sight};
use bridge_core::value::{BootId, ConversationId, Message, MessageId, StateName, Timestamp};
use bridge_testkit::MemoryRows;
use std::sync::Arc;

/// When everything happens.
pub(crate) const NOW: Timestamp = Timestamp(1_000_000_000);
/// When everything that was put off is due; before anything is too old.
pub(crate) const DUE: Timestamp = Timestamp(NOW.0 + 3_600_000);
/// When a parked message is given up; before anything else is too old.
pub(crate) const LATE: Timestamp = Timestamp(NOW.0 + 25 * 3_600_000);

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

/// What a daemon's task that gives a message to a running turn is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    None,
    /// Write the intent down.
    Wanted,
    /// Tell the turn.
    Telling {
        turn: u8,
    },
    /// Journal that the turn did not take it.
    Refused,
    /// Journal that nobody knows whether the turn took it.
    Unknown,
    /// Write the intent of what the turn heard already (a planted defect).
    Late,
}

/// What the platform said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Taken,
    Unknown,
    Refused,
    Forbidden,
}

/// One reply on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) message: u8,
    pub(crate) ordinal: u32,
}

/// What the daemon's reply lane is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Closed,
    /// Ask for the next reply.
    Open,
    /// Find out how to hand it over; it may have arrived before.
    Sending {
        piece: Piece,
        again: bool,
    },
    /// Hand it to the platform.
    Handing(Piece),
    /// Journal what the platform said.
    Heard(Piece, Verdict),
}

/// What a daemon knows in memory only.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) tasks: [Task; MESSAGES_MAX],
    pub(crate) joins: [Join; MESSAGES_MAX],
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
    /// What they say; read anew after each write.
    pub(crate) sight: Arc<Sight>,
    /// Absent while no daemon runs.
    pub(crate) daemon: Option<Memory>,
    pub(crate) codex: Codex,
    pub(crate) platform: Platform,
    pub(crate) faults: Faults,
    /// Counts the machine's boots.
    pub(crate) boot: u8,
    /// Messages that a person sent again, and so out of their order.
    pub(crate) redriven: [bool; MESSAGES_MAX],
    pub(crate) broken: Option<Broken>,
    /// The other node, and what only nodes have; absent where one daemon has the ledger for itself.
    pub(crate) fleet: Option<Fleet>,
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
            tasks: [Task::None; MESSAGES_MAX],
            joins: [Join::None; MESSAGES_MAX],
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

    pub(crate) fn join(&self, message: u8) -> Join {
        *self.joins.get(usize::from(message)).unwrap()
    }

    pub(crate) fn set_join(&mut self, message: u8, join: Join) {
        *self.joins.get_mut(usize::from(message)).unwrap() = join;
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut rows = MemoryRows::default();
        let fleet = setup.fleet.map(|_| Fleet::new(&mut rows, setup));
        Self {
            rows,
            sight: Arc::default(),
            daemon: Some(Memory::new()),
            codex: Codex::default(),
            platform: Platform::default(),
            faults: setup.faults,
            boot: 0,
            redriven: [false; MESSAGES_MAX],
            broken: None,
            fleet,
        }
    }

    pub(crate) fn row(&self, message: u8) -> Option<&Row> {
        self.sight.rows.get(usize::from(message))?.as_ref()
    }

    pub(crate) fn message(&self, message: u8) -> Option<&Message> {
        self.row(message).map(|row| &row.message)
    }

    /// The rows were written to.
    pub(crate) fn wrote(&mut self) {
        self.sight = Arc::new(Sight::of(&self.rows));
    }

    pub(crate) fn state(&self, message: u8) -> Option<StateName> {
        self.message(message).map(|row| row.life.state.name())
    }

    pub(crate) fn boot_id(&self) -> BootId {
        BootId::new(format!("b{}", self.boot))
    }

    /// The daemon is gone, and with it what it knew of a reply that the platform took.
    pub(crate) fn daemon_ends(&mut self) {
        let lane = self.daemon.take().map(|memory| memory.lane);
        if let Some(Lane::Heard(_, Verdict::Taken)) = lane {
            self.platform.doubts += 1;
        }
    }
}
