//! Cancel: a person stops a message (T14). What has not begun ends here; what runs is interrupted, and ends as
//! cancelled when its turn has ended, because until then the thread is not free. Stopping an answer that asks back ends
//! the task that waits for the next word.

use super::outbox::Outbox;
use super::{Action, Decision, Refused, Transition, task_input};
use crate::port::{Change, Read, RowsError};
use crate::task::TaskSnapshot;
use crate::value::{
    Actor, AuditEntry, Life, Message, MessageId, MessageState, StateName, TaskInput, TaskInputKind,
    Timestamp,
};

/// Stops a message.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// Which.
    pub message_id: MessageId,
    /// Who.
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

/// The rows that decide.
#[derive(Debug)]
pub struct CancelView {
    message: Option<Message>,
    replies: usize,
    /// The agent's task whose last message it is.
    task: Option<TaskSnapshot>,
    /// It was given to the turn of another one, and is of a task of whoever stops it.
    own_follower: bool,
}

impl CancelView {
    /// A message that has no answer yet, with as many replies.
    pub(super) fn of(message: Message, replies: usize) -> Self {
        Self {
            message: Some(message),
            replies,
            task: None,
            own_follower: false,
        }
    }

    /// A message that was given to the turn of another one, and is stopped with it.
    pub(super) fn own_follower(message: Message) -> Self {
        Self {
            own_follower: true,
            ..Self::of(message, 0)
        }
    }
}

impl Transition for Cancel {
    type View = CancelView;
    type Outcome = CancelOutcome;
    const NAME: &'static str = "cancel";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let message = rows.message(&self.message_id)?;
        let answered = |message: &Message| !message.life.state.name().awaits_answer();
        let task = match message.as_ref().filter(|message| answered(message)) {
            Some(message) => match rows.task_of_message(&message.message_id)? {
                Some(task_id) => TaskSnapshot::load(rows, &task_id)?,
                None => None,
            },
            None => None,
        };
        let own_follower = match &message {
            Some(message) if message.life.state.name() == StateName::Steered => {
                self.owns_task_of(rows, &message.message_id)?
            }
            Some(_) | None => false,
        };
        Ok(CancelView {
            own_follower,
            replies: rows.replies(&self.message_id)?.len(),
            message,
            task: task.filter(|task| self.is_last_of(task)),
        })
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<CancelOutcome>, Refused> {
        let reason = format!("stopped by {}", self.by);
        self.decide_because(reason, view, now)
    }
}

impl Cancel {
    /// The same, with a reason of its own.
    pub(super) fn decide_because(
        self,
        reason: String,
        view: CancelView,
        now: Timestamp,
    ) -> Result<Decision<CancelOutcome>, Refused> {
        let CancelView {
            message: Some(message),
            replies,
            task,
            own_follower,
        } = view
        else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        match &message.life.state {
            MessageState::Received { .. } | MessageState::Parked { .. } => {
                let mut changes = vec![self.audit(now)];
                let outbox = Outbox::of(&message, replies, None);
                let actions = outbox.cancel(&message.life, reason, now, &mut changes);
                Ok(Decision {
                    changes,
                    actions,
                    outcome: CancelOutcome::Cancelled,
                })
            }
            MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Unclear { .. } => Ok(self.stop(&message, reason, now)),
            MessageState::Steered { leader } => {
                let leader = leader.clone();
                Ok(if own_follower {
                    self.mark(&message, reason, now, leader)
                } else {
                    Decision::nothing(CancelOutcome::Steered(leader))
                })
            }
            MessageState::Answered
            | MessageState::Sending
            | MessageState::Replied
            | MessageState::Done
            | MessageState::Dead { .. }
            | MessageState::Cancelled { .. } => Ok(match task {
                Some(task) if !task.now().state.terminal() => self.end(&task, now),
                Some(_) | None => Decision::nothing(CancelOutcome::TooLate),
            }),
        }
    }

    fn owns_task_of(&self, rows: &dyn Read, id: &MessageId) -> Result<bool, RowsError> {
        let task = match rows.task_of_message(id)? {
            Some(task_id) => rows.task(&task_id)?,
            None => None,
        };
        Ok(task.is_some_and(|task| task.is_agents(&self.by.name)))
    }

    fn is_last_of(&self, task: &TaskSnapshot) -> bool {
        let last = task.messages.last();
        let agents = task.task.start.is_none();
        agents && last.is_some_and(|last| last.message.message_id == self.message_id)
    }

    /// Nothing runs, and nothing more is said.
    fn end(&self, task: &TaskSnapshot, now: Timestamp) -> Decision<CancelOutcome> {
        let stop = TaskInput {
            task_id: task.task.task_id.clone(),
            ordinal: task_input::next_ordinal(&task.inputs),
            client_message_id: Self::NAME.to_owned(),
            idempotency_key: None,
            kind: TaskInputKind::End,
            original: String::new(),
            at: now,
        };
        Decision {
            changes: vec![self.audit(now), Change::NewTaskInput(stop)],
            actions: vec![Action::Announce {
                message_id: self.message_id.clone(),
            }],
            outcome: CancelOutcome::Cancelled,
        }
    }

    /// A second word of the same kind only interrupts again.
    fn stop(&self, message: &Message, reason: String, now: Timestamp) -> Decision<CancelOutcome> {
        Decision {
            changes: self.marks(message, reason, now),
            actions: vec![
                Action::Interrupt {
                    message_id: self.message_id.clone(),
                },
                self.announce(),
            ],
            outcome: CancelOutcome::Stopping,
        }
    }

    /// The turn is another message's, and whoever stops this one may have no business with that one.
    fn mark(
        &self,
        message: &Message,
        reason: String,
        now: Timestamp,
        leader: MessageId,
    ) -> Decision<CancelOutcome> {
        Decision {
            changes: self.marks(message, reason, now),
            actions: vec![self.announce()],
            outcome: CancelOutcome::Steered(leader),
        }
    }

    fn marks(&self, message: &Message, reason: String, now: Timestamp) -> Vec<Change> {
        if message.life.stop.is_some() {
            return Vec::new();
        }
        let life = Life {
            stop: Some(reason),
            ..message.life.clone()
        };
        vec![
            self.audit(now),
            Change::Live {
                message_id: self.message_id.clone(),
                from: message.life.state.name(),
                life,
            },
        ]
    }

    fn announce(&self) -> Action {
        Action::Announce {
            message_id: self.message_id.clone(),
        }
    }

    fn audit(&self, now: Timestamp) -> Change {
        Change::Audit(AuditEntry {
            at: now,
            actor: self.by.to_string(),
            what: Self::NAME.to_owned(),
            subject: self.message_id.to_string(),
            detail: String::new(),
        })
    }
}
