//! The state of a task and its projections: A2A's states, and the statuses of the control surfaces.

use super::TaskMessage;
use crate::outcome::{self, Outcome};
use crate::phase::Phase;
use crate::value::{MessageState, words};

/// State of a task, derived from its messages and their requests. Surfaces show a projection of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits for a turn.
    Queued {
        /// A turn of it began before.
        begun: bool,
    },
    /// Codex is given it.
    Starting,
    /// Codex works on it.
    Running,
    /// The end of its turn was not seen, and is being looked for.
    Unclear,
    /// It was cut, and a person must decide how it goes on.
    Parked,
    /// Codex waits for the answer to a request.
    Asking {
        /// The first request wants more than a yes or no.
        input: bool,
        /// The sender may answer one of the requests itself.
        sender: bool,
    },
    /// The newest message is answered.
    Answered(Outcome),
    /// The newest message was given up.
    Failed {
        /// A turn of it began.
        begun: bool,
    },
    /// The newest message was stopped.
    Cancelled,
    /// Its owner ended it while it waited for the next input.
    Ended,
}

/// State of a task as A2A names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum A2aState {
    /// Accepted; no turn began.
    Submitted,
    /// Codex works on it.
    Working,
    /// It waits for its owner's next input.
    InputRequired,
    /// It waits for the owner of this machine.
    AuthRequired,
    /// Answered.
    Completed,
    /// Given up.
    Failed,
    /// Stopped.
    Canceled,
    /// Never begun, or refused by Codex itself.
    Rejected,
}

/// Status of a task as the control surfaces name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlStatus {
    /// It waits for its turn, or for what a turn needs.
    Queued,
    /// Codex is given it.
    Starting,
    /// Codex works on it.
    Working,
    /// Codex asks whether it may.
    WaitingForApproval,
    /// Codex asks something.
    WaitingForUserInput,
    /// It was cut, and a person must decide how it goes on.
    Parked,
    /// The end of its turn was not seen, and is being looked for.
    Unclear,
    /// It has its answer.
    Completed,
    /// It was given up.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl TaskState {
    /// Derives it. An open message decides before a finished one, and what somebody is asked before that. `ended`: the
    /// newest input ends the task.
    #[must_use]
    pub fn derive(messages: &[TaskMessage], ended: bool) -> Self {
        let asks = |one: &&TaskMessage| one.waiting().next().is_some();
        if let Some(first) = messages
            .iter()
            .find(asks)
            .and_then(|one| one.waiting().next())
        {
            let theirs = |one: &TaskMessage| {
                let tier = one.message.tier;
                one.waiting().any(|request| request.sender_may(tier))
            };
            return Self::Asking {
                input: !first.wants.is_bare(),
                sender: messages.iter().any(theirs),
            };
        }
        let Some(at) = present_at(messages) else {
            return if ended {
                Self::Ended
            } else {
                Self::Queued { begun: false }
            };
        };
        let Some(present) = messages.get(at) else {
            return Self::Queued { begun: false };
        };
        let begun = present.message.life.attempt > 0;
        match &present.message.life.state {
            MessageState::Received { .. } => {
                let earlier = messages.iter().take(at);
                let before = earlier.map(|one| one.message.life.attempt).any(|n| n > 0);
                Self::Queued {
                    begun: begun || before,
                }
            }
            MessageState::Claimed | MessageState::Starting => Self::Starting,
            MessageState::Running { .. } | MessageState::Steered { .. } => Self::Running,
            MessageState::Unclear { .. } => Self::Unclear,
            MessageState::Parked { .. } => Self::Parked,
            MessageState::Answered | MessageState::Sending | MessageState::Done => {
                present.answered(ended)
            }
            // An answer that could not be delivered can be read all the same.
            MessageState::Dead { .. } if present.answer.is_some() => present.answered(ended),
            MessageState::Dead { .. } => Self::Failed { begun },
            // Taken over as failed: it is no dead letter, because nothing is left of it that could be sent again.
            MessageState::Cancelled { .. } if present.message.failed_elsewhere() => {
                Self::Failed { begun: true }
            }
            MessageState::Cancelled { .. } => Self::Cancelled,
        }
    }

    /// A2A's state.
    #[must_use]
    pub fn a2a(self) -> A2aState {
        match self {
            Self::Queued { begun: false } => A2aState::Submitted,
            Self::Queued { begun: true } | Self::Starting | Self::Running | Self::Unclear => {
                A2aState::Working
            }
            Self::Parked | Self::Asking { sender: false, .. } => A2aState::AuthRequired,
            Self::Asking { sender: true, .. } | Self::Answered(Outcome::Asks) => {
                A2aState::InputRequired
            }
            Self::Answered(Outcome::Done | Outcome::Says) => A2aState::Completed,
            Self::Answered(Outcome::Refuses) | Self::Failed { begun: false } => A2aState::Rejected,
            Self::Failed { begun: true } => A2aState::Failed,
            Self::Cancelled | Self::Ended => A2aState::Canceled,
        }
    }

    /// The status of the control surfaces: an answer that asks back completes a task there.
    #[must_use]
    pub fn control(self) -> ControlStatus {
        match self {
            Self::Queued { .. } => ControlStatus::Queued,
            Self::Starting => ControlStatus::Starting,
            Self::Running => ControlStatus::Working,
            Self::Unclear => ControlStatus::Unclear,
            Self::Parked => ControlStatus::Parked,
            Self::Asking { input: false, .. } => ControlStatus::WaitingForApproval,
            Self::Asking { input: true, .. } => ControlStatus::WaitingForUserInput,
            Self::Answered(_) => ControlStatus::Completed,
            Self::Failed { .. } => ControlStatus::Failed,
            Self::Cancelled | Self::Ended => ControlStatus::Cancelled,
        }
    }
}

