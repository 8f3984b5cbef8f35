//! Stopping messages. What has not begun ends here; what runs is interrupted, and ends as cancelled when its turn has
//! ended, because until then the thread is not free.

use crate::channels::session_of;
use crate::limits::STOP_MAX;
use crate::port::{Change, RowsError};
use crate::step::{Action, RunError, Transition, Tx, reply, task_input};
use crate::task::TaskSnapshot;
use crate::value::{
    Actor, ChannelId, Life, Message, MessageId, MessageState, StateName, TaskInput, TaskInputKind,
    Timestamp,
};

/// Stops a message.
#[derive(Clone, Debug)]
pub struct Cancel {
    pub message_id: MessageId,
    pub by: Actor,
}

/// What stopping a message came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It had not begun, or waited for its sender's next word, and is over.
    Cancelled,
    /// Its turn is being interrupted; its answer still counts if it comes first.
    Stopping,
    /// Its text was given to the turn of this message: that one can be stopped. Of a task of whoever asks, it is
    /// over when that turn ends, however it ends.
    Steered(MessageId),
    /// It is answered or over: there is nothing to stop.
    TooLate,
}

impl Transition for Cancel {
    type Outcome = CancelOutcome;
    const NAME: &'static str = "cancel";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<CancelOutcome, RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let state = message.life.state.name();
        if !state.awaits_answer() {
            return self.end_task(tx, now);
        }
        let stop = Stop {
            follower: state == StateName::Steered && self.owns_task(tx)?,
            ..self.as_stop()
        };
        Ok(stop.write(tx, &message, now)?)
    }
}

impl Cancel {
    /// Stops a message that was read in this transaction and has no answer yet.
    pub(in crate::step) fn stop(
        &self,
        tx: &mut Tx<'_>,
        message: &Message,
        now: Timestamp,
    ) -> Result<CancelOutcome, RowsError> {
        self.as_stop().write(tx, message, now)
    }

    fn as_stop(&self) -> Stop<'_> {
        Stop {
            reason: format!("stopped by {}", self.by),
            audit: Some(&self.by),
            follower: false,
        }
    }

    /// Whether the message is of a task of whoever stops it.
    fn owns_task(&self, tx: &Tx<'_>) -> Result<bool, RowsError> {
        let task = match tx.task_of_message(&self.message_id)? {
            Some(task_id) => tx.task(&task_id)?,
            None => None,
        };
        Ok(task.is_some_and(|task| task.is_agents(&self.by.name)))
    }

    /// Stopping an answer that asks back ends the task that waits for the next word.
    fn end_task(&self, tx: &mut Tx<'_>, now: Timestamp) -> Result<CancelOutcome, RunError> {
        let Some(task_id) = tx.task_of_message(&self.message_id)? else {
            return Ok(CancelOutcome::TooLate);
        };
        let Some(task) = TaskSnapshot::load(&**tx, &task_id)? else {
            return Ok(CancelOutcome::TooLate);
        };
        let last = task.messages.last();
        if task.task.start.is_some()
            || last.is_none_or(|last| last.message.message_id != self.message_id)
            || task.now().state.terminal()
        {
            return Ok(CancelOutcome::TooLate);
        }
        tx.audit(&self.by, Self::NAME, &self.message_id, "", now)?;
        tx.change(Change::NewTaskInput(TaskInput {
            task_id,
            ordinal: task_input::next_ordinal(&task.inputs),
            client_message_id: Self::NAME.to_owned(),
            idempotency_key: None,
            kind: TaskInputKind::End,
            original: String::new(),
            at: now,
        }))?;
        tx.announce(&self.message_id);
        Ok(CancelOutcome::Cancelled)
    }
}

/// How one message is stopped.
struct Stop<'a> {
    reason: String,
    /// Who did it; absent where one entry tells of a whole batch.
    audit: Option<&'a Actor>,
    /// Also marks a message that was given to the turn of another one: it is over when that turn ends. The turn itself
    /// goes on, because whoever stops this message may have no business with the other one.
    follower: bool,
}

impl Stop<'_> {
    fn write(
        self,
        tx: &mut Tx<'_>,
        message: &Message,
        now: Timestamp,
    ) -> Result<CancelOutcome, RowsError> {
        let message_id = &message.message_id;
        match &message.life.state {
            MessageState::Received { .. } | MessageState::Parked { .. } => {
                self.audit(tx, message_id, now)?;
                reply::cancel(tx, message, &message.life, self.reason, now)?;
                Ok(CancelOutcome::Cancelled)
            }
            MessageState::Steered { leader } => {
                let leader = leader.clone();
                if self.follower {
                    self.mark(tx, message, now)?;
                    tx.announce(message_id);
                }
                Ok(CancelOutcome::Steered(leader))
            }
            state if state.name().in_flight() => {
                self.mark(tx, message, now)?;
                tx.act(Action::Interrupt {
                    message_id: message_id.clone(),
                });
                tx.announce(message_id);
                Ok(CancelOutcome::Stopping)
            }
            _ => Ok(CancelOutcome::TooLate),
        }
    }

    /// A second stop only interrupts again.
    fn mark(self, tx: &mut Tx<'_>, message: &Message, now: Timestamp) -> Result<(), RowsError> {
        if message.life.stop.is_some() {
            return Ok(());
        }
        self.audit(tx, &message.message_id, now)?;
        let life = Life {
            stop: Some(self.reason),
            ..message.life.clone()
        };
        tx.set_life(message, life)
    }

    fn audit(&self, tx: &mut Tx<'_>, id: &MessageId, now: Timestamp) -> Result<(), RowsError> {
        match self.audit {
            Some(by) => tx.audit(by, Cancel::NAME, id, "", now),
            None => Ok(()),
        }
    }
}

