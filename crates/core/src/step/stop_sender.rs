//! Stops one sender, a batch of messages at a time: what has not begun is cancelled, and what runs is interrupted where
//! that is wanted. Doing it again is harmless: what is over is not looked at, and a stopped turn is only interrupted again.

use super::{Cancel, CancelOutcome, CancelView, Decision, Refused, Transition};
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
    /// There may be more behind this one.
    pub next: Option<MessageId>,
}

impl Transition for StopSender {
    /// With the number of replies that each has.
    type View = Vec<(Message, usize)>;
    type Outcome = SenderStopped;
    const NAME: &'static str = "stop-sender";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let after = self.after.as_ref();
        let theirs = rows.unanswered_of_sender(&self.sender, &self.channels, after, STOP_MAX)?;
        let mut view = Vec::with_capacity(theirs.len());
        for message in theirs {
            let replies = rows.replies(&message.message_id)?.len();
            view.push((message, replies));
        }
        Ok(view)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<SenderStopped>, Refused> {
        let whole = view.len() >= STOP_MAX as usize;
        let last = view.last().map(|(message, _)| message.message_id.clone());
        let mut batch = Decision::nothing(SenderStopped {
            next: last.filter(|_| whole),
            ..SenderStopped::default()
        });
        for (message, replies) in view {
            self.stop(message, replies, now, &mut batch)?;
        }
        let running = batch.outcome.running.len();
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
                detail: format!("{cancelled} cancelled, {running} {what_runs}"),
            }));
        }
        Ok(batch)
    }
}

impl StopSender {
    fn stop(
        &self,
        message: Message,
        replies: usize,
        now: Timestamp,
        batch: &mut Decision<SenderStopped>,
    ) -> Result<(), Refused> {
        let message_id = message.message_id.clone();
        let begun = !matches!(
            message.life.state.name(),
            StateName::Received | StateName::Parked
        );
        let reason = match self.cause {
            StopCause::Operator => format!("stopped by {}", self.by),
            StopCause::Revoked if begun => {
                batch.outcome.running.push(message_id);
                return Ok(());
            }
            StopCause::Revoked => format!("stopped by {}, who revoked its sender's token", self.by),
        };
        let view = match message.life.state.name() {
            // Its leader is stopped as well, and it must not get a turn of its own then.
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
            CancelOutcome::Stopping | CancelOutcome::Steered(_) => {
                batch.outcome.running.push(message_id);
            }
            CancelOutcome::TooLate => {}
        }
        Ok(())
    }
}
