//! A chat command: a text that is meant for the bridge, not for Codex, and is taken at the door.

/// What a person may tell the bridge in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The next message begins a new conversation.
    New,
    /// Stop what runs and what waits in this conversation.
    Stop,
    /// Say what runs and what waits.
    Status,
}

impl Command {
    /// Reads a whole text as a command. Anything beside it makes it a text for Codex.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "/new" => Some(Self::New),
            "/stop" => Some(Self::Stop),
            "/status" => Some(Self::Status),
            _ => None,
        }
    }
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
        ] {
            assert_eq!(Command::read(text), None, "{text:?}");
        }
    }
}