/// Stops the next messages of a sender, a batch at a time: what has not begun is cancelled, and what runs is interrupted
/// where that is wanted. Doing it again is harmless: finished messages are skipped, and a stopped turn is only
/// interrupted again.
#[derive(Clone, Debug)]
pub struct StopSender {
    pub sender: String,
    /// Only what was sent with this session of the console.
    pub session: Option<String>,
    /// On these channels; on all of them if none is named.
    pub channels: Vec<ChannelId>,
    pub by: Actor,
    pub cause: StopCause,
    /// Behind this one: where the batch before ended.
    pub after: Option<MessageId>,
}

/// Why a sender is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// An operator wants everything of it to end: what runs is interrupted as well.
    Operator,
    /// Its token or session was revoked: what runs goes on, because work that is cut may leave things half done.
    Revoked,
}

/// What kind of one batch.
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

impl Transition for StopSender {
    type Outcome = SenderStopped;
    const NAME: &'static str = "stop_sender";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<SenderStopped, RunError> {
        let after = self.after.as_ref();
        let theirs = tx.unanswered_of_sender(&self.sender, &self.channels, after, STOP_MAX)?;
        let whole = theirs.len() >= STOP_MAX as usize;
        let last = theirs.last().map(|message| message.message_id.clone());
        let mut stopped = SenderStopped {
            next: last.filter(|_| whole),
            ..SenderStopped::default()
        };
        let mut changed = false;
        for message in theirs.into_iter().filter(|message| self.stops(message)) {
            changed |= self.stop(tx, &message, &mut stopped, now)?;
        }
        let asked = self.after.is_none() && self.cause == StopCause::Operator;
        if asked || changed {
            let what_runs = match self.cause {
                StopCause::Operator => "interrupted",
                StopCause::Revoked => "go on",
            };
            let joined = match stopped.joined.len() {
                0 => String::new(),
                joined => format!(", {joined} in turns of others, which go on"),
            };
            let (cancelled, running) = (stopped.cancelled, stopped.running.len());
            let detail = format!("{cancelled} cancelled, {running} {what_runs}{joined}");
            let subject = format!("sender {}", self.session.as_ref().unwrap_or(&self.sender));
            tx.audit(&self.by, "stop-sender", subject, detail, now)?;
        }
        Ok(stopped)
    }
}

impl StopSender {
    /// Whether this message is one of those that are stopped.
    fn stops(&self, message: &Message) -> bool {
        let Message {
            channel,
            sender,
            external_id,
            ..
        } = message;
        let is_of_session = |name: &str| session_of(channel, sender, external_id) == Some(name);
        *sender == self.sender
            && self.session.as_deref().is_none_or(is_of_session)
            && (self.channels.is_empty() || self.channels.contains(channel))
    }

    /// Stops one message, and says whether a row of it changed.
    fn stop(
        &self,
        tx: &mut Tx<'_>,
        message: &Message,
        stopped: &mut SenderStopped,
        now: Timestamp,
    ) -> Result<bool, RowsError> {
        let message_id = message.message_id.clone();
        let leader = match message.life.state.leader() {
            Some(leader) => tx.message(leader)?,
            None => None,
        };
        let joined = leader.is_some_and(|leader| !self.stops(&leader));
        if joined {
            stopped.joined.push(message_id.clone());
        }
        let state = message.life.state.name();
        let begun = !matches!(state, StateName::Received | StateName::Parked);
        let reason = match self.cause {
            StopCause::Operator => format!("stopped by {}", self.by),
            StopCause::Revoked if joined => return Ok(false),
            StopCause::Revoked if begun => {
                stopped.running.push(message_id);
                return Ok(false);
            }
            StopCause::Revoked => {
                format!("stopped by {}, who revoked what it was sent with", self.by)
            }
        };
        let stop = Stop {
            reason,
            // One entry tells of the whole batch.
            audit: None,
            // It must not get a turn of its own after the one that has it.
            follower: true,
        };
        let outcome = stop.write(tx, message, now)?;
        let marked = begun && message.life.stop.is_none();
        Ok(match outcome {
            CancelOutcome::Cancelled => {
                stopped.cancelled = stopped.cancelled.saturating_add(1);
                true
            }
            CancelOutcome::Stopping | CancelOutcome::Steered(_) => {
                if !joined {
                    stopped.running.push(message_id);
                }
                marked
            }
            CancelOutcome::TooLate => false,
        })
    }
}
