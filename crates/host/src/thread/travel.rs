//! Threads that go with their conversations from node to node: their files are stored in the ledger piece by piece, and
//! restored from there.

use super::arrive::{self, ThreadArrivalError, blocking};
use crate::app_server::Host;
use crate::error::agent_error;
use crate::locked;
use crate::rollout::{
    CodexHome, RolloutChange, RolloutError, RolloutMark, RolloutPath, RolloutRestore, RolloutTail,
};
use bridge_core::port::{AgentError, Ledger, LedgerError, ThreadFailure, TravellingThread};
use bridge_core::step::StoreSegments;
use bridge_core::value::{Class, MessageId, Segment, ThreadFile, ThreadId, Timestamp};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// Bytes in one segment: what a turn adds is mostly one.
const SEGMENT_MAX: usize = 1024 * 1024;
/// Segments in one transaction: all nodes wait for it.
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
        let (class, thread) = match &error {
            TravelError::Files(_) | TravelError::Arrival(ThreadArrivalError::Files(_)) => {
                (Class::Transient, Some(ThreadFailure::Damaged))
            }
            TravelError::Arrival(ThreadArrivalError::Codex(agent)) => {
                (agent.failure.class.clone(), agent.thread)
            }
            TravelError::Ledger(error) => (error.class(), None),
        };
        Self {
            thread,
            ..agent_error(class, error.to_string())
        }
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

    /// Stores what the files of a thread grew by, to their end.
    pub(crate) async fn store<L: Ledger>(
        &self,
        home: CodexHome,
        ledger: &L,
        travelling: &TravellingThread,
        message_id: &MessageId,
    ) -> Result<(), TravelError> {
        let thread = &travelling.thread;
        let known = locked(&self.tails).remove(thread);
        let mut tails = match known {
            Some(tails) => tails,
            None => self.tails_of(&home, ledger, thread).await?,
        };
        let generation = travelling.generation;
        loop {
            let (home, of) = (home.clone(), thread.clone());
            let growth = blocking(move || Growth::read(&home, of, tails, generation)).await?;
            tails = growth.tails;
            let read = growth.segments.len();
            if read > 0 {
                let store = StoreSegments {
                    message_id: message_id.clone(),
                    anew: growth.anew.then(|| thread.clone()),
                    segments: growth.segments,
                };
                ledger.transact(store, Timestamp(0)).await?;
            }
            if read < SEGMENTS_MAX {
                break;
            }
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
        if let (Some(gone), []) = (stored.last(), lineage.as_slice()) {
            return Err(RolloutError::gone(&gone.path).into());
        }
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
            if let (Some(gone), []) = (growth.tails.last(), lineage.as_slice()) {
                return Err(RolloutError::gone(gone.path().as_str()));
            }
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

    /// True when a file is not what was stored, or not there.
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
                    RolloutChange::Rewritten | RolloutChange::Gone => return Ok(true),
                    RolloutChange::None => break,
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

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::FleetRead;
    use bridge_core::step::{Extras, MidTurn, MoveConversation, Receive, Verdict};
    use bridge_core::value::{
        ChannelId, ConversationId, ExternalId, NodeId, NodeInfo, SenderKind, Tier,
    };
    use bridge_testkit::MemoryLedger;
    use std::path::Path;

    const THREAD: &str = "01a1f044-a1d7-7d91-b1a7-c8366516aec5";
    const PLACE: &str = "sessions/2026/11/18";

    fn file() -> String {
        format!("{PLACE}/rollout-2026-11-18T20-06-32-{THREAD}.jsonl")
    }

    /// A node with a conversation, and the thread that is in its home.
    async fn node(root: &Path, text: &str) -> (MemoryLedger, CodexHome) {
        std::fs::create_dir_all(root.join(PLACE)).unwrap();
        std::fs::write(root.join(file()), text).unwrap();
        let (node_id, conversation_id) = (NodeId::new("n"), ConversationId::new("c"));
        let rows = MemoryLedger::new();
        let ledger = rows.join(&node_id, NodeInfo::default(), i64::MAX).unwrap();
        let receive = Receive {
            message_id: MessageId::new("m"),
            conversation_id: conversation_id.clone(),
            workdir: "/work".to_owned(),
            channel: ChannelId::new("local"),
            external_key: "c".to_owned(),
            external_id: ExternalId::new("x"),
            kind: SenderKind::Person,
            sender: "ann".to_owned(),
            tier: Tier::Owner,
            body: String::new(),
            mid_turn: MidTurn::Queue,
            verdict: Verdict::Fit,
            extras: Extras::default(),
        };
        ledger.transact(receive, Timestamp(0)).await.unwrap();
        let comes_home = MoveConversation {
            conversation_id,
            to: node_id,
            actor: "ada".to_owned(),
        };
        ledger.transact(comes_home, Timestamp(0)).await.unwrap();
        (ledger, CodexHome::open(root).unwrap())
    }

    async fn store(ledger: &MemoryLedger, home: &CodexHome) -> Result<(), AgentError> {
        let travelling = TravellingThread {
            thread: ThreadId::new(THREAD),
            codex_home: None,
            generation: 1,
        };
        let (travels, message_id) = (Travels::default(), MessageId::new("m"));
        let stored = travels.store(home.clone(), ledger, &travelling, &message_id);
        Ok(stored.await?)
    }

    fn stored_length(ledger: &MemoryLedger) -> u64 {
        let rows = ledger.snapshot().unwrap();
        let files = rows.thread_files(&ThreadId::new(THREAD)).unwrap();
        files.first().map_or(0, |file| file.length)
    }

    #[tokio::test]
    async fn long_threads_are_stored_whole() {
        let root = tempfile::tempdir().unwrap();
        let line = format!(
            "{{\"payload\":{{\"text\":\"{}\"}}}}\n",
            "x".repeat(1_000_000)
        );
        let text = line.repeat(SEGMENTS_MAX + 2);
        let (ledger, home) = node(root.path(), &text).await;
        store(&ledger, &home).await.unwrap();
        assert_eq!(stored_length(&ledger), text.len() as u64);
    }

    #[tokio::test]
    async fn vanished_threads_are_damaged() {
        let root = tempfile::tempdir().unwrap();
        let (ledger, home) = node(root.path(), "{\"payload\":{}}\n").await;
        store(&ledger, &home).await.unwrap();
        assert_eq!(stored_length(&ledger), 15);
        std::fs::remove_file(root.path().join(file())).unwrap();
        let gone = store(&ledger, &home).await.unwrap_err();
        assert_eq!(gone.thread, Some(ThreadFailure::Damaged));
    }
}
