//! The legacy program's record of its conversations, `sessions.json`, is taken over once: each chat goes on on the Codex
//! thread that it had. The file itself is left as it is.
//!
//! A thread that Codex does not know any more is found out with the first message, like any other lost thread.

use crate::Daemon;
use crate::process::ids;
use bridge_channel::molecule::{Origin, Origins, PREFIX};
use bridge_core::limits::CONVERSATION_KEY_MAX_CHARS;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{Adopted, Import, Imported};
use bridge_core::value::{ChannelId, ThreadId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The legacy program's file.
const SESSIONS: &str = "sessions.json";
/// Where the ledger marks that it was taken over.
const MARK: &str = "import:sessions";
/// Longest file that is read: ten thousand chats are a tenth of it.
const BYTES_MAX: u64 = 8 << 20;
/// Begins the key of a chat with the people at a canvas; the workspace follows.
const CANVAS: &str = "canvas:";
/// Begins the key of a chat with a peer; its workspace follows.
const PEER: &str = "peer:";

/// A workspace that the chats may belong to.
#[derive(Clone, Debug)]
pub(crate) struct ImportTarget {
    pub(crate) workspace: String,
    pub(crate) origins: Origins,
}

/// Why a file can't be taken over.
#[derive(Debug, thiserror::Error)]
enum SessionsError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it belongs to another user, who would choose our threads")]
    Foreign,
    #[error("it is longer than {BYTES_MAX} bytes")]
    TooLong,
    #[error("it is no map of chats to sessions ({0})")]
    Form(#[from] serde_json::Error),
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Takes the legacy program's conversations over, from the first of these directories that knows a chat. Without a
    /// workspace nothing is done: there is nobody whose chats they could be.
    pub(crate) async fn import_sessions(
        self: &Arc<Self>,
        directories: &[PathBuf],
        targets: &[ImportTarget],
    ) -> Result<(), LedgerError> {
        let Some(first) = targets.first() else {
            return Ok(());
        };
        let mark = ChannelId::new(MARK);
        let looked_for = mark.clone();
        if let Some(before) = self
            .ledger
            .read(move |rows| rows.cursor(&looked_for))
            .await?
        {
            tracing::debug!(from = before, "old sessions were taken over before");
            return Ok(());
        }
        let (sessions, places) = gather(directories);
        if places.is_empty() {
            return Ok(());
        }
        let from = places.join(", ");
        let adopted: Vec<_> = sessions
            .into_iter()
            .filter_map(|(key, session)| self.adopt_session(&key, &session, first, targets))
            .collect();
        let import = Import {
            mark,
            from: from.clone(),
            adopted,
        };
        match self.commit(import).await? {
            Imported::Before => {}
            Imported::Now { taken, known } => {
                tracing::info!(
                    from,
                    taken,
                    known,
                    "old conversations go on on their threads"
                );
            }
        }
        Ok(())
    }

    fn adopt_session(
        &self,
        key: &str,
        session: &str,
        first: &ImportTarget,
        targets: &[ImportTarget],
    ) -> Option<Adopted> {
        let refuse = |why: &str| {
            let key = crate::term::escape_line(key).into_owned();
            tracing::warn!(key, why, "an old session is not taken over");
        };
        let Ok(thread) = Uuid::parse_str(session.trim()) else {
            refuse("its id is no UUID, so it is none of Codex's");
            return None;
        };
        if key.chars().count() > CONVERSATION_KEY_MAX_CHARS || key.chars().any(char::is_control) {
            refuse("its key is no key of a chat");
            return None;
        }
        let (workspace, tier) = match (key.strip_prefix(CANVAS), key.strip_prefix(PEER)) {
            (Some(workspace), _) if !workspace.is_empty() => {
                let known = targets.iter().find(|target| target.workspace == workspace);
                (
                    workspace,
                    known.unwrap_or(first).origins.tier(Origin::Canvas),
                )
            }
            (_, Some(peer)) if !peer.is_empty() => {
                (first.workspace.as_str(), first.origins.tier_of_agent(peer))
            }
            (_, _) => {
                refuse("its key is neither canvas:<workspace> nor peer:<id>");
                return None;
            }
        };
        let conversation_id = ids::conversation_id();
        Some(Adopted {
            channel: ChannelId::new(format!("{PREFIX}{workspace}")),
            external_key: key.to_owned(),
            thread: ThreadId::new(thread.hyphenated().to_string()),
            workdir: self.settings().workdir(tier, &conversation_id),
            conversation_id,
        })
    }
}

/// All sessions of these directories; where two know a chat, the earlier directory counts.
fn gather(directories: &[PathBuf]) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut sessions, mut places) = (BTreeMap::new(), Vec::new());
    for directory in directories {
        let path = directory.join(SESSIONS);
        match read(&path) {
            Ok(None) => {}
            Ok(Some(found)) => {
                places.push(path.display().to_string());
                for (key, session) in found {
                    sessions.entry(key).or_insert(session);
                }
            }
            Err(error) => {
                tracing::warn!(
                    path = %path.display(),
                    error = crate::term::escape_line(&error.to_string()).into_owned(),
                    "old sessions of this file can't be taken over; their chats begin anew"
                );
            }
        }
    }
    (sessions, places)
}

fn read(path: &Path) -> Result<Option<BTreeMap<String, String>>, SessionsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let owner = file.metadata()?.uid();
    if owner != nix::unistd::geteuid().as_raw() && owner != 0 {
        return Err(SessionsError::Foreign);
    }
    let mut text = String::new();
    let length = file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > BYTES_MAX {
        return Err(SessionsError::TooLong);
    }
    Ok(Some(serde_json::from_str(&text)?))
}
