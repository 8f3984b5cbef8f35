//! Takes in messages that name files, and acks the uploads that are stored here.
//!
//! Such a message is taken in with its files, after everything of its page that need not wait for them, and never before
//! an earlier text of its own conversation. Acks are a courtesy: the platform forgets uploads by itself, so nothing waits
//! long for an ack and none is repeated for ever.

use crate::http::{HttpError, accept};
use crate::inbox::{Arrival, Inbox, IntakeStatus};
use crate::molecule::Molecule;
use crate::molecule::client::Client;
use crate::molecule::feed::{FeedReader, Trouble};
use crate::molecule::files::{Later, bring, uploads_of_known, with_note};
use crate::molecule::reply::upload::refuses;
use crate::molecule::row::Incoming;
use bridge_core::deadline::after;
use bridge_core::value::Command;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// Deadline of one round of acks: the feed is not read meanwhile.
const ACK_DEADLINE: Duration = Duration::from_secs(5);
/// Pause after a failed ack.
const ACK_PAUSE: Duration = Duration::from_secs(30);
/// Tries per upload.
const ACK_TRIES_MAX: u32 = 5;
/// Uploads that are remembered.
const UPLOADS_MAX: usize = 1_000;

/// The messages of a page, by whether they can be taken in at once.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub(crate) ready: Vec<Arrival>,
    /// Those that name files, and those behind them in the same conversation.
    waiting: Vec<Incoming>,
}

impl Sorted {
    pub(crate) fn add(&mut self, incoming: Incoming) {
        let names_files = !incoming.files.is_empty() && incoming.arrival.extras.command.is_none();
        let mut waiting = self.waiting.iter();
        let behind =
            waiting.any(|first| first.arrival.conversation == incoming.arrival.conversation);
        if names_files || (behind && !overtakes(&incoming.arrival)) {
            self.waiting.push(incoming)
        } else {
            self.ready.push(incoming.arrival)
        }
    }

    /// Whether nothing has to wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Whether a message is about what the bridge does now, and so not part of the talk that others wait in.
fn overtakes(arrival: &Arrival) -> bool {
    match &arrival.extras.command {
        Some(Command::Stop | Command::Status | Command::Decide { .. } | Command::Answer { .. }) => {
            true
        }
        // What was said before it belongs to the talk before it.
        Some(Command::New) | None => false,
    }
}

impl Molecule {
    /// Takes in what has to wait, one by one. A file that does not come holds back its own conversation only.
    pub(crate) async fn take_waiting<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        sorted: Sorted,
    ) -> Result<(), Trouble> {
        let (mut stuck, mut held) = (None, Vec::<String>::new());
        for incoming in sorted.waiting {
            let conversation = incoming.arrival.conversation.clone();
            if held.contains(&conversation) {
                continue;
            }
            match self.fetch_files(inbox, reader, incoming).await {
                Ok((arrival, kept)) => {
                    self.commit(inbox, reader, vec![arrival], None).await?;
                    reader.acks.add(kept);
                }
                Err(Trouble::Files(later @ (Later::Platform(_) | Later::Early))) => {
                    held.push(conversation);
                    stuck.get_or_insert(later);
                }
                Err(trouble) => return Err(trouble),
            }
        }
        stuck.map_or(Ok(()), |later| Err(later.into()))
    }

