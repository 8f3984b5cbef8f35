//! Replies: how they are queued, and how a lane sends them one by one.
//!
//! A message that ends without an answer ends here as well, because its sender gets a notice.

use super::{Action, Refused, RunError, Transition, Tx};
use crate::find::short_id;
use crate::limits;
use crate::port::{Change, RowsError};
use crate::requester;
use crate::retry::backoff_ms;
use crate::value::{
    Attachment, Class, ConversationId, Failure, Life, Message, MessageId, MessageState, Reply,
    ReplyKey, ReplyKind, ReplyState, StateName, Timestamp, split_reply,
};

/// Withdraws the open approval requests of a message.
pub(super) fn withdraw(
    tx: &mut Tx<'_>,
    message_id: &MessageId,
    why: &str,
) -> Result<(), RowsError> {
    tx.change(Change::Withdraw {
        message_id: message_id.clone(),
        why: why.to_owned(),
    })
}

/// Queues a notice of the bridge. Everybody but the owner gets it without paths.
pub(super) fn notify(
    tx: &mut Tx<'_>,
    message: &Message,
    text: &str,
    now: Timestamp,
) -> Result<(), RowsError> {
    notify_whole(tx, message, &requester::for_sender(message, text), now)
}

/// Queues a notice that its reader decides about: nothing of it may be left out.
pub(super) fn notify_whole(
    tx: &mut Tx<'_>,
    message: &Message,
    text: &str,
    now: Timestamp,
) -> Result<(), RowsError> {
    queue(tx, message, ReplyKind::Notice, text, Vec::new(), None, now)
}

/// Tells the sender that the message waits for something, once per kind of wait.
pub(super) fn notify_held(
    tx: &mut Tx<'_>,
    message: &Message,
    failure: &Failure,
    now: Timestamp,
) -> Result<(), RowsError> {
    let before = message.life.failure.as_ref();
    if before.is_some_and(|before| before.class.as_str() == failure.class.as_str()) {
        return Ok(());
    }
    let notice = format!(
        "This message waits and will be answered later: {} (message {})",
        failure.reason, message.message_id
    );
    notify(tx, message, &notice, now)
}

/// Queues a text behind the replies that the message already has, in pieces of at most `max_chars`. The files go with
/// the last piece.
pub(super) fn queue(
    tx: &mut Tx<'_>,
    message: &Message,
    kind: ReplyKind,
    text: &str,
    mut files: Vec<Attachment>,
    max_chars: Option<usize>,
    now: Timestamp,
) -> Result<(), RowsError> {
    let first = tx.replies(&message.message_id)?.len();
    let pieces = split_reply(text, max_chars);
    let last = pieces.len().saturating_sub(1);
    for (index, body) in pieces.into_iter().enumerate() {
        let ordinal = u32::try_from(first.saturating_add(index)).unwrap_or(u32::MAX);
        let attachments = if index == last {
            core::mem::take(&mut files)
        } else {
            Vec::new()
        };
        tx.change(Change::NewReply(Reply {
            message_id: message.message_id.clone(),
            ordinal,
            conversation_id: message.conversation_id.clone(),
            seq: message.seq,
            key: ReplyKey::of(&message.message_id, ordinal),
            kind,
            body,
            attachments,
            state: ReplyState::Queued { not_before: None },
            tries: 0,
            first_try_at: None,
            created_at: now,
        }))?;
    }
    Ok(())
}

/// Ends the message without an answer: cancelled if somebody stopped it, dead otherwise.
pub(super) fn close(
    tx: &mut Tx<'_>,
    message: &Message,
    life: &Life,
    reason: String,
    now: Timestamp,
) -> Result<(), RowsError> {
    match &life.stop {
        Some(stopped) => cancel(tx, message, life, stopped.clone(), now),
        None => bury(tx, message, life, reason, now),
    }
}

/// Moves the message to `cancelled` with a notice to its sender.
pub(super) fn cancel(
    tx: &mut Tx<'_>,
    message: &Message,
    life: &Life,
    reason: String,
    now: Timestamp,
) -> Result<(), RowsError> {
    let notice = format!("This message was stopped before it was answered: {reason}");
    let state = MessageState::Cancelled { reason };
    end(tx, message, life, state, &notice, now)
}

