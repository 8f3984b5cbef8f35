//! Takes over conversations of an earlier program.

use crate::port::Change;
use crate::step::{RunError, Transition, Tx};
use crate::value::{ChannelId, Conversation, ConversationId, ThreadId, Timestamp};

/// Takes over another program's conversations, which go on on their Codex threads. Once: the mark is written with them,
/// and a conversation that is here already is not touched.
#[derive(Clone, Debug)]
pub struct Import {
    /// Where it is marked that this was done, as if it were a source that was read.
    pub mark: ChannelId,
    /// What was taken over, in words for people.
    pub from: String,
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

/// The result of an import.
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

impl Transition for Import {
    type Outcome = Imported;
    const NAME: &'static str = "import";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Imported, RunError> {
        if tx.cursor(&self.mark)?.is_some() {
            return Ok(Imported::Before);
        }
        let (mut taken, mut known) = (0, 0);
        for one in self.adopted {
            if tx
                .conversation_by_key(&one.channel, &one.external_key)?
                .is_some()
            {
                known += 1;
                continue;
            }
            taken += 1;
            tx.change(Change::NewConversation(Conversation {
                conversation_id: one.conversation_id,
                channel: one.channel,
                external_key: one.external_key,
                context: None,
                thread: Some(one.thread),
                last_turn: None,
                workdir: one.workdir,
                model: None,
                sandbox: None,
                created_at: now,
            }))?;
        }
        tx.change(Change::Cursor {
            channel: self.mark,
            position: self.from,
            at: now,
        })?;
        Ok(Imported::Now { taken, known })
    }
}
