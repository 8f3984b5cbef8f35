//! What runs over `codex exec`: decided here by channel and conversation, from the configuration and never from a text.

use crate::Settings;
use crate::turn::follow::Patience;
use bridge_core::port::TurnTransport;
use bridge_core::step::MidTurn;
use bridge_core::value::{ChannelId, Tier};
use std::time::Duration;

/// Which turns run over `codex exec`, and how long they may take.
#[derive(Clone, Debug, Default)]
pub struct ExecSettings {
    pub timeout: Duration,
    /// Channels by their ids, or whole kinds of them: what stands before the `:`.
    pub channels: Vec<String>,
    /// Keys of conversations; a `*` at the end stands for whatever follows.
    pub conversations: Vec<String>,
}

impl ExecSettings {
    fn holds(&self, channel: &ChannelId, key: &str) -> bool {
        let kind = channel.as_str().split(':').next().unwrap_or_default();
        let whole = self
            .channels
            .iter()
            .any(|exec| exec == kind || exec == channel.as_str());
        whole
            || self
                .conversations
                .iter()
                .any(|pattern| match pattern.strip_suffix('*') {
                    Some(beginning) => key.starts_with(beginning),
                    None => key == pattern,
                })
    }
}

impl Settings {
    /// With these channels over `codex exec` too.
    pub(crate) fn over_exec(mut self, channels: impl Iterator<Item = ChannelId>) -> Self {
        let channels = channels.map(|channel| channel.to_string());
        self.exec.channels.extend(channels);
        self
    }

    /// Which program of Codex runs the turns of a conversation.
    pub(crate) fn transport(&self, channel: &ChannelId, key: &str) -> TurnTransport {
        if self.exec.holds(channel, key) {
            TurnTransport::Exec
        } else {
            TurnTransport::AppServer
        }
    }

    /// How long a turn may take. A run says nothing while its model writes, so its silence means nothing.
    pub(crate) fn patience(&self, transport: TurnTransport) -> Patience {
        match transport {
            TurnTransport::AppServer => Patience {
                timeout: self.turn_timeout,
                idle: self.turn_idle,
            },
            TurnTransport::Exec => Patience {
                timeout: self.exec.timeout,
                idle: self.exec.timeout.saturating_mul(2),
            },
        }
    }

    /// What happens to a message that arrives mid-turn. A run takes no more text, so there it waits.
    pub(crate) fn mid_turn(&self, tier: Tier, channel: &ChannelId, key: &str) -> MidTurn {
        match self.transport(channel, key) {
            TurnTransport::AppServer => self.tier(tier).mid_turn,
            TurnTransport::Exec => MidTurn::Queue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_matches_channel_or_conversation_key() {
        let exec = ExecSettings {
            timeout: Duration::from_secs(1),
            channels: vec!["molecule".to_owned()],
            conversations: vec!["nightly".to_owned(), "ops/*".to_owned()],
        };
        let holds = |channel: &str, key: &str| exec.holds(&ChannelId::new(channel), key);
        assert!(holds("molecule:ws-1", "anything"));
        assert!(!holds("molecules", "anything"));
        assert!(holds("local", "nightly") && holds("local", "ops/disk"));
        assert!(!holds("local", "nightly2") && !holds("local", "op"));
        let all = ExecSettings {
            conversations: vec!["*".to_owned()],
            ..ExecSettings::default()
        };
        assert!(all.holds(&ChannelId::new("local"), "main"));
    }
}
