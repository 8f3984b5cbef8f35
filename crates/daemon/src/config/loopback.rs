//! The keys of the loopback channel, and what they are in the channel's own words.

use bridge_channel::loopback::Settings;
use bridge_core::port::{OnUnknown, SinkClass, TurnTransport};
use bridge_core::value::{AckMode, SenderKind, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A platform on this machine that speaks plain HTTP: what `drill` and the tests run, and a template for real ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoopbackConfig {
    /// Where the platform is: `http` and an address of this machine. Without it there is no such channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub url: Option<String>,
    /// What the platform does with a reply that comes twice.
    pub sink: SinkKey,
    /// What is done on a blind platform when it is not known whether a reply arrived.
    pub on_unknown: OnUnknownKey,
    /// When a message is acknowledged.
    pub ack: AckKey,
    /// What its senders may do.
    pub tier: TierKey,
    /// Who sends; people go first.
    pub sender: SenderKey,
    /// Which program of Codex runs its turns.
    pub transport: TurnTransport,
}

/// What the platform does with a reply that comes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinkKey {
    /// It shows a key once.
    #[default]
    Idempotent,
    /// It shows it twice, but can be asked whether a key arrived.
    Probeable,
    /// It shows it twice and can't be asked.
    Blind,
}

/// What is done on a blind platform when it is not known whether a reply arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknownKey {
    /// Send it again: it may be seen twice.
    #[default]
    Resend,
    /// Do not: it may never be seen, and becomes a dead letter.
    Hold,
}

/// When a message is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckKey {
    /// After its last reply arrived: the platform keeps it until then.
    #[default]
    AfterReply,
    /// As soon as it is on our disk.
    OnCustody,
}

/// Whose powers the senders have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierKey {
    /// Of strangers: what `[tiers.peer]` says.
    #[default]
    Peer,
    /// Of the owner of this machine: what `[tiers.owner]` says.
    Owner,
}

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderKey {
    /// Human beings.
    #[default]
    Person,
    /// Other programs.
    Agent,
}

impl LoopbackConfig {
    /// The channel's settings, if it is on.
    pub fn settings(&self) -> Option<Settings> {
        let on_unknown = match self.on_unknown {
            OnUnknownKey::Resend => OnUnknown::Resend,
            OnUnknownKey::Hold => OnUnknown::Hold,
        };
        Some(Settings {
            url: self.url.clone()?,
            class: match self.sink {
                SinkKey::Idempotent => SinkClass::Idempotent,
                SinkKey::Probeable => SinkClass::Probeable,
                SinkKey::Blind => SinkClass::Blind { on_unknown },
            },
            ack: match self.ack {
                AckKey::AfterReply => AckMode::AfterReply,
                AckKey::OnCustody => AckMode::OnCustody,
            },
            tier: match self.tier {
                TierKey::Peer => Tier::Peer,
                TierKey::Owner => Tier::Owner,
            },
            kind: match self.sender {
                SenderKey::Person => SenderKind::Person,
                SenderKey::Agent => SenderKind::Agent,
            },
        })
    }

    /// What is wrong with the values, by key.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        if let Some(Err(error)) = self.url.as_deref().map(bridge_channel::loopback::check_url) {
            return Some(("loopback.url", error.to_string()));
        }
        match (self.sink, self.on_unknown) {
            (SinkKey::Idempotent | SinkKey::Probeable, OnUnknownKey::Hold) => {
                let what = "is \"hold\", which only a blind platform needs: on any other it is found out whether a reply arrived";
                Some(("loopback.on_unknown", what.to_owned()))
            }
            (SinkKey::Idempotent | SinkKey::Probeable, OnUnknownKey::Resend)
            | (SinkKey::Blind, OnUnknownKey::Resend | OnUnknownKey::Hold) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> LoopbackConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn without_an_address_there_is_no_channel() {
        assert_eq!(config("sink = 'blind'").settings(), None);
        let settings = config("url = 'http://127.0.0.1:1'").settings().unwrap();
        assert_eq!(settings.class, SinkClass::Idempotent);
        assert_eq!(settings.ack, AckMode::AfterReply);
        assert_eq!(settings.tier, Tier::Peer);
        assert_eq!(settings.kind, SenderKind::Person);
    }

    #[test]
    fn rejects_bad_url_and_needless_hold() {
        for (text, key) in [
            ("url = 'http://example.com'", "loopback.url"),
            ("url = 'https://127.0.0.1'", "loopback.url"),
            ("on_unknown = 'hold'", "loopback.on_unknown"),
        ] {
            assert_eq!(config(text).problem().unwrap().0, key);
        }
        assert_eq!(
            config("sink = 'blind'\non_unknown = 'hold'").problem(),
            None
        );
    }
}
