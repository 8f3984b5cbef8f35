//! Stops one sender, a batch of messages at a time: what has not begun is cancelled, and what runs is interrupted where
//! that is wanted. Doing it again is harmless: what is over is not looked at, and a stopped turn is only interrupted again.

use super::{Cancel, CancelOutcome, CancelView, Decision, Refused, Staged};
use crate::limits::STOP_MAX;
use crate::port::{Change, Read, RowsError};
use crate::value::{Actor, AuditEntry, ChannelId, Message, MessageId, StateName, Timestamp};

/// Stops the next messages of a sender.
#[derive(Clone, Debug)]
pub struct StopSender {
    /// Whose.
    pub sender: String,
    /// On these channels; on all of them if none is named.
    pub channels: Vec<ChannelId>,
    /// Who wants it.
    pub by: Actor,
    /// Why.
    pub cause: StopCause,
    /// Behind this one: where the batch before ended.
    pub after: Option<MessageId>,
}

/// Why a sender is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// An operator wants everything of it to end: what runs is interrupted as well.
    Operator,
    /// Its token was revoked: what runs goes on, because work that is cut may leave things half done.
    Revoked,
}

/// What became of one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStopped {
    /// Messages that had not begun and are cancelled.
    pub cancelled: u32,
    /// Messages whose turn runs: it is interrupted, or goes on, by the cause.
    pub running: Vec<MessageId>,
    /// Messages whose text the turn of another sender has: that turn goes on with it.
    pub joined: Vec<MessageId>,
    /// There may be more behind this one.
    pub next: Option<MessageId>,
}

/// A message of the sender.
#[derive(Debug)]
pub struct Theirs {
    message: Message,
    replies: usize,
    /// The turn of another sender was given its text.
    joined: bool,
}

impl Staged for StopSender {
    type View = Vec<Theirs>;
    type Outcome = SenderStopped;
    const NAME: &'static str = "stop-sender";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let after = self.after.as_ref();
        let theirs = rows.unanswered_of_sender(&self.sender, &self.channels, after, STOP_MAX)?;
        let mut view = Vec::with_capacity(theirs.len());
        for message in theirs {
            let leader = match message.life.state.leader() {
                Some(leader) => rows.message(leader)?,
                None => None,
            };
            view.push(Theirs {
                replies: rows.replies(&message.message_id)?.len(),
                joined: leader.is_some_and(|leader| !self.stops(&leader)),
                message,
            });
        }
        Ok(view)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<SenderStopped>, Refused> {
        let whole = view.len() >= STOP_MAX as usize;
        let last = view.last().map(|one| one.message.message_id.clone());
        let mut batch = Decision::nothing(SenderStopped {
            next: last.filter(|_| whole),
            ..SenderStopped::default()
        });
        for one in view {
            self.stop(one, now, &mut batch)?;
        }
        let running = batch.outcome.running.len();
        let joined = match batch.outcome.joined.len() {
            0 => String::new(),
            joined => format!(", {joined} in turns of others, which go on"),
        };
        let asked = self.after.is_none() && self.cause == StopCause::Operator;
        if asked || !batch.changes.is_empty() {
            let cancelled = batch.outcome.cancelled;
            let what_runs = match self.cause {
                StopCause::Operator => "interrupted",
                StopCause::Revoked => "go on",
            };
            batch.changes.push(Change::Audit(AuditEntry {
                at: now,
                actor: self.by.to_string(),
                what: Self::NAME.to_owned(),
                subject: format!("sender {}", self.sender),
                detail: format!("{cancelled} cancelled, {running} {what_runs}{joined}"),
            }));
        }
        Ok(batch)
    }
}

impl StopSender {
    /// Whether this message is one of those that are stopped.
    fn stops(&self, message: &Message) -> bool {
        message.sender == self.sender
            && (self.channels.is_empty() || self.channels.contains(&message.channel))
    }

    fn stop(
        &self,
        theirs: Theirs,
        now: Timestamp,
        batch: &mut Decision<SenderStopped>,
    ) -> Result<(), Refused> {
        let Theirs {
            message,
            replies,
            joined,
        } = theirs;
        let message_id = message.message_id.clone();
        if joined {
            batch.outcome.joined.push(message_id.clone());
        }
        let begun = !matches!(
            message.life.state.name(),
            StateName::Received | StateName::Parked
        );
        let reason = match self.cause {
            StopCause::Operator => format!("stopped by {}", self.by),
            StopCause::Revoked if joined => return Ok(()),
            StopCause::Revoked if begun => {
                batch.outcome.running.push(message_id);
                return Ok(());
            }
            StopCause::Revoked => format!("stopped by {}, who revoked its sender's token", self.by),
        };
        let view = match message.life.state.name() {
            // It must not get a turn of its own after the one that has it.
            StateName::Steered => CancelView::own_follower(message),
            _ => CancelView::of(message, replies),
        };
        let cancel = Cancel {
            message_id: message_id.clone(),
            by: self.by.clone(),
        };
        let decision = cancel.decide_because(reason, view, now)?;
        // One entry tells of the whole batch.
        let changes = decision.changes.into_iter();
        let changes = changes.filter(|change| !matches!(change, Change::Audit(_)));
        batch.changes.extend(changes);
        batch.actions.extend(decision.actions);
        match decision.outcome {
            CancelOutcome::Cancelled => batch.outcome.cancelled += 1,
            CancelOutcome::Stopping | CancelOutcome::Steered(_) if joined => {}
            CancelOutcome::Stopping | CancelOutcome::Steered(_) => {
                batch.outcome.running.push(message_id);
            }
            CancelOutcome::TooLate => {}
        }
        Ok(())
    }
}
