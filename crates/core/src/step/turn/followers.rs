//! What becomes of messages that were given to the running turn of another one, when that turn ends.
//!
//! Received and answered: the answer is theirs too. Received and cut: they wait again, and are asked to check first. Not
//! received: they wait again as if nothing had been. One that was stopped meanwhile is over in any case.

use super::super::{Tx, reply};
use crate::port::{Change, RowsError};
use crate::value::{
    Answer, AnswerSource, Class, ClientId, Failure, Life, Message, MessageId, MessageState,
    NextInput, Timestamp,
};

/// What the sender of a follower sees in its place of the lane.
const TOGETHER: &str = "Answered together with your earlier message, above.";
/// Why it is unknown whether a turn that was lost from sight received a text.
const NOT_IN_HISTORY: &str = "when the turn was found again, its history did not have the text yet";

/// Whether the turn may not have received the text of a follower. [`super::Join`] clears an ambiguous failure of an
/// earlier attempt, so one that a follower has is about this.
pub(super) fn receipt_unknown(message: &Message) -> bool {
    let failure = message.life.failure.as_ref();
    failure.is_some_and(|failure| failure.class == Class::Ambiguous)
}

/// Its failure, unless that says that something is unknown which is known now.
pub(super) fn known_failure(message: &Message) -> Option<Failure> {
    let failure = message.life.failure.clone();
    failure.filter(|failure| failure.class != Class::Ambiguous)
}

/// Sets or clears what is unknown of a follower.
pub(super) fn set_failure(
    tx: &mut Tx<'_>,
    message: &Message,
    failure: Option<Failure>,
    now: Timestamp,
) -> Result<(), RowsError> {
    let life = Life {
        failure,
        ..message.life.moved(message.life.state.clone(), now)
    };
    tx.set_life(message, life)?;
    tx.announce(&message.message_id);
    Ok(())
}

/// The leader's turn is followed again. A follower that the history lacks may have been lost on the way to Codex with
/// the daemon, or may still be on its way into the history.
pub(super) fn recheck(
    tx: &mut Tx<'_>,
    leader: &MessageId,
    received: &[ClientId],
    now: Timestamp,
) -> Result<(), RowsError> {
    for message in tx.followers(leader)? {
        let client_id = ClientId::of(&message.message_id, message.life.attempt);
        let unknown = !received.contains(&client_id);
        if unknown != receipt_unknown(&message) {
            let failure = if unknown {
                Some(Failure::new(Class::Ambiguous, NOT_IN_HISTORY))
            } else {
                known_failure(&message)
            };
            set_failure(tx, &message, failure, now)?;
        }
    }
    Ok(())
}

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
        failure: known_failure(message),
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
        let life = Life {
            failure: known_failure(&message),
            ..message.life.moved(MessageState::Answered, now)
        };
        tx.set_life(&message, life)?;
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
