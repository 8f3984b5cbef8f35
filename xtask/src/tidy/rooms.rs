//! The rooms of the workspace and who may depend on whom. A new edge is a decision:
//! it is made here, in sight, with an ADR.

use std::path::Path;

/// External crates without IO: they compute values and open no file, socket, clock or random source.
const PURE_CRATES: [&str; 10] = [
    "aho-corasick",
    "base64",
    "data-encoding",
    "percent-encoding",
    "schemars",
    "semver",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
];

/// A crate, by the folder it lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Core,
    Codex,
    Host,
    Store,
    Channel,
    Front,
    Daemon,
    Cli,
    Demo,
    Sim,
    Bench,
    Testkit,
    Xtask,
}

impl Room {
    const ALL: [Self; 13] = [
        Self::Core,
        Self::Codex,
        Self::Host,
        Self::Store,
        Self::Channel,
        Self::Front,
        Self::Daemon,
        Self::Cli,
        Self::Demo,
        Self::Sim,
        Self::Bench,
        Self::Testkit,
        Self::Xtask,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Codex => "codex",
            Self::Host => "host",
            Self::Store => "store",
            Self::Channel => "channel",
            Self::Front => "front",
            Self::Daemon => "daemon",
            Self::Cli => "cli",
            Self::Demo => "demo",
            Self::Sim => "sim",
            Self::Bench => "bench",
            Self::Testkit => "testkit",
            Self::Xtask => "xtask",
        }
    }

    /// The room of a path relative to the root.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let mut parts = path.components().map(|part| part.as_os_str());
        let first = parts.next()?;
        if first == "xtask" {
            return Some(Self::Xtask);
        }
        let folder = parts.next().filter(|_| first == "crates")?;
        Self::ALL
            .into_iter()
            .find(|room| *room != Self::Xtask && folder == room.name())
    }

    /// The rooms it may use outside its tests.
    pub(super) fn may_use(self) -> &'static [Self] {
        match self {
            Self::Core => &[],
            Self::Codex => &[Self::Core],
            // Codex's messages stay in `codex` and `host`; everybody else speaks the core's words.
            Self::Host => &[Self::Core, Self::Codex],
            Self::Store | Self::Channel | Self::Front | Self::Sim => &[Self::Core],
            Self::Daemon => &[
                Self::Core,
                Self::Host,
                Self::Store,
                Self::Channel,
                Self::Front,
            ],
            Self::Cli => &[
                Self::Core,
                Self::Host,
                Self::Store,
                Self::Channel,
                Self::Front,
                Self::Daemon,
                Self::Demo,
            ],
            Self::Demo => &[
                Self::Core,
                Self::Host,
                Self::Store,
                Self::Channel,
                Self::Front,
                Self::Daemon,
                Self::Sim,
            ],
            Self::Bench => &[
                Self::Core,
                Self::Codex,
                Self::Host,
                Self::Store,
                Self::Sim,
                Self::Bench,
            ],
            Self::Testkit => &[Self::Core, Self::Store],
            Self::Xtask => &[Self::Host],
        }
    }

    /// The external crates that a pure room may use; `None` means any.
    pub(super) fn may_use_external(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Core | Self::Codex => Some(&PURE_CRATES),
            Self::Host
            | Self::Store
            | Self::Channel
            | Self::Front
            | Self::Daemon
            | Self::Cli
            | Self::Demo
            | Self::Sim
            | Self::Bench
            | Self::Testkit
            | Self::Xtask => None,
        }
    }

    /// Decides without touching the world: no clock, no file, no socket, no runtime.
    pub(super) fn is_pure(self) -> bool {
        self.may_use_external().is_some()
    }

    /// `sim` stands in for programs, and some of those start others; `bench` starts what it measures.
    pub(super) fn may_spawn(self) -> bool {
        matches!(self, Self::Host | Self::Sim | Self::Bench | Self::Xtask)
    }

    /// `bench` puts a million finished rows behind a ledger without living through them.
    pub(super) fn may_open_database(self) -> bool {
        matches!(self, Self::Store | Self::Bench)
    }
}
