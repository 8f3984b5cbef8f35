//! More text for a running turn: a message joins it, leaves it again, or a person steers it directly.
//!
//! The intent is on disk before the turn gets the text; what the turn's end says it received decides who is answered.

use super::followers;
use crate::limits;
use crate::port::Steer;
use crate::prompt;
use crate::step::{Action, RunError, Transition, Tx};
use crate::value::{
    Class, ClientId, EventKind, Failure, Life, Message, MessageId, MessageState, StateName,
    Timestamp,
};

/// Gives a waiting message to the running turn of its conversation.
#[derive(Clone, Debug)]
pub struct Join {
    pub message_id: MessageId,
}

impl Transition for Join {
    /// The text for the running turn; nothing when it is better to wait.
    type Outcome = Option<Steer>;
    const NAME: &'static str = "join";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Steer>, RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Received])?;
        let Some(leader) = tx.in_flight_of(&message.conversation_id)? else {
            return Ok(None);
        };
        // Its turn runs on another node, which is woken by this message too.
        if !tx.is_home(&message.conversation_id)? {
            return Ok(None);
        }
        let (MessageState::Running { turn_id }, Some(turn)) =
            (&leader.life.state, tx.turn_of(&leader)?)
        else {
            return Ok(None);
        };
        // Only a sender of the same tier may add to a turn, nobody overtakes, and a held message waits. A follower
        // whose text may be lost gets a turn of its own if it is: who joined behind it would be answered first.
        let followers = tx.followers(&leader.message_id)?;
        let unknown = followers.iter().any(followers::receipt_unknown);
        let followers = followers.len();
        let behind = tx.unanswered_before(&message.conversation_id, message.seq)?;
        let full = followers >= limits::FOLLOWERS_MAX as usize;
        let first = behind.as_ref() == Some(&leader.message_id)
            && places_between(&leader, &message) == i64::try_from(followers).ok();
        let may = leader.tier == message.tier
            && leader.life.stop.is_none()
            && message.life.state.hold().is_none();
        if full || unknown || !first || !may {
            return Ok(None);
        }
        let attempt = message.life.attempt.saturating_add(1);
        let steered = MessageState::Steered {
            leader: leader.message_id.clone(),
        };
        let life = Life {
            attempt,
            spent: message.life.spent.saturating_add(1),
            failure: followers::known_failure(&message),
            ..message.life.moved(steered, now)
        };
        tx.set_life(&message, life)?;
        tx.announce(&self.message_id);
        Ok(Some(Steer {
            thread: turn.thread,
            turn_id: turn_id.clone(),
            client_id: ClientId::of(&self.message_id, attempt),
            text: prompt::turn_text(&message, &[]),
        }))
    }
}

/// Places between the leader and a message: if all of them are followers, nobody waits there.
fn places_between(leader: &Message, message: &Message) -> Option<i64> {
    message.seq.0.checked_sub(leader.seq.0)?.checked_sub(1)
}

/// Journals that the turn did not take the text of a message, which waits for its own turn.
#[derive(Clone, Debug)]
pub struct Leave {
    pub message_id: MessageId,
}

impl Transition for Leave {
    type Outcome = ();
    const NAME: &'static str = "leave";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Steered])?;
        tx.act(Action::Schedule);
        Ok(followers::let_go(tx, &message, message.life.input, now)?)
    }
}

/// Journals that the turn may or may not have received the text of a message: later ones do not join behind it.
#[derive(Clone, Debug)]
pub struct JoinUnknown {
    pub message_id: MessageId,
    pub why: String,
}

impl Transition for JoinUnknown {
    type Outcome = ();
    const NAME: &'static str = "join_unknown";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Steered])?;
        let failure = Failure::new(Class::Ambiguous, self.why);
        Ok(followers::set_failure(tx, &message, Some(failure), now)?)
    }
}

/// Gives the running turn of a message more text.
#[derive(Clone, Debug)]
pub struct Tell {
    /// Whose turn.
    pub message_id: MessageId,
    pub text: String,
    pub by: String,
    /// Makes what the agent keeps unlike anything else that it was given; a random word.
    pub mark: String,
}

/// Result of [`Tell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TellOutcome {
    /// Send it this.
    Steer(Steer),
    /// Its text was given to the turn of this message; that one can be steered.
    Steered(MessageId),
    /// No turn of it runs.
    Idle(StateName),
    /// Somebody stopped it.
    Stopping,
    /// Its turn runs on another node.
    Elsewhere,
}

impl Transition for Tell {
    type Outcome = TellOutcome;
    const NAME: &'static str = "tell";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<TellOutcome, RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let (turn_id, turn) = match (&message.life.state, tx.turn_of(&message)?) {
            (MessageState::Steered { leader }, _) => {
                return Ok(TellOutcome::Steered(leader.clone()));
            }
            (MessageState::Running { .. }, Some(_)) if message.life.stop.is_some() => {
                return Ok(TellOutcome::Stopping);
            }
            (MessageState::Running { turn_id }, Some(turn)) => (turn_id.clone(), turn),
            (other, _) => return Ok(TellOutcome::Idle(other.name())),
        };
        if !tx.is_home(&message.conversation_id)? {
            return Ok(TellOutcome::Elsewhere);
        }
        let detail = limits::clip(&self.text, limits::EVENT_TEXT_MAX_CHARS);
        tx.audit(&self.by, Self::NAME, &self.message_id, detail, now)?;
        // An intent: whether the turn received it is a line of its own.
        let line = format!("steered by {}: {}", self.by, self.text);
        tx.event(&message, EventKind::Bridge, &line, now)?;
        tx.announce(&self.message_id);
        let client_id = ClientId::of(&self.message_id, message.life.attempt);
        Ok(TellOutcome::Steer(Steer {
            thread: turn.thread,
            turn_id,
            client_id: ClientId::new(format!("{client_id}.{}", self.mark)),
            text: self.text,
        }))
    }
}
