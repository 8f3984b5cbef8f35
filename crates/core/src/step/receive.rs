//! Receive: a row of a source becomes a message (T1), once (T1d).
//!
//! What is not a message at all (own echoes, other methods) is filtered by the channel before this.

use super::{Action, Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Ack, AckMode, AckState, ChannelId, Conversation, ConversationId, ExternalId, Life, Message,
    MessageId, SenderKind, Seq, Tier, Timestamp,
};

/// Takes custody of one inbound text.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Id for the message if it is new.
    pub message_id: MessageId,
    /// Id for the conversation if it is new.
    pub conversation_id: ConversationId,
    /// Where the conversation works if it is new.
    pub workdir: String,
    /// The channel.
    pub channel: ChannelId,
    /// The platform's name for the conversation.
    pub external_key: String,
    /// The platform's id for the message.
    pub external_id: ExternalId,
    /// Who waits for the answer.
    pub kind: SenderKind,
    /// Who sent it.
    pub sender: String,
    /// What they may do.
    pub tier: Tier,
    /// The text.
    pub body: String,
    /// What is owed to the source.
    pub ack: AckMode,
}

/// What became of an inbound text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is a new message, on disk.
    New(MessageId),
    /// It was here before; this is its message.
    Duplicate(MessageId),
    /// Too much waits already: the source keeps it and shows it again.
    Full,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    known: Option<Message>,
    conversation: Option<Conversation>,
    last_seq: Option<Seq>,
    backlog: u32,
}

impl Transition for Receive {
    type View = View;
    type Outcome = Received;
    const NAME: &'static str = "receive";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let conversation = rows.conversation_by_key(&self.channel, &self.external_key)?;
        let last_seq = match &conversation {
            Some(conversation) => rows.last_seq(&conversation.conversation_id)?,
            None => None,
        };
        Ok(View {
            known: rows.message_by_external(&self.channel, &self.external_id)?,
            conversation,
            last_seq,
            backlog: rows.backlog()?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<Received>, Refused> {
        if let Some(known) = view.known {
            return Ok(Decision::nothing(Received::Duplicate(known.message_id)));
        }
        if view.backlog >= limits::BACKLOG_MAX {
            return Ok(Decision::nothing(Received::Full));
        }
        let mut changes = Vec::with_capacity(2);
        let conversation_id = match view.conversation {
            Some(conversation) => conversation.conversation_id,
            None => {
                changes.push(Change::NewConversation(Conversation {
                    conversation_id: self.conversation_id.clone(),
                    channel: self.channel.clone(),
                    external_key: self.external_key,
                    thread: None,
                    last_turn: None,
                    workdir: self.workdir,
                    created_at: now,
                }));
                self.conversation_id
            }
        };
        let ack = Ack {
            mode: self.ack,
            state: match self.ack {
                AckMode::None => AckState::NotNeeded,
                AckMode::OnCustody | AckMode::AfterReply => AckState::Due,
            },
        };
        let message_id = self.message_id.clone();
        changes.push(Change::NewMessage {
            message: Message {
                message_id: self.message_id,
                conversation_id,
                seq: Seq(view.last_seq.map_or(1, |seq| seq.0.saturating_add(1))),
                channel: self.channel,
                external_id: self.external_id,
                kind: self.kind,
                sender: self.sender,
                tier: self.tier,
                body: self.body,
                received_at: now,
                life: Life::new(now),
            },
            ack,
        });
        let mut actions = vec![Action::Schedule];
        if self.ack == AckMode::OnCustody {
            actions.push(Action::Acknowledge {
                message_id: message_id.clone(),
            });
        }
        Ok(Decision {
            changes,
            actions,
            outcome: Received::New(message_id),
        })
    }
}
