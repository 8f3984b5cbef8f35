//! What becomes of messages that were given to the running turn of another one, when that turn ends.
//!
//! Received and answered: the answer is theirs too. Received and cut: they wait again, and are asked to check first. Not
//! received: they wait again as if nothing had been. One that was stopped meanwhile is over in any case.

use super::super::{Tx, reply};
use crate::port::{Change, RowsError};
use crate::value::{
    Answer, AnswerSource, ClientId, Life, Message, MessageId, MessageState, NextInput, Timestamp,
};

/// What the sender of a follower sees in its place of the lane.
const TOGETHER: &str = "Answered together with your earlier message, above.";

/// Lets a follower go. One that somebody stopped is over: the turn that got its text was never its own. Others wait for
/// a turn of their own, at no cost.
pub(super) fn let_go(
    tx: &mut Tx<'_>,
    message: &Message,
    input: NextInput,
    now: Timestamp,
) -> Result<(), RowsError> {
    if let Some(reason) = message.life.stop.clone() {
        return reply::cancel(tx, message, &message.life, reason, now);
    }
    let waiting = MessageState::Received { hold: None };
    let life = Life {
        spent: message.life.spent.saturating_sub(1),
        input,
        ..message.life.moved(waiting, now)
    };
    tx.set_life(message, life)?;
    tx.announce(&message.message_id);
    Ok(())
}

/// The leader is answered: those whose text its turn received are answered with it.
pub(super) fn share(
    tx: &mut Tx<'_>,
    leader: &MessageId,
    received: &[ClientId],
    text: &str,
    now: Timestamp,
) -> Result<(), RowsError> {
    for message in tx.followers(leader)? {
        let client_id = ClientId::of(&message.message_id, message.life.attempt);
        if message.life.stop.is_some() || !received.contains(&client_id) {
            let_go(tx, &message, NextInput::Message, now)?;
            continue;
        }
        tx.set_life(&message, message.life.moved(MessageState::Answered, now))?;
        reply::notify(tx, &message, TOGETHER, now)?;
        tx.change(Change::NewAnswer(Answer {
            message_id: message.message_id.clone(),
            attempt: message.life.attempt,
            source: AnswerSource::Shared,
            text: text.to_owned(),
            created_at: now,
        }))?;
        tx.announce(&message.message_id);
    }
    Ok(())
}

/// The leader's turn ended without an answer: its followers wait again.
pub(super) fn release(
    tx: &mut Tx<'_>,
    leader: &MessageId,
    can_write: bool,
    now: Timestamp,
) -> Result<(), RowsError> {
    for message in tx.followers(leader)? {
        let input = if can_write {
            NextInput::Continue
        } else {
            message.life.input
        };
        let_go(tx, &message, input, now)?;
    }
    Ok(())
}
