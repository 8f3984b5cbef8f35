//! Threads that go with their conversations from node to node: their files are stored in the ledger piece by piece, and
//! restored from there.

use super::arrive::{self, ThreadArrivalError, blocking};
use crate::app_server::Host;
use crate::error::agent_error;
use crate::locked;
use crate::rollout::{
    CodexHome, RolloutChange, RolloutError, RolloutMark, RolloutPath, RolloutRestore, RolloutTail,
};
use bridge_core::port::{AgentError, Ledger, LedgerError, TravellingThread};
use bridge_core::step::StoreSegments;
use bridge_core::value::{Class, MessageId, Segment, ThreadFile, ThreadId, Timestamp};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// Bytes in one segment: what a turn adds is mostly one.
const SEGMENT_MAX: usize = 1024 * 1024;
/// Segments stored for one look; the rest follows with the next one.
const SEGMENTS_MAX: usize = 64;
/// Threads whose files are remembered; beyond it all are read from the ledger again.
const KNOWN_MAX: usize = 4096;

/// Why a thread could not be stored or brought.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TravelError {
    #[error("read or write the thread's file: {0}")]
    Files(#[from] RolloutError),
    #[error("bring the thread to this node: {0}")]
    Arrival(#[from] ThreadArrivalError),
    #[error("store or read the thread's file in the database: {0}")]
    Ledger(#[from] LedgerError),
}

impl From<TravelError> for AgentError {
    fn from(error: TravelError) -> Self {
        let class = match &error {
            TravelError::Files(_) => Class::Transient,
            TravelError::Arrival(ThreadArrivalError::Codex(agent)) => agent.failure.class.clone(),
            TravelError::Arrival(ThreadArrivalError::Files(_)) => Class::Transient,
            TravelError::Ledger(error) => error.class(),
        };
        agent_error(class, error.to_string())
    }
}

/// What this process knows of the threads that it stored or brought.
#[derive(Debug, Default)]
pub(crate) struct Travels {
    /// The newest generation that was brought here.
    here: Mutex<HashMap<ThreadId, u32>>,
    /// How far each file was stored.
    tails: Mutex<HashMap<ThreadId, Vec<RolloutTail>>>,
}

impl Travels {
    /// Brings the stored files of a thread, unless this generation is here already.
    pub(crate) async fn bring<L: Ledger>(
        &self,
        host: &Host<L>,
        ledger: &L,
        aside: PathBuf,
        travelling: &TravellingThread,
    ) -> Result<(), TravelError> {
        let TravellingThread {
            thread, generation, ..
        } = travelling;
        if locked(&self.here).get(thread) == Some(generation) {
            return Ok(());
        }
        let files = stored(ledger, thread).await?;
        if !files.is_empty() {
            let mut restore = RolloutRestore::new(arrive::home(host)?, aside);
            for file in &files {
                restore.file(RolloutPath::parse(&file.path)?)?;
                let mut offset = 0;
                while offset < file.length {
                    let Some(segment) = segment(ledger, thread, file, offset).await? else {
                        return Err(RolloutError::Gap {
                            path: file.path.clone(),
                            expected: offset,
                            found: file.length,
                        }
                        .into());
                    };
                    restore.append(offset, &segment.bytes)?;
                    offset = segment.end();
                }
            }
            let outcomes = arrive::restore(host, restore).await?;
            tracing::debug!(%thread, generation, ?outcomes, "a thread was brought to this node");
        }
        locked(&self.tails).remove(thread);
        let mut here = locked(&self.here);
        if here.len() >= KNOWN_MAX {
            here.clear();
        }
        here.insert(thread.clone(), *generation);
        Ok(())
    }

    /// Stores what the files of a thread grew by.
    pub(crate) async fn store<L: Ledger>(
        &self,
        home: CodexHome,
        ledger: &L,
        travelling: &TravellingThread,
        message_id: &MessageId,
    ) -> Result<(), TravelError> {
        let thread = &travelling.thread;
        let known = locked(&self.tails).remove(thread);
        let tails = match known {
            Some(tails) => tails,
            None => self.tails_of(&home, ledger, thread).await?,
        };
        let generation = travelling.generation;
        let (home, of) = (home, thread.clone());
        let growth = blocking(move || Growth::read(&home, of, tails, generation)).await?;
        let Growth {
            tails,
            segments,
            anew,
        } = growth;
        if !segments.is_empty() {
            let store = StoreSegments {
                message_id: message_id.clone(),
                anew: anew.then(|| thread.clone()),
                segments,
            };
            ledger.transact(store, Timestamp(0)).await?;
        }
        let mut known = locked(&self.tails);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(thread.clone(), tails);
        Ok(())
    }

    /// The files of a thread, each from where it is stored on.
    async fn tails_of<L: Ledger>(
        &self,
        home: &CodexHome,
        ledger: &L,
        thread: &ThreadId,
    ) -> Result<Vec<RolloutTail>, TravelError> {
        let stored = stored(ledger, thread).await?;
        let (home, of) = (home.clone(), thread.clone());
        let lineage = blocking(move || home.lineage(&of)).await?;
        let tails = lineage.into_iter().map(|file| {
            let known = stored
                .iter()
                .find(|known| known.path == file.path.as_str())
                .map(|known| RolloutMark {
                    offset: known.length,
                    digest: known.digest,
                });
            RolloutTail::new(file.path, known.unwrap_or_default())
        });
        Ok(tails.collect())
    }
}

/// What the files of a thread grew by.
struct Growth {
    tails: Vec<RolloutTail>,
    segments: Vec<Segment>,
    /// A file is another one now: all of them are stored anew.
    anew: bool,
}

impl Growth {
    fn read(
        home: &CodexHome,
        thread: ThreadId,
        tails: Vec<RolloutTail>,
        generation: u32,
    ) -> Result<Self, RolloutError> {
        let mut growth = Self {
            tails,
            segments: Vec::new(),
            anew: false,
        };
        if growth.tails.is_empty() || growth.grow(home, &thread, generation)? {
            let lineage = home.lineage(&thread)?;
            growth.anew = !growth.tails.is_empty();
            growth.segments.clear();
            growth.tails = lineage
                .into_iter()
                .map(|file| RolloutTail::new(file.path, RolloutMark::default()))
                .collect();
            growth.grow(home, &thread, generation)?;
        }
        Ok(growth)
    }

    /// True when a file is not what was stored.
    fn grow(
        &mut self,
        home: &CodexHome,
        thread: &ThreadId,
        generation: u32,
    ) -> Result<bool, RolloutError> {
        for tail in &mut self.tails {
            while self.segments.len() < SEGMENTS_MAX {
                let read = match tail.read(home, SEGMENT_MAX)? {
                    RolloutChange::Appended(read) => read,
                    RolloutChange::Rewritten => return Ok(true),
                    RolloutChange::None | RolloutChange::Gone => break,
                };
                tail.stored(&read);
                self.segments.push(Segment {
                    thread: thread.clone(),
                    path: tail.path().as_str().to_owned(),
                    generation,
                    offset: read.offset,
                    bytes: read.bytes,
                    digest: read.mark.digest,
                });
                if !read.more {
                    break;
                }
            }
        }
        Ok(false)
    }
}

async fn stored<L: Ledger>(ledger: &L, thread: &ThreadId) -> Result<Vec<ThreadFile>, LedgerError> {
    let thread = thread.clone();
    ledger.read(move |rows| rows.thread_files(&thread)).await
}

async fn segment<L: Ledger>(
    ledger: &L,
    thread: &ThreadId,
    file: &ThreadFile,
    offset: u64,
) -> Result<Option<Segment>, LedgerError> {
    let (thread, path) = (thread.clone(), file.path.clone());
    let read = ledger.read(move |rows| rows.segment(&thread, &path, offset));
    read.await
}
