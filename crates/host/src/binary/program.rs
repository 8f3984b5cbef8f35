//! A Codex that can be started, and whether it may stay: one that was changed to is on probation until its first turns
//! have ended.

use crate::binary::stamp::BinaryStamp;
use crate::locked;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Turns that must end well on a Codex that was changed to. A turn that it can't read or do ends its probation at once.
pub(crate) const FIRST_TURNS: u32 = 3;

/// A Codex that can be started.
#[derive(Debug)]
pub(crate) struct Program {
    /// The native executable, or a launcher of the operator's.
    pub(crate) codex: PathBuf,
    /// The native executable behind it; or why it is not known, with what to do.
    pub(crate) native: Result<PathBuf, String>,
    /// As the binary reports it.
    pub(crate) version: String,
    /// The file when it was looked at; absent where it could not be.
    pub(crate) stamp: Option<BinaryStamp>,
    pub(crate) probation: Probation,
}

impl Program {
    pub(crate) fn new(
        codex: PathBuf,
        native: Result<PathBuf, String>,
        version: String,
        probation: Probation,
    ) -> Self {
        let stamp = BinaryStamp::of(&codex).ok();
        Self {
            codex,
            native,
            version,
            stamp,
            probation,
        }
    }

    /// Its own executable; where that is not known, what is started.
    pub(crate) fn executable(&self) -> &Path {
        self.native.as_ref().unwrap_or(&self.codex)
    }

    /// Whether a process that was started from this file runs this program.
    pub(crate) fn is_of(&self, started_from: &BinaryStamp) -> bool {
        self.stamp.as_ref() == Some(started_from)
    }
}

/// The Codex that is started next, in every home.
pub(crate) struct Wanted(Mutex<Arc<Program>>);

impl Wanted {
    pub(crate) fn new(program: Program) -> Self {
        Self(Mutex::new(Arc::new(program)))
    }

    pub(crate) fn get(&self) -> Arc<Program> {
        Arc::clone(&locked(&self.0))
    }

    pub(crate) fn set(&self, program: Arc<Program>) {
        *locked(&self.0) = program;
    }
}

/// How a Codex stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// So many of its first turns ended well.
    OnProbation {
        turns: u32,
    },
    Good,
    Failed {
        why: String,
    },
}

/// The first turns of a Codex that was changed to.
#[derive(Debug)]
pub(crate) struct Probation {
    standing: watch::Sender<Standing>,
    /// Serializes changes.
    changing: Mutex<()>,
}

impl Probation {
    /// Of a Codex that nothing is known of.
    pub(crate) fn begin() -> Self {
        Self::at(Standing::OnProbation { turns: 0 })
    }

    /// Of a Codex that is used as the operator says.
    pub(crate) fn none() -> Self {
        Self::at(Standing::Good)
    }

    fn at(standing: Standing) -> Self {
        Self {
            standing: watch::Sender::new(standing),
            changing: Mutex::default(),
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// A turn ended in a form that we can read.
    pub(crate) fn turn_ended(&self) {
        let _alone = locked(&self.changing);
        if let Standing::OnProbation { turns } = self.standing() {
            let turns = turns.saturating_add(1);
            let standing = match turns < FIRST_TURNS {
                true => Standing::OnProbation { turns },
                false => Standing::Good,
            };
            self.standing.send_replace(standing);
        }
    }

    /// It could not do what it was asked, or died.
    pub(crate) fn failed(&self, why: &str) {
        let _alone = locked(&self.changing);
        if let Standing::OnProbation { .. } = self.standing() {
            let why = why.to_owned();
            self.standing.send_replace(Standing::Failed { why });
        }
    }

    /// Waits for the end of the probation.
    pub(crate) async fn decided(&self) -> Standing {
        let mut standing = self.standing.subscribe();
        let over = |standing: &Standing| !matches!(standing, Standing::OnProbation { .. });
        let decided = standing.wait_for(over).await;
        decided.map_or(Standing::Good, |standing| standing.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probation_ends_once() {
        let probation = Probation::begin();
        for _ in 1..FIRST_TURNS {
            probation.turn_ended();
            assert!(matches!(probation.standing(), Standing::OnProbation { .. }));
        }
        probation.turn_ended();
        probation.failed("later than that it is no upgrade's fault");
        assert_eq!(probation.standing(), Standing::Good);

        let probation = Probation::begin();
        probation.failed("can't be read");
        probation.turn_ended();
        let why = "can't be read".to_owned();
        assert_eq!(probation.standing(), Standing::Failed { why });
    }
}
