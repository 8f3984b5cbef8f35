//! Refuse: the platform did not take a reply (T11, T12). It is tried again, or given up with its text kept.

use super::{Action, Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::retry::backoff_ms;
use crate::value::{
    Class, Failure, Message, MessageId, MessageState, Reply, ReplyKind, ReplyState, StateName,
    Timestamp,
};

/// Journals that a send failed.
#[derive(Clone, Debug)]
pub struct Refuse {
    /// Of which message.
    pub message_id: MessageId,
    /// Which piece.
    pub ordinal: u32,
    /// Why.
    pub failure: Failure,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Transition for Refuse {
    type View = (Option<Message>, Vec<Reply>);
    /// When the lane should be looked at again.
    type Outcome = Option<Timestamp>;
    const NAME: &'static str = "refuse";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        Ok((
            rows.message(&self.message_id)?,
            rows.replies(&self.message_id)?,
        ))
    }

    fn decide(
        self,
        view: Self::View,
        now: Timestamp,
    ) -> Result<Decision<Option<Timestamp>>, Refused> {
        let (message, replies) = view;
        let Some(message) = message else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let has_answer = replies.iter().any(|reply| reply.kind == ReplyKind::Answer);
        let Some(reply) = replies
            .into_iter()
            .find(|reply| reply.ordinal == self.ordinal)
        else {
            return Err(Refused::new(Self::NAME, &self.message_id, Some(&message)));
        };
        if reply.state.settled() {
            return Ok(Decision::nothing(None));
        }
        let tried_since = reply.first_try_at.unwrap_or(now);
        let old = now.since_ms(tried_since) > limits::REPLY_AGE_MAX_MS;
        let soonest = now.plus_ms(backoff_ms(
            reply.tries.saturating_sub(1),
            limits::REPLY_BACKOFF_BASE_MS,
            limits::REPLY_BACKOFF_MAX_MS,
            self.jitter,
        ));
        let again = match self.failure.class {
            Class::Permanent | Class::Bug => None,
            Class::Transient | Class::Capacity { .. } | Class::Config | Class::Ambiguous if old => {
                None
            }
            // A time in the past would be a hot loop.
            Class::Capacity { until: Some(until) } => {
                let latest = now.plus_ms(limits::REPLY_AGE_MAX_MS).max(soonest);
                Some(until.clamp(soonest, latest))
            }
            Class::Transient
            | Class::Capacity { until: None }
            | Class::Config
            | Class::Ambiguous => Some(soonest),
        };
        Ok(match again {
            Some(at) => later(&reply, &self.failure, at),
            None => {
                let ends = ends_with(&message, &reply, has_answer);
                give_up(&message, &reply, self.failure, ends, now)
            }
        })
    }
}

fn later(reply: &Reply, failure: &Failure, at: Timestamp) -> Decision<Option<Timestamp>> {
    // An unknown outcome stays `sending`: the next send is told that this one may have arrived.
    let to = match failure.class {
        Class::Ambiguous => ReplyState::Sending,
        Class::Transient
        | Class::Capacity { .. }
        | Class::Config
        | Class::Permanent
        | Class::Bug => ReplyState::Queued {
            not_before: Some(at),
        },
    };
    Decision {
        changes: vec![Change::Reply {
            message_id: reply.message_id.clone(),
            ordinal: reply.ordinal,
            from: reply.state.name(),
            to,
            tries: reply.tries,
            first_try_at: reply.first_try_at,
        }],
        actions: Vec::new(),
        outcome: Some(at),
    }
}

/// Whether a message is over when this reply of it is given up. A word about a wait takes nothing with it while the
/// answer is still to come or to be sent; a parked message can't ask its sender any more.
fn ends_with(message: &Message, reply: &Reply, has_answer: bool) -> bool {
    match message.life.state.name() {
        StateName::Parked => true,
        // Who shares another one's answer has no answer of its own to send, only a word.
        StateName::Answered | StateName::Sending => reply.kind == ReplyKind::Answer || !has_answer,
        StateName::Received
        | StateName::Claimed
        | StateName::Starting
        | StateName::Running
        | StateName::Unclear
        | StateName::Steered
        | StateName::Done
        | StateName::Dead
        | StateName::Cancelled => false,
    }
}

fn give_up(
    message: &Message,
    reply: &Reply,
    failure: Failure,
    ends: bool,
    now: Timestamp,
) -> Decision<Option<Timestamp>> {
    let reason = format!("the answer could not be delivered: {}", failure.reason);
    let mut changes = vec![Change::Reply {
        message_id: reply.message_id.clone(),
        ordinal: reply.ordinal,
        from: reply.state.name(),
        to: ReplyState::Dead {
            reason: reason.clone(),
        },
        tries: reply.tries,
        first_try_at: reply.first_try_at,
    }];
    if ends {
        let mut life = message.life.moved(MessageState::Dead { reason }, now);
        life.failure = Some(failure);
        changes.push(Change::Live {
            message_id: message.message_id.clone(),
            from: message.life.state.name(),
            life,
        });
    }
    Decision {
        changes,
        actions: vec![
            Action::Deliver {
                conversation_id: message.conversation_id.clone(),
            },
            Action::Announce {
                message_id: message.message_id.clone(),
            },
        ],
        outcome: None,
    }
}
