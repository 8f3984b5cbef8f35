//! What one exploration is about: how many messages, which host, which power, which platform, which faults, one daemon
//! or two, and whether the driver has a defect planted in it.

use bridge_core::port::{OnUnknown, SinkClass};
use bridge_core::step::MidTurn;
use bridge_core::value::{CutPolicy, Sandbox};
use std::fmt;

/// The most messages that an exploration has.
pub(crate) const MESSAGES_MAX: usize = 3;

/// Who owns the Codex process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// It ends with the daemon.
    Stdio,
    /// It goes on behind its socket.
    Socket,
}

/// How many of each fault may still happen, and how often people step in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The daemon dies.
    pub(crate) daemon: u8,
    /// The daemon is told to stop, and interrupts what runs.
    pub(crate) stop: u8,
    /// Codex dies.
    pub(crate) codex: u8,
    /// The machine loses its memory, and Codex's history perhaps its tail.
    pub(crate) reboot: u8,
    /// A turn fails by itself: for now, because a limit is reached, or for good.
    pub(crate) turn: u8,
    /// A reply is sent and nobody knows whether it arrived.
    pub(crate) unknown: u8,
    /// A reply is refused, for now or for good.
    pub(crate) refused: u8,
    /// A look for a reply fails.
    pub(crate) probe: u8,
    /// A running turn does not take more text.
    pub(crate) deaf: u8,
    /// A person stops a message.
    pub(crate) cancel: u8,
    /// A person sends a dead letter again, or says that a parked message goes on.
    pub(crate) redrive: u8,
}

impl Faults {
    /// All of them as bytes, for the key of a state.
    pub(crate) fn bytes(&self) -> [u8; 11] {
        let Self {
            daemon,
            stop,
            codex,
            reboot,
            turn,
            unknown,
            refused,
            probe,
            deaf,
            cancel,
            redrive,
        } = *self;
        [
            daemon, stop, codex, reboot, turn, unknown, refused, probe, deaf, cancel, redrive,
        ]
    }
}

/// How often something may happen to a node of a fleet. That its daemon dies is counted among all faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFaults {
    /// Its host is gone for good, with all that Codex kept there.
    pub(crate) lost: u8,
    /// It is cut off from the ledger, or its daemon is frozen, until its lease has ended.
    pub(crate) frozen: u8,
    /// Daemon, keeper and Codex are frozen together until its lease has ended.
    pub(crate) whole: u8,
    /// A person moves the conversation to another node.
    pub(crate) moved: u8,
    /// A person drains it.
    pub(crate) drained: u8,
}

impl NodeFaults {
    /// All of them as bytes, for the key of a state.
    pub(crate) fn bytes(&self) -> [u8; 5] {
        let Self {
            lost,
            frozen,
            whole,
            moved,
            drained,
        } = *self;
        [lost, frozen, whole, moved, drained]
    }
}

/// Two daemons over one ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FleetSetup {
    pub(crate) faults: NodeFaults,
    /// How far the clock of each node's machine is ahead of the database's, in ms.
    pub(crate) ahead_ms: [i64; 2],
    /// Working directories are on one machine each.
    pub(crate) leave_written: bool,
    /// States are told apart without what can change nothing any more: what a daemon without a lease is about to do, and
    /// what a Codex without the present thread remembers. That it can change nothing is seen where this is not set.
    pub(crate) brief: bool,
}

