//! Turns that Codex could not write down: on a full disk it goes on, says so in a warning, and its history then
//! proves nothing about the thread. Measured on 0.166: such a turn is not listed by the process that ran it, not
//! even after there is space again.
//!
//! What is learned is kept for the life it concerns, in memory and beside the sockets of that life, so that the
//! next daemon knows it too. What follows for a message is decided in the core.

use crate::error::agent_error;
use crate::locked;
use bridge_core::port::{AgentError, RecordedTurn, TurnHistory, TurnStatus};
use bridge_core::value::{Class, Incarnation, IncarnationId, ThreadId};
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Threads that are remembered; beyond it the whole life is distrusted.
const UNSAVED_MAX: usize = 4096;
/// The list of them in the directory of the life.
const UNSAVED_FILE: &str = "unsaved";
/// Stands for all threads of a life.
const ALL: &str = "*";
/// So much must fit before Codex is given work again: many turns' worth of history.
const SPACE_BYTES: usize = 1024 * 1024;
/// Written in CODEX_HOME to see whether there is space.
const SPACE_FILE: &str = ".codex-bridge-space";

/// Histories that are known to be incomplete.
#[derive(Debug, Default)]
pub(crate) struct Transcripts {
    inner: Mutex<TranscriptState>,
}

#[derive(Debug, Default)]
struct TranscriptState {
    unsaved: HashSet<(IncarnationId, Option<ThreadId>)>,
    /// Codex's message, until there is space again.
    trouble: Option<String>,
}

impl Transcripts {
    /// Codex could not save what happened on a thread; without a name it may be any.
    pub(crate) fn lost(&self, life: &Incarnation, thread: Option<&ThreadId>, words: &str) {
        let mut inner = locked(&self.inner);
        let thread = thread
            .filter(|_| inner.unsaved.len() < UNSAVED_MAX)
            .cloned();
        inner.trouble = Some(words.to_owned());
        let new = inner
            .unsaved
            .insert((life.incarnation_id.clone(), thread.clone()));
        drop(inner);
        if new && let Err(error) = write_down(life, thread.as_ref()) {
            tracing::warn!(%error, "that a turn was not saved could not be written down");
        }
    }

    /// Takes over what an earlier daemon learned of a life.
    pub(crate) fn recall(&self, life: &Incarnation) {
        let Ok(text) = std::fs::read_to_string(file(life)) else {
            return;
        };
        let mut inner = locked(&self.inner);
        for line in text.lines().take(UNSAVED_MAX) {
            let thread = (line != ALL).then(|| ThreadId::new(line));
            inner.unsaved.insert((life.incarnation_id.clone(), thread));
        }
    }

    /// What the history says about a turn, as far as it can be believed: what is there is there, but nothing
    /// follows from what is missing.
    pub(crate) fn believed(
        &self,
        life: &IncarnationId,
        thread: &ThreadId,
        found: TurnHistory,
    ) -> TurnHistory {
        let inner = locked(&self.inner);
        let marked = |thread| inner.unsaved.contains(&(life.clone(), thread));
        if proves_itself(&found) || !(marked(Some(thread.clone())) || marked(None)) {
            return found;
        }
        TurnHistory::Unreadable {
            why: "Codex could not save what happened on this thread (a full disk?)".to_owned(),
        }
    }

    /// An error while Codex can't save what it does. `home` is CODEX_HOME.
    pub(crate) async fn check(&self, home: Option<&Path>) -> Result<(), AgentError> {
        let Some(words) = locked(&self.inner).trouble.clone() else {
            return Ok(());
        };
        let Some(home) = home.map(Path::to_owned) else {
            return Ok(());
        };
        let place = home.clone();
        let tried = tokio::task::spawn_blocking(move || try_space(&place)).await;
        match tried.unwrap_or_else(|gone| Err(io::Error::other(gone))) {
            Ok(()) => {
                tracing::info!(home = %home.display(), "codex can save what it does again");
                locked(&self.inner).trouble = None;
                Ok(())
            }
            Err(error) => {
                let reason = format!(
                    "Codex can't save what it does in {}, and what is not saved can't be recovered after a crash: make space there, and the message is answered (Codex said: {words}; trying it: {error})",
                    home.display()
                );
                Err(agent_error(Class::Config, reason))
            }
        }
    }
}

