//! The shape of a conversation: all that is taken of it.

use crate::self_check::Decision;
use bridge_core::value::{ApprovalPolicy, Sandbox};

/// Conversations that are replayed unless more are asked for.
pub const CONVERSATIONS_DEFAULT: u32 = 20;
/// And at most.
pub const CONVERSATIONS_MAX: u32 = 100;
/// Turns of one conversation, its newest.
pub const TURNS_MAX: usize = 20;
/// Commands of one turn.
pub const COMMANDS_MAX: u32 = 20;
/// Characters of a replayed text.
const TEXT_MAX: usize = 64 * 1024;
/// What a replayed text consists of.
const FILLER: &str = "lorem ipsum ";

/// A conversation without its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationShape {
    pub sandbox: Sandbox,
    pub approval_policy: ApprovalPolicy,
    pub turns: Vec<TurnShape>,
}

/// A turn without its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnShape {
    pub text_chars: usize,
    pub answer_chars: usize,
    /// Commands that ran without being asked about.
    pub commands: u32,
    /// What was asked, and how it was decided.
    pub asked: Vec<Decision>,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// A text of this length that begins with a name.
pub(super) fn filler(name: &str, chars: usize) -> String {
    let mut text = format!("{name} ");
    let missing = chars.min(TEXT_MAX).saturating_sub(text.chars().count());
    text.extend(FILLER.chars().cycle().take(missing));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filler_has_the_length_of_the_text() {
        assert_eq!(filler("a", 20), "a lorem ipsum lorem ");
        assert_eq!(filler("name", 1), "name ");
        assert_eq!(filler("a", 10_000_000).len(), TEXT_MAX);
    }
}
