//! What runs over `codex exec`: decided here by channel and conversation, from the configuration and never from a text.

use super::Settings;
use crate::turn::follow::Patience;
use bridge_core::port::TurnTransport;
use bridge_core::step::MidTurn;
use bridge_core::value::{ChannelId, Tier};
use std::time::Duration;

/// Whether a conversation is named by `exec.conversations` or its channel by `channels`.
fn runs_over_exec(channels: &[String], keys: &[String], channel: &ChannelId, key: &str) -> bool {
    let kind = channel.as_str().split(':').next().unwrap_or_default();
    let whole = |exec: &String| exec == kind || exec == channel.as_str();
    // A `*` at the end stands for any rest.
    let matches = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == pattern,
    };
    channels.iter().any(whole) || keys.iter().any(matches)
}

impl Settings {
    #[must_use]
    pub(crate) fn with_exec_channels(mut self, channels: impl Iterator<Item = ChannelId>) -> Self {
        self.exec_channels
            .extend(channels.map(|channel| channel.to_string()));
        self
    }

    /// Which program of Codex runs the turns of a conversation.
    pub(crate) fn transport(&self, channel: &ChannelId, key: &str) -> TurnTransport {
        let keys = &self.config.exec.conversations;
        if runs_over_exec(&self.exec_channels, keys, channel, key) {
            TurnTransport::Exec
        } else {
            TurnTransport::AppServer
        }
    }

    /// How long a turn may take. A run says nothing while its model writes, so its silence means nothing.
    pub(crate) fn patience(&self, transport: TurnTransport) -> Patience {
        match transport {
            TurnTransport::AppServer => Patience {
                timeout: Duration::from_secs(self.config.turn.timeout_secs),
                idle: Duration::from_secs(self.config.turn.idle_secs),
            },
            TurnTransport::Exec => {
                let timeout = Duration::from_secs(self.config.exec.timeout_secs);
                Patience {
                    timeout,
                    idle: timeout.saturating_mul(2),
                }
            }
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
        let channels = ["molecule".to_owned()];
        let keys = ["nightly".to_owned(), "ops/*".to_owned()];
        let holds = |channel: &str, key: &str| {
            runs_over_exec(&channels, &keys, &ChannelId::new(channel), key)
        };
        assert!(holds("molecule:ws-1", "anything"));
        assert!(!holds("molecules", "anything"));
        assert!(holds("local", "nightly") && holds("local", "ops/disk"));
        assert!(!holds("local", "nightly2") && !holds("local", "op"));
        let all = ["*".to_owned()];
        assert!(runs_over_exec(&[], &all, &ChannelId::new("local"), "main"));
    }
}