fn proves_itself(found: &TurnHistory) -> bool {
    match found {
        TurnHistory::Turn(RecordedTurn { status, answer, .. }) => match status {
            TurnStatus::InProgress | TurnStatus::Completed | TurnStatus::Failed => true,
            TurnStatus::Interrupted => answer.is_some(),
        },
        TurnHistory::Unreadable { .. } => true,
        TurnHistory::Absent | TurnHistory::Foreign => false,
    }
}

fn file(life: &Incarnation) -> PathBuf {
    Path::new(&life.directory).join(UNSAVED_FILE)
}

fn write_down(life: &Incarnation, thread: Option<&ThreadId>) -> io::Result<()> {
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file(life))?;
    writeln!(file, "{}", thread.map_or(ALL, ThreadId::as_str))
}

/// Whether something of the size fits; nothing is left of it.
fn try_space(home: &Path) -> io::Result<()> {
    let path = home.join(SPACE_FILE);
    // What a crash left there goes first, and a link with it: what it names is not written to.
    let _stale = std::fs::remove_file(&path);
    let tried = std::fs::File::create_new(&path).and_then(|mut file| {
        file.write_all(&vec![0; SPACE_BYTES])?;
        file.sync_all()
    });
    let removed = std::fs::remove_file(&path);
    tried.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{BootId, ProcessStamp, Timestamp, Transport, TurnId};

    fn life(directory: &Path) -> Incarnation {
        Incarnation {
            incarnation_id: IncarnationId::new("a"),
            transport: Transport::Socket,
            keeper: ProcessStamp {
                pid: 1,
                start_ticks: 1,
            },
            directory: directory.display().to_string(),
            codex_version: "0.166.0".to_owned(),
            codex_home: None,
            boot_id: BootId::new("b"),
            started_at: Timestamp(0),
            ended_at: None,
            node_id: None,
        }
    }

    fn turn(status: TurnStatus) -> TurnHistory {
        TurnHistory::Turn(RecordedTurn {
            turn_id: TurnId::new("u"),
            status,
            answer: None,
            effects: Vec::new(),
            received: Vec::new(),
            failure: None,
        })
    }

    #[test]
    fn lost_transcript_makes_absence_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let life = life(dir.path());
        let thread = ThreadId::new("t");
        let first = Transcripts::default();
        first.lost(&life, Some(&thread), "no space");
        let second = Transcripts::default();
        second.recall(&life);
        for known in [first, second] {
            let believed = |id: &str, thread: &ThreadId, found: TurnHistory| {
                known.believed(&IncarnationId::new(id), thread, found)
            };
            for missing in [
                TurnHistory::Absent,
                TurnHistory::Foreign,
                turn(TurnStatus::Interrupted),
            ] {
                let found = believed("a", &thread, missing.clone());
                assert!(
                    matches!(found, TurnHistory::Unreadable { .. }),
                    "{missing:?}"
                );
                assert_eq!(believed("b", &thread, missing.clone()), missing);
                assert_eq!(believed("a", &ThreadId::new("x"), missing.clone()), missing);
            }
            for there in [turn(TurnStatus::Completed), turn(TurnStatus::InProgress)] {
                assert_eq!(believed("a", &thread, there.clone()), there);
            }
        }
    }

    #[test]
    fn d9_space_is_tried_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(SPACE_FILE)).unwrap();
        try_space(dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn lost_transcript_blocks_until_writable() {
        let dir = tempfile::tempdir().unwrap();
        let known = Transcripts::default();
        assert_eq!(known.check(Some(dir.path())).await, Ok(()));
        known.lost(&life(dir.path()), None, "no space left on device");
        let away = dir.path().join("away");
        let error = known.check(Some(&away)).await.unwrap_err();
        assert_eq!(error.failure.class, Class::Config);
        assert!(error.failure.reason.contains("no space left"), "{error}");
        std::fs::create_dir(&away).unwrap();
        assert_eq!(known.check(Some(&away)).await, Ok(()));
        assert_eq!(std::fs::read_dir(&away).unwrap().count(), 0);
        let found = known.believed(
            &IncarnationId::new("a"),
            &ThreadId::new("t"),
            TurnHistory::Absent,
        );
        assert!(
            matches!(found, TurnHistory::Unreadable { .. }),
            "it stays distrusted"
        );
    }
}
