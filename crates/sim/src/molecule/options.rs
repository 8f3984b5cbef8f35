//! What a Molecule platform is started with: which edition it plays, and the guards that are off unless asked for.
//! What it does with them is elsewhere.

use std::time::Duration;

/// Which recorded platform is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// May 2026: no sequence numbers, no ack, every `messageId` stored as often as it comes.
    Seed,
    /// June 2026: sequence numbers, ack, one row per `messageId`, messages normalised.
    New,
    /// August 2026: `/a2a` wants a caller, unrelated workspaces can't be found, and more fields. Not recorded as a
    /// whole: `tests/molecule/august.rs` has the differences that were seen.
    August,
}

impl Edition {
    /// How long a workspace stays online without a heartbeat.
    #[must_use]
    pub fn presence(self) -> Duration {
        match self {
            Self::Seed => Duration::from_secs(90),
            Self::New | Self::August => Duration::from_secs(180),
        }
    }

    /// The largest `/a2a` body.
    pub(super) fn a2a_most(self) -> usize {
        match self {
            Self::Seed => 1 << 20,
            Self::New | Self::August => 16 << 20,
        }
    }

    /// Whether the platform writes over a canvas message who wrote it: since July 2026.
    pub(super) fn marks_canvas(self) -> bool {
        match self {
            Self::Seed | Self::New => false,
            Self::August => true,
        }
    }

    /// The largest upload, per file and per request.
    pub(super) fn upload_most(self) -> usize {
        match self {
            Self::Seed => 25 << 20,
            Self::New | Self::August => 100 << 20,
        }
    }
}

/// A platform for several organisations: every call but a few must say which one it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The organisation that is served.
    pub org: String,
    /// Whether an `Origin` of the platform's own host is taken instead of the header.
    pub origin_counts: bool,
}

/// How the platform is set up.
#[derive(Clone, Debug)]
pub struct MoleculeOptions {
    /// Which recorded platform is played.
    pub edition: Edition,
    /// The token that may do everything; the canvas uses it.
    pub admin_token: String,
    /// Calls of one bearer in a minute; the real one has 600. Off unless a number is given.
    pub rate_limit: Option<u32>,
    /// The tenant guard; off unless given.
    pub tenant: Option<Tenant>,
    /// Whether its clock moves only when a test puts it forward; otherwise it goes with the wall clock as well.
    pub clock_stands_still: bool,
    /// Seed of what happens by chance.
    pub seed: u64,
    /// How long the `wait_…` functions wait before they give up with an error.
    pub patience: Duration,
}

impl Default for MoleculeOptions {
    fn default() -> Self {
        Self {
            edition: Edition::August,
            admin_token: "lab-admin".to_owned(),
            rate_limit: None,
            tenant: None,
            clock_stands_still: false,
            seed: 0,
            patience: Duration::from_secs(60),
        }
    }
}
