//! Answer: the commit point of the expensive work (T6). The answer and all its replies go to disk together;
//! after this, Codex is never called again for the message.

use super::followers::{self, Follower};
use super::outbox::{Outbox, withdraw};
use super::{Action, Decision, Refused, Staged, expect};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Answer, AnswerSource, Attachment, ClientId, Message, MessageId, MessageState, Reply, ReplyKind,
    StateName, Timestamp, Turn, TurnId, TurnState, Usage,
};

/// What a person sees when Codex finished without saying anything.
const EMPTY_ANSWER: &str = "(Codex finished this turn without a text answer.)";

/// Journals what a turn answered.
#[derive(Clone, Debug)]
pub struct Answered {
    /// To which message.
    pub message_id: MessageId,
    /// Codex's turn.
    pub turn_id: TurnId,
    /// What it said.
    pub text: Option<String>,
    /// The client ids of all texts that the turn was given.
    pub heard: Vec<ClientId>,
    /// Files that it is to send.
    pub attachments: Vec<Attachment>,
    /// What it cost.
    pub usage: Usage,
    /// Longest reply the channel takes.
    pub reply_max_chars: Option<usize>,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    turn: Option<Turn>,
    replies: Vec<Reply>,
    followers: Vec<Follower>,
}

impl Staged for Answered {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "answer";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let (message, turn) = super::touched::message_and_turn(rows, &self.message_id)?;
        Ok(View {
            message,
            turn,
            replies: rows.replies(&self.message_id)?,
            followers: followers::load(rows, &self.message_id)?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let View {
            message,
            turn,
            replies,
            followers,
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Starting, StateName::Running],
        )?;
        let rows = Rows {
            message,
            turn,
            replies: replies.len(),
            followers,
        };
        let said = Said {
            turn_id: self.turn_id,
            text: self.text,
            heard: self.heard,
            source: AnswerSource::Live,
            attachments: self.attachments,
            usage: self.usage,
            reply_max_chars: self.reply_max_chars,
        };
        Ok(journal(rows, said, now))
    }
}

/// The rows that an answer is written beside.
pub(super) struct Rows<'a> {
    pub(super) message: &'a Message,
    pub(super) turn: Option<Turn>,
    pub(super) replies: usize,
    pub(super) followers: Vec<Follower>,
}

/// What a turn said, however we learned it.
pub(super) struct Said {
    pub(super) turn_id: TurnId,
    pub(super) text: Option<String>,
    pub(super) heard: Vec<ClientId>,
    pub(super) source: AnswerSource,
    pub(super) attachments: Vec<Attachment>,
    pub(super) usage: Usage,
    pub(super) reply_max_chars: Option<usize>,
}

/// The one place where an answer is written, live or harvested.
pub(super) fn journal(rows: Rows<'_>, said: Said, now: Timestamp) -> Decision<()> {
    let Rows {
        message,
        turn,
        replies,
        followers,
    } = rows;
    let message_id = message.message_id.clone();
    let text = match said.text {
        Some(text) if !text.trim().is_empty() => text,
        Some(_) | None => EMPTY_ANSWER.to_owned(),
    };
    let mut changes = vec![
        Change::LastTurn {
            conversation_id: message.conversation_id.clone(),
            turn_id: said.turn_id.clone(),
        },
        Change::Live {
            message_id: message_id.clone(),
            from: message.life.state.name(),
            life: message.life.moved(MessageState::Answered, now),
        },
        withdraw(&message_id, "its turn has ended"),
    ];
    if let Some(turn) = turn {
        changes.push(Change::Turn(Turn {
            turn_id: Some(said.turn_id),
            state: TurnState::Ended,
            ended_at: Some(now),
            usage: said.usage,
            ..turn
        }));
    }
    let outbox = Outbox::of(message, replies, said.reply_max_chars);
    changes.extend(outbox.queue_with(ReplyKind::Answer, &text, said.attachments, now));
    let shared = followers::share(followers, &said.heard, &text, now, &mut changes);
    changes.push(Change::NewAnswer(Answer {
        message_id: message_id.clone(),
        attempt: message.life.attempt,
        source: said.source,
        text,
        created_at: now,
    }));
    let mut actions = vec![
        Action::Deliver {
            conversation_id: message.conversation_id.clone(),
        },
        Action::Schedule,
        Action::Announce { message_id },
    ];
    actions.extend(shared);
    Decision {
        changes,
        actions,
        outcome: (),
    }
}
