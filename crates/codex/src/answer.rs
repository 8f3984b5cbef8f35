//! Which of a turn's agent messages is the answer. One rule, for live turns and for history.
//!
//! Codex may say several things in one turn. Only the caller that knows how the turn ended can
//! choose, so candidates are gathered first and picked at the end.

use crate::wire::item::{AgentMessage, Item};
use crate::wire::values::{MessagePhase, TurnStatus};

/// Answers to earlier texts of one turn that are kept; a turn is not given more texts than that.
const EARLIER_MAX: usize = 32;

/// Candidates for the answer of a turn. A turn can be given more texts while it runs: each begins a part of its own,
/// and what was answered in an earlier part is part of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    earlier: Vec<String>,
    part: AnswerPart,
}

/// The latest message of each rank since the last text; older ones are let go, so a long turn costs three texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct AnswerPart {
    marked_final: Option<String>,
    unmarked: Option<String>,
    partial: Option<String>,
    /// The unmarked message was the last thing that Codex did.
    at_end: bool,
}

impl AnswerPart {
    fn best(&self) -> Option<&String> {
        self.marked_final
            .as_ref()
            .or(self.unmarked.as_ref())
            .or(self.partial.as_ref())
    }

    /// The answer before the next text. A message between two tools is no answer.
    fn closed(self) -> Option<String> {
        let unmarked = self.unmarked.filter(|_| self.at_end);
        self.marked_final.or(unmarked)
    }
}

impl Candidates {
    /// Takes in a completed item. The same message twice changes nothing.
    pub(crate) fn consider(&mut self, item: &Item) {
        match item {
            Item::UserMessage(_) => self.next_part(),
            Item::AgentMessage(message) => self.part.message(message),
            _ => self.part.at_end = false,
        }
    }

    fn next_part(&mut self) {
        let answered = std::mem::take(&mut self.part).closed();
        self.earlier.extend(answered);
        self.earlier.truncate(EARLIER_MAX);
    }

    /// A completed turn's answer is its last final message, else its last unmarked one, else the last part of one;
    /// what it answered before it was given another text stands before it. A turn that was cut has an answer only
    /// if Codex marked it as final, and nothing that it was given after that is open.
    pub(crate) fn pick(&self, status: &TurnStatus) -> Option<String> {
        let last = match status {
            TurnStatus::Completed => self.part.best(),
            TurnStatus::Interrupted
            | TurnStatus::Failed
            | TurnStatus::InProgress
            | TurnStatus::Other(_) => Some(self.part.marked_final.as_ref()?),
        };
        let said: Vec<&str> = self
            .earlier
            .iter()
            .chain(last)
            .map(String::as_str)
            .collect();
        (!said.is_empty()).then(|| said.join("\n\n"))
    }
}

impl AnswerPart {
    fn message(&mut self, message: &AgentMessage) {
        self.at_end = true;
        let rank = match &message.phase {
            Some(MessagePhase::FinalAnswer) => &mut self.marked_final,
            None | Some(MessagePhase::Other(_)) => &mut self.unmarked,
            Some(MessagePhase::PartialAnswer) => &mut self.partial,
            Some(MessagePhase::Commentary) => return,
        };
        *rank = Some(message.text.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::ItemId;

    fn candidates(messages: &[(&str, Option<MessagePhase>)]) -> Candidates {
        let mut candidates = Candidates::default();
        for (text, phase) in messages {
            candidates.part.message(&AgentMessage {
                id: ItemId::new(*text),
                text: (*text).to_owned(),
                phase: phase.clone(),
            });
        }
        candidates
    }

    fn picked(candidates: &Candidates, status: TurnStatus) -> Option<String> {
        candidates.pick(&status)
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

    /// What a turn said before and after it was given a second text.
    fn given(
        before: &[(&str, Option<MessagePhase>)],
        after: &[(&str, Option<MessagePhase>)],
    ) -> Candidates {
        let mut first = candidates(before);
        first.next_part();
        Candidates {
            part: candidates(after).part,
            ..first
        }
    }

    #[test]
    fn answer_before_steering_is_kept() {
        let last = Some(MessagePhase::FinalAnswer);
        for phase in [None, last.clone()] {
            let both = given(&[("first", phase)], &[("second", None)]);
            let said = picked(&both, TurnStatus::Completed);
            assert_eq!(said.as_deref(), Some("first\n\nsecond"));
        }
        let both = given(&[("first", last.clone())], &[("second", last.clone())]);
        let said = picked(&both, TurnStatus::Interrupted);
        assert_eq!(said.as_deref(), Some("first\n\nsecond"));
        let nothing_more = given(&[("first", last)], &[]);
        let said = picked(&nothing_more, TurnStatus::Completed);
        assert_eq!(said.as_deref(), Some("first"));
    }

    #[test]
    fn cut_turn_leaves_open_text_unanswered() {
        let last = Some(MessagePhase::FinalAnswer);
        let cut = given(
            &[("first", last)],
            &[("hm", Some(MessagePhase::Commentary))],
        );
        assert_eq!(picked(&cut, TurnStatus::Interrupted), None);
        assert_eq!(picked(&cut, TurnStatus::Failed), None);
    }

    #[test]
    fn text_between_tools_is_no_answer() {
        let mut said = candidates(&[("I look first", None)]);
        said.part.at_end = false;
        said.next_part();
        said.part = candidates(&[("second", None)]).part;
        assert_eq!(
            picked(&said, TurnStatus::Completed).as_deref(),
            Some("second")
        );
    }
}
