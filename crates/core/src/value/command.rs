//! A chat command: a text that is meant for the bridge, not for Codex, and is taken at the door.

/// Longest code of a question that is read.
const CODE_MAX_CHARS: usize = 40;

/// What a person or a peer may tell the bridge in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The next message begins a new conversation.
    New,
    /// Stop what runs and what waits in this conversation.
    Stop,
    /// Say what runs and what waits.
    Status,
    /// Yes to a question of Codex.
    Approve {
        /// Which.
        code: String,
    },
    /// No to a question of Codex.
    Decline {
        /// Which.
        code: String,
    },
}

impl Command {
    /// Reads a whole text as a command. Anything beside it makes it a text for Codex.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let verb = words.next()?.to_ascii_lowercase();
        let code = words.next();
        if words.next().is_some() {
            return None;
        }
        match (verb.as_str(), code) {
            ("/new", None) => Some(Self::New),
            ("/stop", None) => Some(Self::Stop),
            ("/status", None) => Some(Self::Status),
            ("approve" | "/approve", Some(code)) => Some(Self::Approve {
                code: read_code(code)?,
            }),
            ("decline" | "/decline", Some(code)) => Some(Self::Decline {
                code: read_code(code)?,
            }),
            _ => None,
        }
    }
}

/// A code has a digit in it, so that "approve it" stays a text.
fn read_code(code: &str) -> Option<String> {
    let fits = code.len() <= CODE_MAX_CHARS
        && code.chars().any(|c| c.is_ascii_digit())
        && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    fits.then(|| code.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_text_is_a_command() {
        assert_eq!(Command::read(" /New\n"), Some(Command::New));
        assert_eq!(Command::read("/stop"), Some(Command::Stop));
        assert_eq!(Command::read("/STATUS "), Some(Command::Status));
        let code = "K7-QX".to_owned();
        assert_eq!(
            Command::read("approve k7-qx"),
            Some(Command::Approve { code: code.clone() })
        );
        assert_eq!(
            Command::read("/decline K7-QX"),
            Some(Command::Decline { code })
        );
        for text in [
            "",
            "/",
            "new",
            "/new please",
            "/stop it now",
            "approve",
            "approve it",
            "approve K7 now",
            "decline this",
            "approve ../7",
            "please /stop",
        ] {
            assert_eq!(Command::read(text), None, "{text:?}");
        }
    }
}