/// Moves the message to `dead` with a notice to its sender.
pub(super) fn bury(
    tx: &mut Tx<'_>,
    message: &Message,
    life: &Life,
    reason: String,
    now: Timestamp,
) -> Result<(), RowsError> {
    let notice = format!(
        "There is no answer to this message: {reason} (message {}; it is kept and can be sent again)",
        message.message_id
    );
    let state = MessageState::Dead { reason };
    end(tx, message, life, state, &notice, now)
}

/// Leaves it to a person how the message goes on, and asks its sender.
pub(super) fn park(
    tx: &mut Tx<'_>,
    message: &Message,
    life: &Life,
    reason: String,
    now: Timestamp,
) -> Result<(), RowsError> {
    let until = now.plus_ms(limits::PARKED_MS);
    let short = short_id(&message.message_id);
    let notice = format!(
        "This message waits for a decision: {reason}. `codex-bridge retry {short}` goes on with it, \
`codex-bridge discard {short}` gives it up; without a word it is given up after a day."
    );
    let state = MessageState::Parked { until, reason };
    end(tx, message, life, state, &notice, now)?;
    tx.act(Action::ScheduleAt { at: until });
    Ok(())
}

fn end(
    tx: &mut Tx<'_>,
    message: &Message,
    life: &Life,
    state: MessageState,
    notice: &str,
    now: Timestamp,
) -> Result<(), RowsError> {
    if state.name().finished() {
        withdraw(tx, &message.message_id, "its message is over")?;
    }
    tx.set_life(message, life.moved(state, now))?;
    notify(tx, message, notice, now)?;
    tx.deliver(&message.conversation_id);
    tx.act(Action::Schedule);
    tx.announce(&message.message_id);
    Ok(())
}

/// Asks a lane for its next reply. The intent is on disk before the platform gets the reply.
#[derive(Clone, Debug)]
pub struct Send {
    pub conversation_id: ConversationId,
}

/// What the lane has to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// Hand this to the platform.
    Send {
        message: Box<Message>,
        reply: Box<Reply>,
        /// An earlier send of it may have arrived.
        again: bool,
    },
    /// The next one waits until this time.
    Later(Timestamp),
    /// Nothing is left, or another node has the conversation.
    Empty,
}

impl Transition for Send {
    type Outcome = SendOutcome;
    const NAME: &'static str = "send";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<SendOutcome, RunError> {
        let Some(reply) = tx.next_reply(&self.conversation_id)? else {
            return Ok(SendOutcome::Empty);
        };
        let Some(message) = tx.message(&reply.message_id)? else {
            return Ok(SendOutcome::Empty);
        };
        if let ReplyState::Queued {
            not_before: Some(at),
        } = reply.state
            && at > now
        {
            return Ok(SendOutcome::Later(at));
        }
        if !tx.come_home(&self.conversation_id, now)? {
            return Ok(SendOutcome::Empty);
        }
        let again = matches!(reply.state, ReplyState::Sending);
        let from = reply.state.name();
        let reply = Reply {
            state: ReplyState::Sending,
            tries: reply.tries.saturating_add(1),
            first_try_at: reply.first_try_at.or(Some(now)),
            ..reply
        };
        tx.change(Change::Reply {
            message_id: reply.message_id.clone(),
            ordinal: reply.ordinal,
            from,
            to: ReplyState::Sending,
            tries: reply.tries,
            first_try_at: reply.first_try_at,
        })?;
        if message.life.state.name() == StateName::Answered {
            tx.set_life(&message, message.life.moved(MessageState::Sending, now))?;
        }
        tx.announce(&message.message_id);
        Ok(SendOutcome::Send {
            message: Box::new(message),
            reply: Box::new(reply),
            again,
        })
    }
}

/// Journals the platform's receipt. With the last reply the message is finished.
#[derive(Clone, Debug)]
pub struct Confirm {
    pub message_id: MessageId,
    pub ordinal: u32,
    pub receipt: String,
}

