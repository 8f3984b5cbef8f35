//! Join: a message that arrives while a turn of its conversation runs is given to that turn. Leave: the turn did not
//! take it, and it waits for its own.
//!
//! The intent is on disk before the turn hears the text; what the turn's end says it heard decides who is answered.

use super::followers::Follower;
use super::{Action, Decision, Refused, RunError, Staged, Transition, Tx, expect};
use crate::limits;
use crate::port::{Read, RowsError, Steer};
use crate::prompt;
use crate::value::{ClientId, Life, Message, MessageId, MessageState, StateName, Timestamp};

/// Gives a waiting message to the running turn of its conversation.
#[derive(Clone, Debug)]
pub struct Join {
    /// Which.
    pub message_id: MessageId,
}

impl Transition for Join {
    /// What the running turn is to be told; nothing when it is better to wait.
    type Outcome = Option<Steer>;
    const NAME: &'static str = "join";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Steer>, RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Received])?;
        let Some(leader) = tx.in_flight_of(&message.conversation_id)? else {
            return Ok(None);
        };
        let (MessageState::Running { turn_id }, Some(turn)) =
            (&leader.life.state, tx.turn_of(&leader)?)
        else {
            return Ok(None);
        };
        // Only who has the same power may add to a turn, nobody overtakes, and a held message waits.
        let followers = tx.followers(&leader.message_id)?.len();
        let behind = tx.unanswered_before(&message.conversation_id, message.seq)?;
        let full = followers >= limits::FOLLOWERS_MAX as usize;
        let first = behind.as_ref() == Some(&leader.message_id)
            && places_between(&leader, &message) == i64::try_from(followers).ok();
        let may = leader.tier == message.tier
            && leader.life.stop.is_none()
            && message.life.state.hold().is_none();
        if full || !first || !may {
            return Ok(None);
        }
        let attempt = message.life.attempt.saturating_add(1);
        let steered = MessageState::Steered {
            leader: leader.message_id.clone(),
        };
        let life = Life {
            attempt,
            spent: message.life.spent.saturating_add(1),
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

/// The turn did not take the text; nothing was heard.
#[derive(Clone, Debug)]
pub struct Leave {
    /// Which message.
    pub message_id: MessageId,
}

impl Staged for Leave {
    type View = (Option<Message>, usize);
    type Outcome = ();
    const NAME: &'static str = "leave";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let replies = rows.replies(&self.message_id)?.len();
        Ok((rows.message(&self.message_id)?, replies))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (message, replies) = view;
        let message = expect(
            <Self as Staged>::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Steered],
        )?;
        let input = message.life.input;
        let message = message.clone();
        let mut changes = Vec::new();
        let mut actions = vec![Action::Schedule];
        actions.extend(Follower { message, replies }.let_go(input, now, &mut changes));
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}
