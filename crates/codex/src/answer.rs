//! Which of a turn's agent messages is the answer. One rule, for live turns and for history.
//!
//! Codex may say several things in one turn. Only the caller that knows how the turn ended can
//! choose, so candidates are gathered first and picked at the end.

use crate::wire::ids::ItemId;
use crate::wire::item::AgentMessage;
use crate::wire::values::{MessagePhase, TurnStatus};

/// What Codex said, as an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentText {
    pub item_id: ItemId,
    pub text: String,
    pub phase: Option<MessagePhase>,
}

/// The latest message of each rank; older ones are let go, so a long turn costs three texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    marked_final: Option<AgentText>,
    unmarked: Option<AgentText>,
    partial: Option<AgentText>,
}

impl Candidates {
    /// Takes in a completed message. The same message twice changes nothing.
    pub(crate) fn consider(&mut self, message: &AgentMessage) {
        let rank = match &message.phase {
            Some(MessagePhase::FinalAnswer) => &mut self.marked_final,
            None | Some(MessagePhase::Other(_)) => &mut self.unmarked,
            Some(MessagePhase::PartialAnswer) => &mut self.partial,
            Some(MessagePhase::Commentary) => return,
        };
        *rank = Some(AgentText {
            item_id: message.id.clone(),
            text: message.text.clone(),
            phase: message.phase.clone(),
        });
    }

    /// A completed turn's answer is its last final message, else its last unmarked one, else the
    /// last part of one. A turn that was cut has an answer only if Codex marked it as final.
    pub(crate) fn pick(&self, status: &TurnStatus) -> Option<AgentText> {
        match status {
            TurnStatus::Completed => self
                .marked_final
                .as_ref()
                .or(self.unmarked.as_ref())
                .or(self.partial.as_ref())
                .cloned(),
            TurnStatus::Interrupted
            | TurnStatus::Failed
            | TurnStatus::InProgress
            | TurnStatus::Other(_) => self.marked_final.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(messages: &[(&str, Option<MessagePhase>)]) -> Candidates {
        let mut candidates = Candidates::default();
        for (text, phase) in messages {
            candidates.consider(&AgentMessage {
                id: ItemId::from(*text),
                text: (*text).to_owned(),
                phase: phase.clone(),
            });
        }
        candidates
    }

    fn picked(candidates: &Candidates, status: TurnStatus) -> Option<String> {
        candidates.pick(&status).map(|answer| answer.text)
    }

    #[test]
    fn the_final_message_wins_over_whatever_follows() {
        let said = candidates(&[
            ("a", Some(MessagePhase::Commentary)),
            ("b", Some(MessagePhase::FinalAnswer)),
            ("c", None),
            ("d", Some(MessagePhase::Commentary)),
        ]);
        assert_eq!(picked(&said, TurnStatus::Completed).as_deref(), Some("b"));
        assert_eq!(picked(&said, TurnStatus::Interrupted).as_deref(), Some("b"));
    }

    #[test]
    fn unmarked_messages_answer_completed_turns_only() {
        let said = candidates(&[
            ("a", None),
            ("b", None),
            ("c", Some(MessagePhase::Commentary)),
        ]);
        assert_eq!(picked(&said, TurnStatus::Completed).as_deref(), Some("b"));
        assert_eq!(picked(&said, TurnStatus::Interrupted), None);
        assert_eq!(picked(&said, TurnStatus::Failed), None);
        assert_eq!(picked(&said, TurnStatus::Other("paused".to_owned())), None);
    }

    #[test]
    fn commentary_alone_is_no_answer() {
        let said = candidates(&[("a", Some(MessagePhase::Commentary))]);
        assert_eq!(picked(&said, TurnStatus::Completed), None);
        assert_eq!(Candidates::default().pick(&TurnStatus::Completed), None);
    }
}