impl Transition for Confirm {
    type Outcome = ();
    const NAME: &'static str = "confirm";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let replies = tx.replies(&self.message_id)?;
        let reply = reply_of(Self::NAME, &message, &replies, self.ordinal)?;
        if reply.state.settled() {
            return Ok(());
        }
        let sent = ReplyState::Sent {
            receipt: self.receipt,
            at: Some(now),
        };
        move_reply(tx, reply, sent)?;
        let mut others = replies.iter().filter(|other| other.ordinal != self.ordinal);
        if others.all(|other| other.state.settled())
            && message.life.state.name() == StateName::Sending
        {
            tx.set_life(&message, message.life.moved(MessageState::Done, now))?;
        }
        tx.announce(&self.message_id);
        Ok(())
    }
}

/// Journals that a send failed: the reply is tried again, or given up with its text kept.
#[derive(Clone, Debug)]
pub struct SendFailed {
    pub message_id: MessageId,
    pub ordinal: u32,
    pub failure: Failure,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Transition for SendFailed {
    /// When the lane should be looked at again.
    type Outcome = Option<Timestamp>;
    const NAME: &'static str = "send_failed";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Timestamp>, RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let replies = tx.replies(&self.message_id)?;
        let reply = reply_of(Self::NAME, &message, &replies, self.ordinal)?;
        if reply.state.settled() {
            return Ok(None);
        }
        if let Some(at) = self.next_try(reply, now) {
            // An unknown outcome stays `sending`: the next send knows that this one may have arrived.
            let to = if self.failure.class == Class::Ambiguous {
                ReplyState::Sending
            } else {
                ReplyState::Queued {
                    not_before: Some(at),
                }
            };
            move_reply(tx, reply, to)?;
            return Ok(Some(at));
        }
        let reason = format!("the answer could not be delivered: {}", self.failure.reason);
        let dead = ReplyState::Dead {
            reason: reason.clone(),
        };
        move_reply(tx, reply, dead)?;
        if ends_with(&message, reply, &replies) {
            let mut life = message.life.moved(MessageState::Dead { reason }, now);
            life.failure = Some(self.failure);
            tx.set_life(&message, life)?;
        }
        tx.deliver(&message.conversation_id);
        tx.announce(&message.message_id);
        Ok(None)
    }
}

impl SendFailed {
    fn next_try(&self, reply: &Reply, now: Timestamp) -> Option<Timestamp> {
        let tried_since = reply.first_try_at.unwrap_or(now);
        let old = now.since_ms(tried_since) > limits::REPLY_AGE_MAX_MS;
        let soonest = now.plus_ms(backoff_ms(
            reply.tries.saturating_sub(1),
            limits::REPLY_BACKOFF_BASE_MS,
            limits::REPLY_BACKOFF_MAX_MS,
            self.jitter,
        ));
        match self.failure.class {
            Class::Permanent | Class::Bug => None,
            _ if old => None,
            // A time in the past would be a hot loop.
            Class::Capacity { until: Some(until) } => {
                let latest = now.plus_ms(limits::REPLY_AGE_MAX_MS).max(soonest);
                Some(until.clamp(soonest, latest))
            }
            Class::Transient
            | Class::Capacity { until: None }
            | Class::Config
            | Class::Ambiguous => Some(soonest),
        }
    }
}

/// Whether a message is over when this reply of it is given up. A notice about a wait takes nothing with it while the
/// answer is still to come or to be sent; a parked message can't ask its sender any more.
fn ends_with(message: &Message, reply: &Reply, replies: &[Reply]) -> bool {
    let is_answer = |reply: &Reply| reply.kind == ReplyKind::Answer;
    match message.life.state.name() {
        StateName::Parked => true,
        // A message that shares another one's answer has only a notice to send.
        StateName::Answered | StateName::Sending => {
            is_answer(reply) || !replies.iter().any(is_answer)
        }
        _ => false,
    }
}

fn reply_of<'r>(
    transition: &'static str,
    message: &Message,
    replies: &'r [Reply],
    ordinal: u32,
) -> Result<&'r Reply, Refused> {
    let reply = replies.iter().find(|reply| reply.ordinal == ordinal);
    reply.ok_or_else(|| Refused::new(transition, &message.message_id, Some(message)))
}

fn move_reply(tx: &mut Tx<'_>, reply: &Reply, to: ReplyState) -> Result<(), RowsError> {
    tx.change(Change::Reply {
        message_id: reply.message_id.clone(),
        ordinal: reply.ordinal,
        from: reply.state.name(),
        to,
        tries: reply.tries,
        first_try_at: reply.first_try_at,
    })
}
