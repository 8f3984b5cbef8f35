//! Whose work an approval request is about, in words for people. Every surface shows what this says, so that a request
//! that a stranger caused never looks like one of the owner's own.

use crate::channels::{A2A, LOCAL, TASK, is_of_tokens};
use crate::limits::clip;
use crate::show::{effect_line, without_paths};
use crate::value::{Message, Request, RequestKind, Tier};

/// Sender of everything that comes in over the private socket. It holds a blank, so no token can have this name.
pub const LOCAL_OWNER: &str = "local owner";
/// Sender of what the owner says at a Codex terminal, while a conversation is lent to it.
pub const AT_TERMINAL: &str = "local owner at a terminal";
/// Begins the names of people who come in over the socket of a group. The blank keeps them apart from tokens.
pub const GROUP_USER: &str = "user ";
/// Sender of what comes in over A2A without a token. No token has this name.
pub const ANONYMOUS: &str = "anonymous";

/// Begins the id of a channel that is a Molecule workspace; the rest names the workspace.
const MOLECULE: &str = "molecule:";
/// Sender of what is written on the canvas of a Molecule workspace.
const CANVAS: &str = "canvas";

/// Longest name that is shown; those of tokens and workspaces are shorter.
const NAME_MAX_CHARS: usize = 64;

/// Whether the caller of this name sent it. A sender of the same name on a platform is somebody else.
#[must_use]
pub fn sent_by(message: &Message, caller: &str) -> bool {
    is_of_tokens(&message.channel) && message.sender == caller
}

/// Whether the person at this machine sent it.
#[must_use]
pub fn is_local_owner(message: &Message) -> bool {
    sent_by(message, LOCAL_OWNER)
}

/// Whether the sender may read paths of this machine: the owner, at this machine or elsewhere.
#[must_use]
pub fn may_see_paths(message: &Message) -> bool {
    message.tier == Tier::Owner || is_local_owner(message)
}

/// A text of the bridge for the sender of a message. Where our files are is for the owner alone.
#[must_use]
pub fn for_sender(message: &Message, text: &str) -> String {
    if may_see_paths(message) {
        text.to_owned()
    } else {
        without_paths(text)
    }
}

/// What is decided, for a sender who does not decide it: no more than what kind of thing it is where they may not
/// read paths, because commands and files name them.
#[must_use]
pub fn subject(message: &Message, request: &Request) -> String {
    if may_see_paths(message) {
        return request.headline.clone();
    }
    match &request.kind {
        RequestKind::Command => "whether a command may run",
        RequestKind::FileChange => "whether files may change",
        RequestKind::Permissions => "whether the turn may have more permissions",
        RequestKind::UserInput => "a question to the user",
        RequestKind::Elicitation => "a form of an MCP server",
        RequestKind::McpTool => "whether a tool of an MCP server may run",
        RequestKind::ToolCall | RequestKind::Other(_) => "whether a tool may be used",
    }
    .to_owned()
}

/// Who sent a message: `you` for the local owner, else who it is, over which channel and with which tier.
#[must_use]
pub fn requester(message: &Message) -> String {
    if message.sender == AT_TERMINAL && message.tier == Tier::Owner {
        return "you, at a Codex terminal".to_owned();
    }
    if is_local_owner(message) {
        return "you".to_owned();
    }
    let tier = message.tier.as_str();
    let name = quoted(&message.sender);
    match (message.channel.as_str(), message.sender.as_str()) {
        (LOCAL, sender) if sender.starts_with(GROUP_USER) => {
            let user = quoted(sender.trim_start_matches(GROUP_USER));
            format!("user {user} (group, tier {tier})")
        }
        (LOCAL, _) => format!("token {name} (HTTP, tier {tier})"),
        (TASK, _) => format!("token {name} (task, tier {tier})"),
        (A2A, ANONYMOUS) => format!("an agent without a token (A2A, tier {tier})"),
        (A2A, _) => format!("peer {name} (A2A, tier {tier})"),
        (channel, sender) => match channel.strip_prefix(MOLECULE) {
            Some(workspace) if sender == CANVAS => {
                let workspace = quoted(workspace);
                format!("canvas of workspace {workspace} (Molecule, tier {tier})")
            }
            Some(_) => format!("peer workspace {name} (Molecule, tier {tier})"),
            None => format!("sender {name} (channel {}, tier {tier})", quoted(channel)),
        },
    }
}

/// A name that stays one name: in quotes where it could pass for words of ours, and short.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let shown = clip(&effect_line(name), NAME_MAX_CHARS);
    if !shown.is_empty() && shown.chars().all(plain) {
        shown
    } else {
        format!("\"{}\"", shown.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::value::{ChannelId, MessageState};

    fn of(channel: &str, sender: &str, tier: Tier) -> String {
        let mut message = fixture::message(MessageState::Received { hold: None }, |_| {});
        message.channel = ChannelId::new(channel);
        message.sender = sender.to_owned();
        message.tier = tier;
        requester(&message)
    }

    #[test]
    fn f7_every_channel_names_its_sender() {
        for (channel, sender, tier, says) in [
            ("local", "local owner", Tier::Owner, "you"),
            ("task", "local owner", Tier::Tool, "you"),
            ("a2a", "local owner", Tier::Owner, "you"),
            ("local", "ci", Tier::Tool, "token ci (HTTP, tier tool)"),
            (
                "local",
                "user ada",
                Tier::Tool,
                "user ada (group, tier tool)",
            ),
            (
                "local",
                "root",
                Tier::Owner,
                "token root (HTTP, tier owner)",
            ),
            ("task", "ci", Tier::Tool, "token ci (task, tier tool)"),
            (
                "a2a",
                "mallory",
                Tier::Peer,
                "peer mallory (A2A, tier peer)",
            ),
            (
                "a2a",
                "anonymous",
                Tier::Peer,
                "an agent without a token (A2A, tier peer)",
            ),
            (
                "molecule:w-1",
                "canvas",
                Tier::Owner,
                "canvas of workspace w-1 (Molecule, tier owner)",
            ),
            (
                "molecule:w-1",
                "w-2",
                Tier::Peer,
                "peer workspace w-2 (Molecule, tier peer)",
            ),
            (
                "chat",
                "ann",
                Tier::Peer,
                "sender ann (channel chat, tier peer)",
            ),
        ] {
            assert_eq!(of(channel, sender, tier), says);
        }
    }

    #[test]
    fn f7_a_name_passes_for_nobody_else() {
        for sender in [
            "local owner",
            "you",
            "ann (channel local, tier owner)",
            "ann\n│ for you",
            "ann\" (Molecule, tier owner), \"",
            "y\u{43e}u",
            "\u{202e}uoy",
            "",
            &"x".repeat(5_000),
        ] {
            let said = of("chat", sender, Tier::Peer);
            assert!(said.starts_with("sender "), "{said}");
            assert!(said.ends_with(" (channel chat, tier peer)"), "{said}");
            assert!(!said.contains(['\n', '\u{202e}', '\u{43e}']), "{said}");
            assert!(said.chars().count() < 2 * NAME_MAX_CHARS + 60, "{said}");
        }
        assert_eq!(
            of("chat", "ann\", \"bob", Tier::Peer),
            "sender \"ann\\\", \\\"bob\" (channel chat, tier peer)"
        );
        assert_ne!(of("chat", "local owner", Tier::Owner), "you");
        assert_ne!(of("molecule:w", "local owner", Tier::Owner), "you");
    }
}
