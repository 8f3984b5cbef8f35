//! Receive: a row of a source becomes a message (T1), once (T1d), or a dead letter at once when it can't be one (T1x).
//!
//! What is not a message at all (own echoes, other methods) is filtered by the channel before this.

use super::outbox::Outbox;
use super::{Action, Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Ack, AckMode, AckState, ChannelId, Class, Conversation, ConversationId, ExternalId, Failure,
    Life, Message, MessageId, MessageState, Round, SenderKind, Seq, StateName, Tier, Timestamp,
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
    /// What happens to it if a turn of its conversation runs.
    pub mid_turn: MidTurn,
    /// Whether the channel found it fit.
    pub verdict: Verdict,
}

/// What happens to a message that arrives while a turn of its conversation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MidTurn {
    /// It waits for its own turn.
    Queue,
    /// The running turn is given its text.
    Steer,
}

/// What the channel thinks of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is a message.
    Fit,
    /// It can never be one (malformed, too large, forbidden): it becomes a dead letter.
    Unfit {
        /// Why, as a sentence.
        reason: String,
        /// Whether its sender is told.
        tell: bool,
    },
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
    known: Option<(Message, Option<Ack>)>,
    conversation: Option<Conversation>,
    last_seq: Option<Seq>,
    backlog: u32,
    round: Round,
    last_round: Option<Round>,
    running: bool,
}

impl Transition for Receive {
    type View = View;
    type Outcome = Received;
    const NAME: &'static str = "receive";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let known = match rows.message_by_external(&self.channel, &self.external_id)? {
            Some(message) => {
                let ack = rows.ack(&message.message_id)?;
                Some((message, ack))
            }
            None => None,
        };
        let conversation = rows.conversation_by_key(&self.channel, &self.external_key)?;
        let (mut last_seq, mut running) = (None, false);
        if let Some(Conversation {
            conversation_id, ..
        }) = &conversation
        {
            last_seq = rows.last_seq(conversation_id)?;
            if self.mid_turn == MidTurn::Steer {
                running = rows
                    .in_flight_of(conversation_id)?
                    .is_some_and(|message| message.life.state.name() == StateName::Running);
            }
        }
        Ok(View {
            known,
            conversation,
            last_seq,
            backlog: rows.backlog()?,
            round: rows.round()?,
            last_round: rows.last_round(&self.channel, &self.sender)?,
            running,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<Received>, Refused> {
        if let Some((known, ack)) = view.known {
            return Ok(shown_again(known, ack));
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
        let round = view
            .last_round
            .map_or(view.round, |last| last.next().max(view.round));
        let message = Message {
            message_id: self.message_id,
            conversation_id,
            seq: Seq(view.last_seq.map_or(1, |seq| seq.0.saturating_add(1))),
            channel: self.channel,
            external_id: self.external_id,
            kind: self.kind,
            sender: self.sender,
            tier: self.tier,
            body: self.body,
            round,
            received_at: now,
            life: Life::new(now),
        };
        changes.push(Change::NewMessage {
            message: message.clone(),
            ack,
        });
        let mut actions = match self.verdict {
            Verdict::Fit => vec![Action::Schedule],
            Verdict::Unfit { reason, tell } => unfit(&message, reason, tell, now, &mut changes),
        };
        if view.running && message.life.state.name() == StateName::Received {
            actions.push(Action::Join {
                message_id: message_id.clone(),
            });
        }
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

/// A row that was here before. If its source should know already, it is told again: an ack may be lost.
fn shown_again(known: Message, ack: Option<Ack>) -> Decision<Received> {
    let message_id = known.message_id;
    let outcome = Received::Duplicate(message_id.clone());
    let Some(ack) = ack else {
        return Decision::nothing(outcome);
    };
    match ack.state {
        AckState::NotNeeded => Decision::nothing(outcome),
        AckState::Due => Decision {
            changes: Vec::new(),
            actions: vec![Action::Acknowledge { message_id }],
            outcome,
        },
        AckState::Given | AckState::Refused => Decision {
            changes: vec![Change::Ack {
                message_id: message_id.clone(),
                state: AckState::Due,
            }],
            actions: vec![Action::Acknowledge { message_id }],
            outcome,
        },
    }
}

fn unfit(
    message: &Message,
    reason: String,
    tell: bool,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Vec<Action> {
    let life = Life {
        failure: Some(Failure::new(Class::Permanent, &reason)),
        ..message.life.clone()
    };
    if tell {
        return Outbox::of(message, 0, None).bury(&life, reason, now, changes);
    }
    let message_id = message.message_id.clone();
    changes.push(Change::Live {
        message_id: message_id.clone(),
        from: StateName::Received,
        life: life.moved(MessageState::Dead { reason }, now),
    });
    vec![Action::Acknowledge { message_id }]
}
