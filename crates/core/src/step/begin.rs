//! Begin: the turn's intent goes to disk before `turn/start` is written (T3).

use super::outbox::Outbox;
use super::{Action, Decision, Refused, Staged, expect};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    BootId, ClientId, Conversation, Epoch, IncarnationId, Message, MessageId, MessageState,
    Sandbox, StateName, ThreadId, Timestamp, Turn, TurnState, Usage,
};

/// Writes down that a turn is about to be started.
#[derive(Clone, Debug)]
pub struct Begin {
    /// For which message.
    pub message_id: MessageId,
    /// On which thread.
    pub thread: ThreadId,
    /// With which process.
    pub incarnation: IncarnationId,
    /// By which boot of the daemon.
    pub epoch: Epoch,
    /// On which boot of the machine.
    pub boot_id: BootId,
    /// With what power.
    pub sandbox: Sandbox,
}

/// Whether the turn may be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It may.
    Turn {
        /// What Codex will be given as `clientUserMessageId`.
        client_id: ClientId,
    },
    /// Somebody stopped the message meanwhile; nothing is started.
    Stopped,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    conversation: Option<Conversation>,
    replies: usize,
}

impl Staged for Begin {
    type View = View;
    type Outcome = Begun;
    const NAME: &'static str = "begin";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let message = rows.message(&self.message_id)?;
        let conversation = match &message {
            Some(message) => rows.conversation(&message.conversation_id)?,
            None => None,
        };
        let stopped = message.as_ref().is_some_and(|m| m.life.stop.is_some());
        let replies = if stopped {
            rows.replies(&self.message_id)?.len()
        } else {
            0
        };
        Ok(View {
            message,
            conversation,
            replies,
        })
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<Begun>, Refused> {
        let View {
            message,
            conversation,
            replies,
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Claimed],
        )?;
        if let Some(stopped) = message.life.stop.clone() {
            let mut changes = Vec::new();
            let outbox = Outbox::of(message, replies, None);
            let actions = outbox.cancel(&message.life, stopped, now, &mut changes);
            return Ok(Decision {
                changes,
                actions,
                outcome: Begun::Stopped,
            });
        }
        let client_id = ClientId::of(&self.message_id, message.life.attempt);
        let turn = Turn {
            message_id: self.message_id.clone(),
            attempt: message.life.attempt,
            client_id: client_id.clone(),
            epoch: self.epoch,
            boot_id: self.boot_id,
            incarnation: self.incarnation,
            thread: self.thread,
            after_turn: conversation.and_then(|conversation| conversation.last_turn),
            turn_id: None,
            sandbox: self.sandbox,
            state: TurnState::Begun,
            touched: false,
            started_at: now,
            ended_at: None,
            usage: Usage::default(),
        };
        let life = message.life.moved(MessageState::Starting, now);
        Ok(Decision {
            changes: vec![
                Change::NewTurn(turn),
                Change::Live {
                    message_id: self.message_id.clone(),
                    from: StateName::Claimed,
                    life,
                },
            ],
            actions: vec![Action::Announce {
                message_id: self.message_id,
            }],
            outcome: Begun::Turn { client_id },
        })
    }
}