    /// Stores a message's files, so that the message comes into the ledger with them, and returns the uploads that the
    /// platform may forget then. Files are fetched once: a row that is in the ledger has them, and for one that can't
    /// come in nothing is fetched.
    async fn fetch_files<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        incoming: Incoming,
    ) -> Result<(Arrival, Vec<Uuid>), Trouble> {
        let Incoming { mut arrival, files } = incoming;
        if files.is_empty() || arrival.extras.command.is_some() {
            return Ok((arrival, Vec::new()));
        }
        let (client, id) = (&self.0.client, arrival.external_id.clone());
        match self.standing(inbox, &arrival).await? {
            IntakeStatus::Full => return Err(Trouble::Full),
            IntakeStatus::Known { files: kept } => {
                let uploads = uploads_of_known(&files, client.workspace_id(), kept);
                return Ok((arrival, uploads));
            }
            IntakeStatus::New => {}
        }
        if reader.patience.is_early(&id) {
            return Err(Later::Early.into());
        }
        let effort = reader.patience.effort(&id);
        let brought = bring(client, self.0.file_store.get(), &files, effort).await;
        let brought = brought.inspect_err(|later| match later {
            Later::Platform(error) => {
                let reason = error.to_string().escape_debug().to_string();
                tracing::warn!(channel = %self.channel(), row = %id, reason, "a file of a message could not be fetched; its conversation waits for it");
                reader.patience.note(&id, error);
            }
            Later::Early | Later::Disk(_) => {}
        })?;
        arrival.body = with_note(&arrival.body, &brought.missing);
        arrival.extras.attachments = brought.files;
        Ok((arrival, brought.uploads))
    }

    /// How a message stands, under its id or its former one.
    async fn standing<D: Inbox>(
        &self,
        inbox: &D,
        arrival: &Arrival,
    ) -> Result<IntakeStatus, Trouble> {
        let standing = inbox.standing(self.channel(), &arrival.external_id).await?;
        match (standing, &arrival.extras.former_id) {
            (IntakeStatus::Known { .. }, _) | (_, None) => Ok(standing),
            (IntakeStatus::New | IntakeStatus::Full, Some(former)) => {
                Ok(inbox.standing(self.channel(), former).await?)
            }
        }
    }
}

#[derive(Debug)]
struct PendingAck {
    file: Uuid,
    tries: u32,
}

/// Uploads whose messages are on disk.
#[derive(Debug, Default)]
pub(crate) struct UploadAcks {
    pending: VecDeque<PendingAck>,
    not_before: Option<Instant>,
}

impl UploadAcks {
    /// Queues acks; drops the oldest beyond [`UPLOADS_MAX`].
    pub(crate) fn add(&mut self, files: Vec<Uuid>) {
        for file in files {
            if self.pending.iter().all(|ack| ack.file != file) {
                self.pending.push_back(PendingAck { file, tries: 0 });
            }
        }
        while self.pending.len() > UPLOADS_MAX {
            self.pending.pop_front();
        }
    }

    /// Acks each upload at most once: one that the platform refuses holds up no other.
    pub(crate) async fn send_due(&mut self, client: &Client) {
        if self.not_before.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let all = self.pending.len();
        let round = timeout(ACK_DEADLINE, async {
            let mut failed = false;
            for _ in 0..all {
                failed |= self.send_one(client).await;
            }
            failed
        });
        let failed = round.await.unwrap_or(true);
        self.not_before = failed.then(|| after(Instant::now(), ACK_PAUSE));
    }

    /// Acks the first; `true` if that failed. The try is counted and the upload put last before the call, because the
    /// round's deadline may cut the call.
    async fn send_one(&mut self, client: &Client) -> bool {
        let Some(ack) = self.pending.pop_front() else {
            return false;
        };
        let (file, tries) = (ack.file, ack.tries.saturating_add(1));
        let keep = tries < ACK_TRIES_MAX;
        if keep {
            self.pending.push_back(PendingAck { file, tries });
        }
        match acknowledge(client, file).await {
            Ok(()) => {
                if keep {
                    self.pending.pop_back();
                }
                false
            }
            Err(error) => {
                let reason = error.to_string().escape_debug().to_string();
                tracing::debug!(%file, reason, tries, "the ack of an upload failed");
                true
            }
        }
    }
}

async fn acknowledge(client: &Client, file: Uuid) -> Result<(), HttpError> {
    let file = file.hyphenated().to_string();
    let call = client.post(&["pending-uploads", &file, "ack"]);
    match accept(call.timeout(ACK_DEADLINE)).await {
        Ok(_) => Ok(()),
        // The older platform deletes an upload with its ack, so a repeated ack is refused.
        Err(error) if refuses(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
