//! Files on their way through a turn: into the working directory before it, out of the outbox after it, and out of
//! the file_store when no row names them any more.
//!
//! All of it is work on disks, done where it blocks nobody.

use crate::Daemon;
use crate::turn::Claimed;
use bridge_channel::files::{Aside, Gathered, Outbox, PlaceError, place};
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, TurnHistory, TurnStatus};
use bridge_core::value::{Attachment, Class, Conversation, Failure, Message, MessageId};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What an answer takes along, and where it lay.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    gathered: Gathered,
    lay: Option<(Outbox, Vec<Aside>)>,
}

impl Parcel {
    pub(crate) fn files(&self) -> Vec<Attachment> {
        self.gathered.files.clone()
    }

    /// The answer, with what could not be sent.
    pub(crate) fn complete(&self, answer: Option<String>) -> Option<String> {
        match (answer, self.gathered.not_sent.as_str()) {
            (answer, "") => answer,
            (Some(answer), not_sent) => Some(format!("{answer}\n\n{not_sent}")),
            (None, not_sent) => Some(not_sent.to_owned()),
        }
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Puts a message's files where its turn can read them.
    pub(crate) async fn place_files(
        &self,
        message: &Message,
        conversation: &Conversation,
    ) -> Result<(), Failure> {
        if message.attachments.is_empty() {
            return Ok(());
        }
        let (message_id, files) = (message.message_id.clone(), message.attachments.clone());
        self.bring_files(&files).await?;
        let workdir = PathBuf::from(&conversation.workdir);
        let file_store = self.settings().start.file_store.clone();
        let placed = blocking(move || place(&file_store, &workdir, &message_id, &files)).await?;
        placed.map_err(|error| {
            let class = match &error {
                PlaceError::WorkingDirectory { .. } => Class::Config,
                PlaceError::Copy { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                    Class::Permanent
                }
                // A disk or a table that is full for now says nothing about the file.
                PlaceError::Copy { .. } => Class::Transient,
            };
            Failure::new(class, error.to_string())
        })
    }

    /// What the answer of a message takes along. An answer is never kept back by its files: what can't be read is
    /// said in it.
    pub(crate) async fn gather(self: &Arc<Self>, claimed: &Claimed) -> Parcel {
        match self.try_gather(claimed).await {
            Ok(parcel) => parcel,
            Err(failure) => {
                let reason = crate::term::escape_line(&failure.reason).into_owned();
                let message_id = &claimed.message.message_id;
                tracing::warn!(%message_id, reason, "an outbox could not be looked into");
                Parcel::default()
            }
        }
    }

    /// The same for a turn that ended while nobody watched, if it has its answer.
    pub(crate) async fn harvest(
        self: &Arc<Self>,
        claimed: &Claimed,
        found: &mut TurnHistory,
    ) -> Parcel {
        let TurnHistory::Turn(finding) = found else {
            return Parcel::default();
        };
        let answered = match finding.status {
            TurnStatus::Completed => true,
            TurnStatus::Interrupted | TurnStatus::Failed => finding.answer.is_some(),
            TurnStatus::InProgress => false,
        };
        if !answered {
            return Parcel::default();
        }
        let parcel = self.gather(claimed).await;
        finding.answer = parcel.complete(finding.answer.take());
        parcel
    }

    async fn try_gather(self: &Arc<Self>, claimed: &Claimed) -> Result<Parcel, Failure> {
        let (message, conversation) = (&claimed.message, &claimed.conversation);
        if !self.settings().tier(message.tier).sandbox.can_write() {
            return Ok(Parcel::default());
        }
        let outbox = Outbox::new(&conversation.workdir, &conversation.conversation_id);
        let (looked, id, attempt) = (
            outbox.clone(),
            message.message_id.clone(),
            message.life.attempt,
        );
        let aside = match blocking(move || looked.set_aside(&id, attempt)).await? {
            Ok(aside) if aside.is_empty() => return Ok(Parcel::default()),
            Ok(aside) => aside,
            Err(error) if outbox.is_there() => return Ok(none_sent(&error)),
            Err(error) => return Err(of_disk(&error)),
        };
        let (answered, open) = self.by_answer(aside).await.map_err(of_ledger)?;
        let (file_store, gatherer) = (self.settings().start.file_store.clone(), outbox.clone());
        let secret_registry = Arc::clone(&self.settings().start.secret_registry);
        let gathered = blocking(move || -> io::Result<_> {
            gatherer.clear(&answered)?;
            let gathered = gatherer.gather(&open, &file_store, &secret_registry.secrets())?;
            Ok((gathered, open))
        });
        let (gathered, open) = match gathered.await? {
            Ok(gathered) => gathered,
            Err(error) => return Ok(none_sent(&error)),
        };
        if let Err(error) = self.share_patiently(&gathered.files).await {
            return Ok(none_sent(&error));
        }
        Ok(Parcel {
            gathered,
            lay: Some((outbox, open)),
        })
    }

    /// What was set aside for messages whose answer is written down, and the rest.
    async fn by_answer(&self, aside: Vec<Aside>) -> Result<(Vec<Aside>, Vec<Aside>), LedgerError> {
        self.ledger
            .read(move |rows| {
                let (mut answered, mut open) = (Vec::new(), Vec::new());
                for aside in aside {
                    if rows.answer(&aside.message_id)?.is_some() {
                        answered.push(aside)
                    } else {
                        open.push(aside)
                    }
                }
                Ok((answered, open))
            })
            .await
    }

    /// Throws away what lay in the outbox, if the answer that takes it along is written down.
    pub(crate) async fn let_go(&self, message_id: &MessageId, parcel: Parcel) {
        let Some((outbox, aside)) = parcel.lay else {
            return;
        };
        let id = message_id.clone();
        let answer = self.ledger.read(move |rows| rows.answer(&id)).await;
        if !matches!(answer, Ok(Some(_))) {
            return;
        }
        // What stays is known as sent by the answer, and thrown away with the next one.
        if let Ok(Err(error)) = blocking(move || outbox.clear(&aside)).await {
            tracing::warn!(%error, %message_id, "files that were taken along are still in the outbox");
        }
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::new(Class::Bug, format!("work on files broke off: {error}")))
}

/// People hear that something lies there and was not sent.
fn none_sent(error: &dyn Error) -> Parcel {
    let gathered = Gathered {
        files: Vec::new(),
        not_sent: format!("[codex-bridge] The files in the outbox were not sent along: {error}."),
    };
    Parcel {
        gathered,
        lay: None,
    }
}

pub(crate) fn of_disk(error: &io::Error) -> Failure {
    Failure::new(Class::Transient, error.to_string())
}

pub(crate) fn of_ledger(error: LedgerError) -> Failure {
    Failure::new(error.class(), error.to_string())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::settings::{Settings, StartSettings};
    use bridge_channel::files::{FILE_MAX_BYTES, FileStore};
    use bridge_core::value::{BootId, ChannelId, Conversation, ConversationId, Tier, Timestamp};
    use std::sync::Arc;

    #[test]
    fn instructions_name_outbox_for_writable_tiers() {
        let root = tempfile::tempdir().unwrap();
        let file_store = FileStore::open(root.path().join("files"), FILE_MAX_BYTES).unwrap();
        let boot = BootId::new("b");
        let start = StartSettings::new(boot, root.path().to_owned(), file_store);
        let settings = Settings::new(&Config::default(), Arc::new(start));
        let conversation = Conversation {
            conversation_id: ConversationId::new("c1"),
            channel: ChannelId::new("local"),
            external_key: "main".to_owned(),
            context: None,
            thread: None,
            last_turn: None,
            workdir: "/work/c1".to_owned(),
            model: None,
            sandbox: None,
            created_at: Timestamp(0),
        };
        let instructions = |tier| settings.thread_spec(tier, &conversation).instructions;
        assert!(instructions(Tier::Owner).contains("/work/c1/outbox/c1 (make it"));
        assert!(!instructions(Tier::Peer).contains("outbox"));
    }
}
