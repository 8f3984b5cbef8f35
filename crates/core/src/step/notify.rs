//! The one notification of a task: its intent is on disk before it is sent, a failed one is tried again as replies are,
//! and a task that is over is told of once.

use super::{Decision, Refused, Staged};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::retry::backoff_ms;
use crate::value::{
    AuditEntry, Class, Failure, Notification, NotifyState, Task, TaskId, Timestamp,
};

/// Begins to send a notification.
#[derive(Clone, Debug)]
pub struct NotifyBegin {
    pub task_id: TaskId,
    /// Who asked for it: one that was given up is tried again then, and a pause is not kept.
    pub asked: Option<String>,
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyStep {
    /// Send it now.
    Send {
        /// The task, with the send counted.
        task: Box<Task>,
        /// An earlier send of it may have arrived.
        again: bool,
    },
    /// Not before this.
    Later(Timestamp),
    /// There is nothing to send: nobody is to be told, it was told, or the task is not over.
    Nothing,
}

impl Staged for NotifyBegin {
    type View = Option<(Task, bool)>;
    type Outcome = NotifyStep;
    const NAME: &'static str = "notify_begin";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let Some(task) = rows.task(&self.task_id)? else {
            return Ok(None);
        };
        let open = rows.unanswered_of(&task.conversation_id, 1)?;
        Ok(Some((task, open.is_empty())))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<NotifyStep>, Refused> {
        let Some((task, true)) = view else {
            return Ok(Decision::nothing(NotifyStep::Nothing));
        };
        let again = match task.notification.state {
            NotifyState::NoTarget if self.asked.is_some() => return Ok(nobody(task)),
            NotifyState::NoTarget | NotifyState::Sent { .. } => {
                return Ok(Decision::nothing(NotifyStep::Nothing));
            }
            NotifyState::Failed { .. } if self.asked.is_none() => {
                return Ok(Decision::nothing(NotifyStep::Nothing));
            }
            NotifyState::Pending {
                not_before: Some(at),
            } if at > now && self.asked.is_none() => {
                return Ok(Decision::nothing(NotifyStep::Later(at)));
            }
            NotifyState::Pending { .. } | NotifyState::Failed { .. } => false,
            NotifyState::Sending => true,
        };
        let first_try_at = match task.notification.state {
            // A person's word begins a new time of trying.
            NotifyState::Failed { .. } => Some(now),
            _ => Some(task.notification.first_try_at.unwrap_or(now)),
        };
        let notification = Notification {
            state: NotifyState::Sending,
            tries: task.notification.tries.saturating_add(1),
            first_try_at,
            ..task.notification.clone()
        };
        let change = Change::Notify {
            task_id: task.task_id.clone(),
            from: task.notification.state,
            to: notification.clone(),
        };
        let audit = self.asked.map(|by| {
            Change::Audit(AuditEntry {
                at: now,
                actor: by,
                what: "notify".to_owned(),
                subject: task.message_id.to_string(),
                detail: format!("of task {}", task.task_id),
            })
        });
        Ok(Decision {
            changes: [Some(change), audit].into_iter().flatten().collect(),
            actions: Vec::new(),
            outcome: NotifyStep::Send {
                task: Box::new(Task {
                    notification,
                    ..task
                }),
                again,
            },
        })
    }
}

/// Notes that nobody is to be told; a person is shown such a task once.
fn nobody(task: Task) -> Decision<NotifyStep> {
    Decision {
        changes: vec![Change::Notify {
            task_id: task.task_id,
            from: NotifyState::NoTarget,
            to: Notification {
                tries: task.notification.tries.saturating_add(1),
                ..task.notification
            },
        }],
        actions: Vec::new(),
        outcome: NotifyStep::Nothing,
    }
}

/// Journals what became of a send.
#[derive(Clone, Debug)]
pub struct NotifyEnd {
    pub task_id: TaskId,
    /// Why it was not taken.
    pub failure: Option<Failure>,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Staged for NotifyEnd {
    type View = Option<Task>;
    /// How far the notification is now.
    type Outcome = Option<NotifyState>;
    const NAME: &'static str = "notify_end";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        rows.task(&self.task_id)
    }

    fn decide(
        self,
        view: Self::View,
        now: Timestamp,
    ) -> Result<Decision<Option<NotifyState>>, Refused> {
        let Some(task) = view.filter(|task| task.notification.state == NotifyState::Sending) else {
            return Ok(Decision::nothing(None));
        };
        let notification = &task.notification;
        let state = match &self.failure {
            None => NotifyState::Sent { at: now },
            Some(failure) => after(failure, notification, self.jitter, now),
        };
        let to = Notification {
            state,
            error: self.failure.map(|failure| failure.reason),
            ..notification.clone()
        };
        Ok(Decision {
            changes: vec![Change::Notify {
                task_id: task.task_id,
                from: NotifyState::Sending,
                to,
            }],
            actions: Vec::new(),
            outcome: Some(state),
        })
    }
}

/// When a failed one is tried again, as replies are; or that it is given up.
fn after(failure: &Failure, told: &Notification, jitter: u16, now: Timestamp) -> NotifyState {
    match next_try(failure, told.tries, told.first_try_at, jitter, now) {
        Some(at) => NotifyState::Pending {
            not_before: Some(at),
        },
        None => NotifyState::Failed { at: now },
    }
}

/// When something that is told to a machine is tried again; nothing when it is given up.
pub(super) fn next_try(
    failure: &Failure,
    tries: u32,
    first_try_at: Option<Timestamp>,
    jitter: u16,
    now: Timestamp,
) -> Option<Timestamp> {
    let old = now.since_ms(first_try_at.unwrap_or(now)) > limits::REPLY_AGE_MAX_MS;
    let soonest = now.plus_ms(backoff_ms(
        tries.saturating_sub(1),
        limits::REPLY_BACKOFF_BASE_MS,
        limits::NOTIFY_BACKOFF_MAX_MS,
        jitter,
    ));
    match failure.class {
        Class::Permanent | Class::Bug => None,
        Class::Transient | Class::Capacity { .. } | Class::Config | Class::Ambiguous if old => None,
        Class::Capacity { until: Some(until) } => {
            let latest = now.plus_ms(limits::REPLY_AGE_MAX_MS).max(soonest);
            Some(until.clamp(soonest, latest))
        }
        Class::Transient | Class::Capacity { until: None } | Class::Config | Class::Ambiguous => {
            Some(soonest)
        }
    }
}
