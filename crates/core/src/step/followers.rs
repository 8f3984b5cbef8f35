//! What becomes of messages that were given to the running turn of another one, when that turn ends.
//!
//! Heard and answered: the answer is theirs too. Heard and cut: they wait again, and are told to check first. Not
//! heard: they wait again as if nothing had been. One that was stopped meanwhile is over in any case.

use super::Action;
use super::outbox::Outbox;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Answer, AnswerSource, ClientId, Life, Message, MessageId, MessageState, NextInput, ReplyKind,
    StateName, Timestamp,
};

/// What the sender of a follower sees in its place of the lane.
const TOGETHER: &str = "Answered together with your earlier message, above.";

/// A message that was given to the running turn of another one.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) message: Message,
    pub(super) replies: usize,
}

impl Follower {
    /// One that somebody stopped is over: the turn that heard its text was never its own. Others wait again.
    pub(super) fn let_go(
        self,
        input: NextInput,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        let Self { message, replies } = self;
        match message.life.stop.clone() {
            Some(reason) => {
                Outbox::of(&message, replies, None).cancel(&message.life, reason, now, changes)
            }
            None => {
                changes.push(waits_again(&message, input, now));
                vec![Action::Announce {
                    message_id: message.message_id,
                }]
            }
        }
    }
}

/// Reads the followers of a message.
pub(super) fn load(rows: &dyn Read, leader: &MessageId) -> Result<Vec<Follower>, RowsError> {
    rows.followers(leader)?
        .into_iter()
        .map(|message| {
            let replies = rows.replies(&message.message_id)?.len();
            Ok(Follower { message, replies })
        })
        .collect()
}

/// The leader is answered: those that its turn heard are answered with it.
pub(super) fn share(
    followers: Vec<Follower>,
    heard: &[ClientId],
    text: &str,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for follower in followers {
        if follower.message.life.stop.is_some() {
            actions.extend(follower.let_go(NextInput::Message, now, changes));
            continue;
        }
        let Follower { message, replies } = follower;
        let client_id = ClientId::of(&message.message_id, message.life.attempt);
        if heard.contains(&client_id) {
            changes.push(moved(
                &message,
                message.life.moved(MessageState::Answered, now),
            ));
            let outbox = Outbox::of(&message, replies, None);
            changes.extend(outbox.queue(ReplyKind::Notice, TOGETHER, now));
            changes.push(Change::NewAnswer(Answer {
                message_id: message.message_id.clone(),
                attempt: message.life.attempt,
                source: AnswerSource::Shared,
                text: text.to_owned(),
                created_at: now,
            }));
        } else {
            changes.push(waits_again(&message, NextInput::Message, now));
        }
        actions.push(Action::Announce {
            message_id: message.message_id,
        });
    }
    actions
}

/// The leader's turn ended without an answer: its followers wait again.
pub(super) fn release(
    followers: Vec<Follower>,
    can_write: bool,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for follower in followers {
        let input = if can_write {
            NextInput::Continue
        } else {
            follower.message.life.input
        };
        actions.extend(follower.let_go(input, now, changes));
    }
    actions
}

/// A follower that waits for a turn of its own, at no cost.
fn waits_again(message: &Message, input: NextInput, now: Timestamp) -> Change {
    let life = Life {
        spent: message.life.spent.saturating_sub(1),
        input,
        ..message
            .life
            .moved(MessageState::Received { hold: None }, now)
    };
    moved(message, life)
}

fn moved(message: &Message, life: Life) -> Change {
    Change::Live {
        message_id: message.message_id.clone(),
        from: StateName::Steered,
        life,
    }
}