/// A defect of the driver or its edges that an invariant must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A finished turn in the history is not harvested.
    NoHarvest,
    /// A turn lost from sight is run again without a look.
    BlindRerun,
    /// A restart takes rows in flight for rows that wait.
    RestartForgets,
    /// A restart does not touch rows in flight.
    RestartLeaves,
    /// A reply is sent before its intent is written, with a new key each time.
    FreshKey,
    /// A reply counts as sent before the platform took it.
    ConfirmEarly,
    /// A turn that still runs is not followed again.
    NoReattach,
    /// A turn is started before its intent is written.
    StartBeforeBegin,
    /// A turn that was cut counts as clean when no effect of it is on disk, also where it could write.
    CleanRetry,
    /// A look does not wait for a turn that the living Codex has not written down yet.
    HastyLook,
    /// An answer is sent first and journaled afterwards.
    AnswerNotJournaled,
    /// After a reboot a turn that is not found counts as one that never was.
    RebootIgnored,
    /// A row that is shown again is taken for a new one.
    DuplicateTaken,
    /// A reply that may have arrived is sent again without a look.
    ProbeSkipped,
    /// A look that failed counts as a refusal of the reply.
    ProbeFailureRefuses,
    /// Whoever was given to a turn is answered with it, heard or not.
    UnheardAnswered,
    /// Whoever was given to a turn stays with it when it dies.
    FollowerKept,
    /// Whoever was given to a turn that was cut starts afresh.
    FollowerFresh,
    /// A running turn is given a text before the intent is on disk.
    SteerBeforeJoin,
    /// A text that may not have arrived counts as received: the next one joins behind it.
    UnknownForgotten,
    /// A message that is stopped ends at once, and its turn goes on.
    CancelForgetsTurn,
    /// A dead letter with an answer is given to Codex again.
    RedriveReruns,
    /// A node writes after its lease has ended.
    NoFencing,
    /// A node claims whatever waits, whoever has the conversation.
    ClaimAnywhere,
    /// A node takes over what a living node has.
    TakeOverLiving,
    /// A node sends the replies of conversations that another one has.
    SendAnywhere,
    /// A node hands a reply to its platform without looking whether its lease has ended meanwhile.
    LateReply,
    /// A node gives a turn to Codex without looking whether its lease has ended meanwhile.
    LateTurn,
    /// Leases are written and compared with the clock of the machine instead of the database's.
    MachineClock,
    /// A node, and the keeper of its Codex, measure their lease with a clock that stands still while the machine sleeps.
    SleepingClock,
    /// An answer is stored before the bytes of its turn.
    AnswerBeforeSegment,
    /// Codex goes on believing the old branch of a thread that was elsewhere meanwhile.
    ProjectionKept,
    /// A node that takes a conversation over goes on with its own older copy of the thread.
    NotRestored,
    /// A turn that is lost with its host counts as clean unless an effect of it was noted.
    LostCountsClean,
    /// A node that starts takes up what is under way on another one.
    StartTakesAll,
    /// A node that leaves lets go of conversations whose files it has alone.
    WrittenReleased,
}

/// One exploration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) messages: u8,
    pub(crate) host: HostKind,
    pub(crate) sandbox: Sandbox,
    pub(crate) sink: SinkClass,
    pub(crate) on_cut: CutPolicy,
    pub(crate) mid_turn: MidTurn,
    pub(crate) faults: Faults,
    /// Absent where one daemon has the ledger for itself.
    pub(crate) fleet: Option<FleetSetup>,
    pub(crate) mutant: Option<Mutant>,
}

/// A platform that can't be asked, where at most once is wanted.
pub(crate) const BLIND_HOLD: SinkClass = SinkClass::Blind {
    on_unknown: OnUnknown::Hold,
};
/// A platform that can't be asked, where at least once is wanted.
pub(crate) const BLIND_RESEND: SinkClass = SinkClass::Blind {
    on_unknown: OnUnknown::Resend,
};

impl Setup {
    /// An ordinary exploration with these faults.
    pub(crate) fn new(messages: u8, host: HostKind, faults: Faults) -> Self {
        Self {
            messages,
            host,
            sandbox: Sandbox::WorkspaceWrite,
            sink: SinkClass::Idempotent,
            on_cut: CutPolicy::Continue,
            mid_turn: MidTurn::Queue,
            faults,
            fleet: None,
            mutant: None,
        }
    }

    /// Whether a conversation that wrote files stays with its node.
    pub(crate) fn leaves_written(&self) -> bool {
        self.fleet.is_some_and(|fleet| fleet.leave_written)
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, sandbox, sink) = (self.host, self.sandbox.as_str(), self.sink);
        write!(f, "{} messages, {host:?}, {sandbox}, ", self.messages)?;
        write!(f, "{sink:?}, ")?;
        write!(f, "{:?}, cut {}, ", self.mid_turn, self.on_cut.as_str())?;
        write!(f, "faults {}", self.faults)?;
        match self.fleet {
            Some(fleet) => write!(f, "of nodes {fleet}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FleetSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["lost", "frozen", "whole", "moved", "drained"];
        let some = names.iter().zip(self.faults.bytes());
        for (name, times) in some.filter(|(_, times)| *times > 0) {
            write!(f, "{name}:{times} ")?;
        }
        if self.ahead_ms != [0, 0] {
            write!(f, "clocks ahead {:?} ", self.ahead_ms)?;
        }
        write!(f, "leave written {}", self.leave_written)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            "daemon", "stop", "codex", "reboot", "turn", "unknown", "refused", "probe", "deaf",
            "cancel", "redrive",
        ];
        let some = names.iter().zip(self.bytes());
        for (name, times) in some.filter(|(_, times)| *times > 0) {
            write!(f, "{name}:{times} ")?;
        }
        Ok(())
    }
}
