//! Import: conversations that an earlier program kept its own record of go on on their Codex threads. Once: the mark
//! is written with them, and a conversation that is here already is not touched.

use super::{Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{ChannelId, Conversation, ConversationId, ThreadId, Timestamp};

/// Takes over another program's conversations.
#[derive(Clone, Debug)]
pub struct Import {
    /// Where it is marked that this was done, as if it were a source that was read.
    pub mark: ChannelId,
    /// What was taken over, in words for people.
    pub from: String,
    /// The conversations.
    pub adopted: Vec<Adopted>,
}

/// One conversation that goes on here.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Its id here.
    pub conversation_id: ConversationId,
    /// The channel it goes on on.
    pub channel: ChannelId,
    /// The platform's name for it.
    pub external_key: String,
    /// Its Codex thread.
    pub thread: ThreadId,
    /// Where it works.
    pub workdir: String,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It was done before.
    Before,
    /// It is done now.
    Now {
        /// Conversations that go on.
        taken: usize,
        /// Conversations that were here already.
        known: usize,
    },
}

/// Whether it was done before, and which of them are here.
#[derive(Debug)]
pub struct View {
    marked: bool,
    here: Vec<bool>,
}

impl Transition for Import {
    type View = View;
    type Outcome = Imported;
    const NAME: &'static str = "import";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let marked = rows.cursor(&self.mark)?.is_some();
        let here = self.adopted.iter().map(|one| {
            let found = rows.conversation_by_key(&one.channel, &one.external_key)?;
            Ok(found.is_some())
        });
        Ok(View {
            marked,
            here: here.collect::<Result<_, RowsError>>()?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<Imported>, Refused> {
        if view.marked {
            return Ok(Decision::nothing(Imported::Before));
        }
        let mut changes: Vec<Change> = self
            .adopted
            .into_iter()
            .zip(&view.here)
            .filter(|(_, here)| !**here)
            .map(|(one, _)| {
                Change::NewConversation(Conversation {
                    conversation_id: one.conversation_id,
                    channel: one.channel,
                    external_key: one.external_key,
                    context: None,
                    thread: Some(one.thread),
                    last_turn: None,
                    workdir: one.workdir,
                    created_at: now,
                })
            })
            .collect();
        let taken = changes.len();
        let known = view.here.len() - taken;
        changes.push(Change::Cursor {
            channel: self.mark,
            position: self.from,
            at: now,
        });
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: Imported::Now { taken, known },
        })
    }
}
