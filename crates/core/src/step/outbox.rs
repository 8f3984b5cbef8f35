//! How replies are written: shared by the transitions that end in something the sender can see.

use super::Action;
use crate::limits;
use crate::port::Change;
use crate::requester;
use crate::value::{
    Attachment, Failure, Life, Message, MessageId, MessageState, Reply, ReplyKey, ReplyKind,
    ReplyState, Timestamp, split_reply,
};

/// What Codex asked for a message needs no answer any more.
pub(super) fn withdraw(message_id: &MessageId, why: &str) -> Change {
    Change::Withdraw {
        message_id: message_id.clone(),
        why: why.to_owned(),
    }
}

/// Writes replies of one message, after those it already has.
pub(super) struct Outbox<'a> {
    message: &'a Message,
    next_ordinal: usize,
    max_chars: Option<usize>,
}

impl<'a> Outbox<'a> {
    /// For a message that already has `replies` rows, on a platform with this limit.
    pub(super) fn of(message: &'a Message, replies: usize, max_chars: Option<usize>) -> Self {
        Self {
            message,
            next_ordinal: replies,
            max_chars,
        }
    }

    /// Queues a text, in pieces where it is too long for the platform. What the bridge itself says is without paths
    /// for everybody but the owner.
    pub(super) fn queue(&self, kind: ReplyKind, text: &str, now: Timestamp) -> Vec<Change> {
        match kind {
            ReplyKind::Answer => self.queue_with(kind, text, Vec::new(), now),
            ReplyKind::Notice => self.queue_whole(&requester::told(self.message, text), now),
        }
    }

    /// Queues what its reader decides about: nothing of it may be left out.
    pub(super) fn queue_whole(&self, notice: &str, now: Timestamp) -> Vec<Change> {
        self.queue_with(ReplyKind::Notice, notice, Vec::new(), now)
    }

    /// Queues a text with files, which go with its last piece.
    pub(super) fn queue_with(
        &self,
        kind: ReplyKind,
        text: &str,
        mut files: Vec<Attachment>,
        now: Timestamp,
    ) -> Vec<Change> {
        let pieces = split_reply(text, self.max_chars);
        let last = pieces.len().saturating_sub(1);
        pieces
            .into_iter()
            .enumerate()
            .map(|(index, body)| {
                let ordinal = u32::try_from(self.next_ordinal + index).unwrap_or(u32::MAX);
                Change::NewReply(Reply {
                    message_id: self.message.message_id.clone(),
                    ordinal,
                    conversation_id: self.message.conversation_id.clone(),
                    seq: self.message.seq,
                    key: ReplyKey::of(&self.message.message_id, ordinal),
                    kind,
                    body,
                    attachments: if index == last {
                        core::mem::take(&mut files)
                    } else {
                        Vec::new()
                    },
                    state: ReplyState::Queued { not_before: None },
                    tries: 0,
                    first_try_at: None,
                    created_at: now,
                })
            })
            .collect()
    }

    /// Ends the message without an answer: cancelled if somebody stopped it, dead otherwise.
    pub(super) fn close(
        &self,
        life: &Life,
        reason: String,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        match &life.stop {
            Some(stopped) => self.cancel(life, stopped.clone(), now, changes),
            None => self.bury(life, reason, now, changes),
        }
    }

    /// Moves the message to `cancelled` with a notice to its sender.
    pub(super) fn cancel(
        &self,
        life: &Life,
        reason: String,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        let notice = format!("This message was stopped before it was answered: {reason}");
        let state = MessageState::Cancelled { reason };
        self.end(life, state, &notice, now, changes)
    }

    /// Leaves it to a person how the message goes on, and asks its sender.
    pub(super) fn park(
        &self,
        life: &Life,
        reason: String,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        let until = now.plus_ms(limits::PARKED_MS);
        let message_id = &self.message.message_id;
        let notice = format!(
            "This message waits for a decision: {reason}. `codex-bridge dead redrive {message_id}` goes on with it, \
`codex-bridge dead drop {message_id}` gives it up; without a word it is given up after a day."
        );
        let mut actions = self.end(
            life,
            MessageState::Parked { until, reason },
            &notice,
            now,
            changes,
        );
        actions.push(Action::ScheduleAt { at: until });
        actions
    }

    /// Moves the message to `dead` with a notice to its sender.
    pub(super) fn bury(
        &self,
        life: &Life,
        reason: String,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        let message_id = self.message.message_id.clone();
        let notice = format!(
            "There is no answer to this message: {reason} (message {message_id}; it is kept and can be sent again)"
        );
        self.end(life, MessageState::Dead { reason }, &notice, now, changes)
    }

    fn end(
        &self,
        life: &Life,
        state: MessageState,
        notice: &str,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        let message_id = self.message.message_id.clone();
        if state.name().finished() {
            changes.push(withdraw(&message_id, "its message is over"));
        }
        changes.push(Change::Live {
            message_id: message_id.clone(),
            from: self.message.life.state.name(),
            life: life.moved(state, now),
        });
        changes.extend(self.queue(ReplyKind::Notice, notice, now));
        vec![
            Action::Deliver {
                conversation_id: self.message.conversation_id.clone(),
            },
            Action::Schedule,
            Action::Announce { message_id },
        ]
    }

    /// Tells the sender that the message waits for something, once per kind of wait.
    pub(super) fn tell_held(&self, failure: &Failure, now: Timestamp) -> Vec<Change> {
        let before = self
            .message
            .life
            .failure
            .as_ref()
            .map(|before| before.class.as_str());
        if before == Some(failure.class.as_str()) {
            return Vec::new();
        }
        let notice = format!(
            "This message waits and will be answered later: {} (message {})",
            failure.reason, self.message.message_id
        );
        self.queue(ReplyKind::Notice, &notice, now)
    }
}
