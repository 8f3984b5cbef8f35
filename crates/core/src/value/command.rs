//! A chat command: a text that is meant for the bridge, not for Codex, and is taken at the door.
//!
//! Whether whoever wrote it may do that is decided in [`crate::step`]; here it is only read.

/// Characters of the code that stands for an approval request in a chat.
const CODE_CHARS: usize = 6;

/// What a person may tell the bridge in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The next message begins a new conversation.
    New,
    /// Stop what runs and what waits in this conversation.
    Stop,
    /// Say what runs and what waits.
    Status,
    /// Let Codex do what it asks for, or not.
    Decide {
        /// Which approval request.
        code: String,
        /// Whether it may.
        accept: bool,
    },
    /// Answer an approval request of Codex.
    Answer {
        /// Which approval request.
        code: String,
        /// With what.
        text: String,
    },
}

impl Command {
    /// Reads a whole text as a command. Anything beside it makes it a text for Codex.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "/new" => Some(Self::New),
            "/stop" => Some(Self::Stop),
            "/status" => Some(Self::Status),
            _ => Self::read_word(text),
        }
    }

    /// Reads only what is said to an approval request of Codex: for channels that have no other commands.
    #[must_use]
    pub fn read_word(text: &str) -> Option<Self> {
        Self::read_decision(text).or_else(|| Self::read_answer(text))
    }

    /// Reads only the answer to a user-input request: all that an agent may say to the bridge. An approval is none.
    #[must_use]
    pub fn read_answer(text: &str) -> Option<Self> {
        let (verb, rest) = text.trim().split_once(char::is_whitespace)?;
        if !verb_is(verb, "answer") {
            return None;
        }
        let (code, text) = rest.trim_start().split_once(char::is_whitespace)?;
        let text = text.trim();
        (!text.is_empty()).then_some(())?;
        Some(Self::Answer {
            code: read_code(code)?,
            text: text.to_owned(),
        })
    }

    fn read_decision(text: &str) -> Option<Self> {
        let text = text.trim();
        let bare = text
            .strip_prefix('`')
            .and_then(|text| text.strip_suffix('`'));
        let mut words = bare.unwrap_or(text).split_whitespace();
        let (verb, code) = (words.next()?, words.next()?);
        let accept = match verb {
            verb if verb_is(verb, "approve") => true,
            verb if verb_is(verb, "decline") => false,
            _ => return None,
        };
        match words.next() {
            None => Some(Self::Decide {
                code: read_code(code)?,
                accept,
            }),
            Some(_) => None,
        }
    }
}

fn verb_is(word: &str, verb: &str) -> bool {
    word.strip_prefix('/')
        .unwrap_or(word)
        .eq_ignore_ascii_case(verb)
}

/// A code as people type it: the letters that Crockford's alphabet leaves out stand for the digits they look like.
fn read_code(word: &str) -> Option<String> {
    let looks_like_one =
        word.len() == CODE_CHARS && word.chars().all(|c| c.is_ascii_alphanumeric());
    looks_like_one.then(|| {
        word.chars()
            .map(|c| match c.to_ascii_lowercase() {
                'o' => '0',
                'i' | 'l' => '1',
                c => c,
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_text_is_a_command() {
        assert_eq!(Command::read(" /New\n"), Some(Command::New));
        assert_eq!(Command::read("/stop"), Some(Command::Stop));
        assert_eq!(Command::read("/STATUS "), Some(Command::Status));
        for text in [
            "",
            "/",
            "new",
            "/new please",
            "/stop it now",
            "please /stop",
            "/ stop",
            "approve",
            "approve it now",
            "approve k3v9q",
            "approve k3v9qa1",
            "approve k3v9qa please",
            "please approve k3v9qa",
            "approved k3v9qa",
            "approve k3v9q\u{e4}",
            "answer k3v9qa",
            "answer k3v9qa   ",
            "answer the question",
        ] {
            assert_eq!(Command::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn parses_approval_commands_with_request_code() {
        let decide = |code: &str, accept| {
            Some(Command::Decide {
                code: code.to_owned(),
                accept,
            })
        };
        for text in [
            "approve k3v9qa",
            " /approve K3V9QA\n",
            "APPROVE  k3v9qa",
            "`approve k3v9qa`",
        ] {
            assert_eq!(Command::read(text), decide("k3v9qa", true), "{text:?}");
        }
        assert_eq!(Command::read("/Decline 0O1ilx"), decide("00111x", false));
        let answer = Command::Answer {
            code: "k3v9qa".to_owned(),
            text: "the red one,\nplease".to_owned(),
        };
        let text = "Answer k3v9qa the red one,\nplease ";
        assert_eq!(Command::read(text), Some(answer.clone()));
        assert_eq!(Command::read_answer(text), Some(answer));
    }

    /// All that an agent writes is data, but for the answer to what it is asked itself.
    #[test]
    fn agent_text_never_parses_as_approval() {
        for text in ["approve k3v9qa", "/decline k3v9qa", "/stop", "/new"] {
            assert_eq!(Command::read_answer(text), None, "{text:?}");
        }
    }
}