/// The message that decides the state: the first without an answer, else the last.
pub(super) fn present_at(messages: &[TaskMessage]) -> Option<usize> {
    let open = |one: &TaskMessage| one.message.life.state.name().awaits_answer();
    let open = messages.iter().position(open);
    open.or(messages.len().checked_sub(1))
}

/// The phase of a task: that of its present message, unless somebody is asked anything for one of them.
#[must_use]
pub fn phase(messages: &[TaskMessage]) -> Phase {
    let asked = messages.iter().any(|one| one.waiting().next().is_some());
    let present = present_at(messages).and_then(|at| messages.get(at));
    present.map_or(Phase::Queued, |one| Phase::of_message(&one.message, asked))
}

impl TaskMessage {
    /// An answer says itself what it is. Only a task that waits for the next input can be ended.
    fn answered(&self, ended: bool) -> TaskState {
        let outcome = self
            .answer
            .as_ref()
            .map_or(Outcome::Done, |answer| outcome::read(&answer.text).0);
        if ended && outcome == Outcome::Asks {
            TaskState::Ended
        } else {
            TaskState::Answered(outcome)
        }
    }
}

impl A2aState {
    /// Whether nothing more happens to the task.
    #[must_use]
    pub fn terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Whether it waits for somebody.
    #[must_use]
    pub fn interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

// In stored marks and in texts for people.
words!(A2aState {
    Submitted => "submitted",
    Working => "working",
    InputRequired => "input-required",
    AuthRequired => "auth-required",
    Completed => "completed",
    Failed => "failed",
    Canceled => "canceled",
    Rejected => "rejected",
});

// In the JSON envelopes.
words!(ControlStatus {
    Queued => "queued",
    Starting => "starting",
    Working => "working",
    WaitingForApproval => "waiting_for_approval",
    WaitingForUserInput => "waiting_for_user_input",
    Parked => "parked",
    Unclear => "unclear",
    Completed => "completed",
    Failed => "failed",
    Cancelled => "cancelled",
});

impl ControlStatus {
    /// Whether nothing more comes of the task by itself.
    #[must_use]
    pub fn over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
