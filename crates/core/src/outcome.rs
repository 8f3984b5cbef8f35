//! What Codex says about its own answer to another agent, on a line of its own at the end of it.

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was asked for. It need not be said, but an answer that is nothing beside its files has no other words.
    Done,
    /// A question back: it goes on with the next word.
    Asks,
    /// A refusal.
    Refuses,
    /// A plain reply: nothing was worked on.
    Says,
}

impl Outcome {
    /// Those that are said.
    pub const SAID: [Self; 4] = [Self::Done, Self::Asks, Self::Refuses, Self::Says];

    /// The line that says so.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::Done => "[completed]",
            Self::Asks => "[input-required]",
            Self::Refuses => "[rejected]",
            Self::Says => "[message]",
        }
    }
}

/// What an answer is, and the answer without the line that says so.
#[must_use]
pub fn read(answer: &str) -> (Outcome, &str) {
    let trimmed = answer.trim_end();
    let (before, last) = trimmed.rsplit_once('\n').unwrap_or(("", trimmed));
    match Outcome::SAID
        .into_iter()
        .find(|outcome| outcome.line() == last.trim())
    {
        Some(outcome) => (outcome, before.trim_end()),
        None => (Outcome::Done, answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_marks_answer_outcome() {
        assert_eq!(
            read("Which one?\n[input-required]\n"),
            (Outcome::Asks, "Which one?")
        );
        assert_eq!(read("No.\n\n [rejected]"), (Outcome::Refuses, "No."));
        assert_eq!(read("Hello\n[message]"), (Outcome::Says, "Hello"));
        assert_eq!(read("[message]"), (Outcome::Says, ""));
        assert_eq!(read("[completed]"), (Outcome::Done, ""));
        for plain in [
            "done",
            "use [rejected] here",
            "[rejected]\nnot at the end",
            "",
        ] {
            assert_eq!(read(plain), (Outcome::Done, plain));
        }
    }
}
