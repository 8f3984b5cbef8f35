//! What one exploration is about: how many messages, which host, which power, which faults, and whether the
//! driver has a defect planted in it.

use bridge_core::value::Sandbox;

/// Who owns the Codex process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// It ends with the daemon.
    Stdio,
    /// It goes on behind its socket.
    Socket,
}

/// How many of each fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The daemon dies.
    pub(crate) daemon: u8,
    /// The daemon is told to stop, and interrupts what runs.
    pub(crate) stop: u8,
    /// Codex dies.
    pub(crate) codex: u8,
    /// A turn fails by itself.
    pub(crate) turn: u8,
    /// A reply is sent and nobody knows whether it arrived.
    pub(crate) unknown: u8,
    /// A reply is refused, for now or for good.
    pub(crate) refused: u8,
}

/// A defect of the driver or its edges that an invariant must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A turn lost from sight is run again without a look.
    BlindRerun,
    /// A restart takes rows in flight for rows that wait.
    RestartForgets,
    /// A restart does not touch rows in flight.
    RestartLeaves,
    /// A reply is sent before its intent is written, with a new key each time.
    FreshKey,
    /// A turn is started before its intent is written.
    StartBeforeBegin,
    /// A turn that still runs is not followed again.
    NoReattach,
    /// An answer is sent first and journaled afterwards.
    AnswerNotJournaled,
    /// A turn that was cut counts as clean when no effect of it is on disk, also where it could write.
    CleanRetry,
    /// A look does not wait for a turn that the living Codex has not written down yet.
    HastyLook,
    /// A finished turn in the history is not harvested.
    NoHarvest,
}

/// One exploration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) messages: u8,
    pub(crate) host: HostKind,
    pub(crate) sandbox: Sandbox,
    pub(crate) faults: Faults,
    pub(crate) mutant: Option<Mutant>,
}

impl Setup {
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
