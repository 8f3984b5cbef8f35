//! When a message that names files is taken in: with its files, after everything of its page that need not wait for
//! them, and never before an earlier text of its own conversation.
//!
//! How a file is fetched is the business of `files`.

use super::Molecule;
use super::feed::{FeedReader, Trouble};
use super::files::{Later, bring, uploads_of_known, with_note};
use super::row::Incoming;
use crate::inbox::{Arrival, Inbox, Standing};
use bridge_core::value::Command;
use uuid::Uuid;

/// The messages of a page, by whether they can be taken in at once.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) ready: Vec<Arrival>,
    /// Those that name files, and those behind them in the same conversation.
    waiting: Vec<Incoming>,
}

impl Sorted {
    pub(super) fn add(&mut self, incoming: Incoming) {
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
    pub(super) fn is_ready(&self) -> bool {
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
    pub(super) async fn take_waiting<D: Inbox>(
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
            match self.custody(inbox, reader, incoming).await {
                Ok((arrival, kept)) => {
                    self.commit(inbox, reader, vec![arrival], None).await?;
                    reader.owed.add(kept);
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

    /// Takes a message's files into custody, so that the message comes into the ledger with them; and tells which
    /// uploads the platform may forget then. They are fetched once: a row that is in already has them, and for one
    /// that can't come in nothing is fetched.
    async fn custody<D: Inbox>(
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
            Standing::Full => return Err(Trouble::Full),
            Standing::Known { files: kept } => {
                let uploads = uploads_of_known(&files, client.workspace_id(), kept);
                return Ok((arrival, uploads));
            }
            Standing::New => {}
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
    async fn standing<D: Inbox>(&self, inbox: &D, arrival: &Arrival) -> Result<Standing, Trouble> {
        let standing = inbox.standing(self.channel(), &arrival.external_id).await?;
        match (standing, &arrival.extras.former_id) {
            (Standing::Known { .. }, _) | (_, None) => Ok(standing),
            (Standing::New | Standing::Full, Some(former)) => {
                Ok(inbox.standing(self.channel(), former).await?)
            }
        }
    }
}
