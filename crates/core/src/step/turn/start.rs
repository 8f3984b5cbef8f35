//! How a turn is started: the thread is bound, the intent is on disk, and Codex names what it started.

use crate::port::Change;
use crate::step::{Refused, RunError, Transition, Tx, reply};
use crate::value::{
    BootId, ClientId, ConversationId, Epoch, EventKind, IncarnationId, MessageId, MessageState,
    Sandbox, StateName, ThreadId, Timestamp, Turn, TurnId, TurnState, Usage,
};

/// Binds a conversation to the thread that was just started for it: the id is on disk as soon as the thread exists, so
/// that the conversation continues on it.
#[derive(Clone, Debug)]
pub struct Bind {
    pub conversation_id: ConversationId,
    pub thread: ThreadId,
}

impl Transition for Bind {
    type Outcome = ();
    const NAME: &'static str = "bind";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let conversation = tx.conversation(&self.conversation_id)?;
        tx.change(Change::Bind {
            conversation_id: self.conversation_id,
            from: conversation.and_then(|conversation| conversation.thread),
            to: Some(self.thread),
        })?;
        Ok(())
    }
}

/// Lets go of a thread that can't be used any more, so that the next turn starts a new one, and tells whoever wrote the
/// message that met the loss.
#[derive(Clone, Debug)]
pub struct Unbind {
    /// The message that met the loss.
    pub message_id: MessageId,
    pub thread: ThreadId,
    pub why: String,
}

/// What is noted under the first message behind a pruned history.
const PRUNED_NOTICE: &str = "This conversation was not used for so long that its history was pruned (`retention.conversations_days`). A new thread goes on with the last messages as a recap.";

/// The notice about a lost thread.
pub(super) fn lost_notice(why: &str) -> String {
    format!(
        "Codex's record of this conversation is lost ({why}). A new thread goes on with the last messages as a recap."
    )
}

impl Transition for Unbind {
    type Outcome = ();
    const NAME: &'static str = "unbind";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let Some(conversation) = tx.conversation(&message.conversation_id)? else {
            return Err(Refused::new(Self::NAME, &self.message_id, None).into());
        };
        if conversation.thread.as_ref() != Some(&self.thread) {
            return Ok(());
        }
        tx.change(Change::Bind {
            conversation_id: conversation.conversation_id.clone(),
            from: conversation.thread,
            to: None,
        })?;
        if self.thread.is_pruned() {
            tx.event(&message, EventKind::Bridge, PRUNED_NOTICE, now)?;
            return Ok(());
        }
        // A thread without a turn is not on Codex's disk, so losing it loses nothing.
        if conversation.last_turn.is_none() {
            return Ok(());
        }
        let notice = lost_notice(&self.why);
        tx.event(&message, EventKind::Bridge, &notice, now)?;
        reply::notify(tx, &message, &notice, now)?;
        tx.deliver(&conversation.conversation_id);
        Ok(())
    }
}

/// Writes down that a turn is about to be started, before `turn/start` is written.
#[derive(Clone, Debug)]
pub struct Begin {
    pub message_id: MessageId,
    pub thread: ThreadId,
    pub incarnation: IncarnationId,
    /// The daemon's boot.
    pub epoch: Epoch,
    /// The machine's boot.
    pub boot_id: BootId,
    pub sandbox: Sandbox,
}

/// Whether the turn may be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    Turn {
        /// What Codex will be given as `clientUserMessageId`.
        client_id: ClientId,
    },
    /// Somebody stopped the message meanwhile; nothing is started.
    Stopped,
}

impl Transition for Begin {
    type Outcome = Begun;
    const NAME: &'static str = "begin";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Begun, RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Claimed])?;
        if let Some(stopped) = message.life.stop.clone() {
            reply::cancel(tx, &message, &message.life, stopped, now)?;
            return Ok(Begun::Stopped);
        }
        let conversation = tx.conversation(&message.conversation_id)?;
        let client_id = ClientId::of(&self.message_id, message.life.attempt);
        tx.change(Change::NewTurn(Turn {
            message_id: self.message_id,
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
        }))?;
        tx.set_life(&message, message.life.moved(MessageState::Starting, now))?;
        tx.announce(&message.message_id);
        Ok(Begun::Turn { client_id })
    }
}

/// Records Codex's id of the turn that was begun. That is no promise: a kill right after it may leave no trace of
/// the turn, so it does not become the turn that reconcile looks behind.
#[derive(Clone, Debug)]
pub struct Attach {
    pub message_id: MessageId,
    pub turn_id: TurnId,
}

impl Transition for Attach {
    type Outcome = ();
    const NAME: &'static str = "attach";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Starting])?;
        let turn = tx.turn_of(&message)?;
        let running = MessageState::Running {
            turn_id: self.turn_id.clone(),
        };
        tx.set_life(&message, message.life.moved(running, now))?;
        if let Some(turn) = turn {
            tx.change(Change::Turn(Turn {
                turn_id: Some(self.turn_id),
                state: TurnState::Attached,
                ..turn
            }))?;
        }
        tx.announce(&self.message_id);
        Ok(())
    }
}

/// Records the name of the thread that a turn runs on: a run of `codex exec` begins before its thread has a name. The
/// conversation is bound to it at once, because what is not bound is lost with the run.
#[derive(Clone, Debug)]
pub struct Name {
    pub message_id: MessageId,
    pub thread: ThreadId,
}

impl Transition for Name {
    type Outcome = ();
    const NAME: &'static str = "name";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let states = [StateName::Starting, StateName::Running];
        let message = tx.expect(Self::NAME, &self.message_id, &states)?;
        let unnamed = |turn: &Turn| turn.thread.is_unnamed();
        let Some(turn) = tx.turn_of(&message)?.filter(unnamed) else {
            return Ok(());
        };
        // A conversation that has moved to another thread meanwhile stays there.
        if let Some(conversation) = tx.conversation(&message.conversation_id)?
            && conversation.thread.as_ref() == Some(&turn.thread)
        {
            tx.change(Change::Bind {
                conversation_id: conversation.conversation_id,
                from: conversation.thread,
                to: Some(self.thread.clone()),
            })?;
        }
        tx.change(Change::Turn(Turn {
            thread: self.thread,
            ..turn
        }))?;
        Ok(())
    }
}
