//! Join: a message that arrives while a turn of its conversation runs is given to that turn. Leave: the turn did not
//! take it, and it waits for its own.
//!
//! The intent is on disk before the turn hears the text; what the turn's end says it heard decides who is answered.

use super::followers::Follower;
use super::{Action, Decision, Refused, Transition, expect};
use crate::limits;
use crate::port::{Change, Read, RowsError, Steer};
use crate::prompt;
use crate::value::{ClientId, Life, Message, MessageId, MessageState, StateName, Timestamp, Turn};

/// Gives a waiting message to the running turn of its conversation.
#[derive(Clone, Debug)]
pub struct Join {
    /// Which.
    pub message_id: MessageId,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    leader: Option<(Message, Option<Turn>)>,
    followers: usize,
    behind: Option<MessageId>,
}

impl Transition for Join {
    type View = View;
    /// What the running turn is to be told; nothing when it is better to wait.
    type Outcome = Option<Steer>;
    const NAME: &'static str = "join";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let message = rows.message(&self.message_id)?;
        let (mut leader, mut followers, mut behind) = (None, 0, None);
        if let Some(message) = &message {
            behind = rows.unanswered_before(&message.conversation_id, message.seq)?;
            if let Some(running) = rows.in_flight_of(&message.conversation_id)? {
                let turn = rows.turn(&running.message_id, running.life.attempt)?;
                followers = rows.followers(&running.message_id)?.len();
                leader = Some((running, turn));
            }
        }
        Ok(View {
            message,
            leader,
            followers,
            behind,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<Option<Steer>>, Refused> {
        let message = expect(
            Self::NAME,
            &self.message_id,
            view.message.as_ref(),
            &[StateName::Received],
        )?;
        let Some((leader, Some(turn))) = &view.leader else {
            return Ok(Decision::nothing(None));
        };
        let MessageState::Running { turn_id } = &leader.life.state else {
            return Ok(Decision::nothing(None));
        };
        // Only who has the same power may add to a turn, nobody overtakes, and a held message waits.
        let full = view.followers >= limits::FOLLOWERS_MAX as usize;
        let first = view.behind.as_ref() == Some(&leader.message_id)
            && places_between(leader, message) == i64::try_from(view.followers).ok();
        let may = leader.tier == message.tier
            && leader.life.stop.is_none()
            && message.life.state.hold().is_none();
        if full || !first || !may {
            return Ok(Decision::nothing(None));
        }
        let attempt = message.life.attempt.saturating_add(1);
        let life = Life {
            attempt,
            spent: message.life.spent.saturating_add(1),
            ..message.life.moved(
                MessageState::Steered {
                    leader: leader.message_id.clone(),
                },
                now,
            )
        };
        let steer = Steer {
            thread: turn.thread.clone(),
            turn_id: turn_id.clone(),
            client_id: ClientId::of(&self.message_id, attempt),
            text: prompt::turn_text(message, &[]),
        };
        Ok(Decision {
            changes: vec![Change::Live {
                message_id: self.message_id.clone(),
                from: StateName::Received,
                life,
            }],
            actions: vec![Action::Announce {
                message_id: self.message_id,
            }],
            outcome: Some(steer),
        })
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

impl Transition for Leave {
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
            Self::NAME,
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
