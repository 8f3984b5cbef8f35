//! How a task stands, derived from its messages and what Codex asks: one word that other agents know, and a few ours.

use super::rows::{MessageRows, TaskRows};
use bridge_core::value::MessageState;

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
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
    /// It was cut, and a person must say how it goes on.
    Parked,
    /// Its turn's end was not seen; what became of it is being found out.
    Unclear,
    /// It has its answer.
    Completed,
    /// It was given up.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl Standing {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Working => "working",
            Self::WaitingForApproval => "waiting_for_approval",
            Self::WaitingForUserInput => "waiting_for_user_input",
            Self::Parked => "parked",
            Self::Unclear => "unclear",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more comes of it by itself.
    pub(crate) fn over(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Queued
            | Self::Starting
            | Self::Working
            | Self::WaitingForApproval
            | Self::WaitingForUserInput
            | Self::Parked
            | Self::Unclear => false,
        }
    }
}

impl TaskRows {
    /// The message that says how the task stands: the first without an answer, else the last.
    pub(super) fn present(&self) -> Option<&MessageRows> {
        let open = |rows: &&MessageRows| rows.message.life.state.name().awaits_answer();
        self.messages.iter().find(open).or(self.messages.last())
    }

    pub(crate) fn standing(&self) -> Standing {
        if let Some(request) = self.asked.first() {
            return if request.wants.is_bare() {
                Standing::WaitingForApproval
            } else {
                Standing::WaitingForUserInput
            };
        }
        let Some(present) = self.present() else {
            return Standing::Queued;
        };
        match present.message.life.state {
            MessageState::Received { .. } => Standing::Queued,
            MessageState::Claimed | MessageState::Starting => Standing::Starting,
            MessageState::Running { .. } | MessageState::Steered { .. } => Standing::Working,
            MessageState::Unclear { .. } => Standing::Unclear,
            MessageState::Parked { .. } => Standing::Parked,
            MessageState::Answered | MessageState::Sending | MessageState::Done => {
                Standing::Completed
            }
            // An answer that could not be delivered is an answer.
            MessageState::Dead { .. } if present.answer.is_some() => Standing::Completed,
            MessageState::Dead { .. } => Standing::Failed,
            MessageState::Cancelled { .. } => Standing::Cancelled,
        }
    }
}
