//! Targets of task notifications, and the webhooks that deliver them.
//!
//! When a notification is sent, how often it is tried and what is kept of it is decided in the daemon and the core; only
//! `host` starts programs.

mod email;
mod ntfy;
mod web_push;
mod webhook;

pub use email::{Mail, MailTls, Mailer};
pub use ntfy::{Ntfy, NtfyMessage, NtfyPriority};
pub use web_push::{
    BrowserKeys, KeyError, PushFailure, PushMessage, TEXT_MAX_BYTES, Urgency, VapidError, VapidKey,
    WebPush,
};
pub use webhook::{SecretError, Signer, Webhook};

use std::fmt;
use uuid::Uuid;

/// Schemes that mean something here, or would be taken for a webhook.
const OWN_SCHEMES: [&str; 9] = [
    "local", "webhook", "molecule", "command", "ntfy", "email", "mailto", "http", "https",
];
/// Longest scheme of another sender.
const SCHEME_MAX_CHARS: usize = 32;
/// Longest address of another sender.
const ADDRESS_MAX_CHARS: usize = 500;

/// Longest e-mail address (RFC 5321).
const MAILBOX_MAX_CHARS: usize = 254;

/// Longest name of a command.
const COMMAND_MAX_CHARS: usize = 64;

/// The target of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing is sent by itself: whoever asks for it is notified.
    Local,
    /// An address, called with a signed body.
    Webhook(String),
    /// A workspace of a configured Molecule platform.
    Molecule(String),
    /// A command of the configuration file, by its name.
    Command(String),
    /// A topic of a ntfy server: its name on the configured server, or its whole address. Only those of the configuration.
    Ntfy(String),
    /// An e-mail address. Only those of the configuration.
    Email(String),
    /// An address of another sender, such as `feishu:<chat>`: the configuration maps its scheme.
    Other {
        /// Before the colon.
        scheme: String,
        /// Behind it. Data for whoever sends, never an argument.
        address: String,
    },
}

/// Why a target is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not one of the forms.
    #[error(
        "unknown notify target {0:?}: use local, webhook:<https url>, molecule:<workspace id>, command:<name of the configuration>, ntfy:<topic> or email:<address> of a [[notify.alert]], or <scheme>:<address> with a scheme that `notify.schemes` maps"
    )]
    Unknown(String),
    /// A workspace that is none.
    #[error("notify target molecule:{0}: that is no workspace id (a UUID)")]
    Workspace(String),
}

impl Target {
    /// Reads a target as a caller wrote it.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        let unknown = || TargetError::Unknown(text.chars().take(200).collect());
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local),
            Some(("webhook", url)) if !url.trim().is_empty() => {
                Ok(Self::Webhook(url.trim().to_owned()))
            }
            Some(("molecule", workspace)) => Uuid::parse_str(workspace.trim())
                .map(|id| Self::Molecule(id.hyphenated().to_string()))
                .map_err(|_| TargetError::Workspace(workspace.chars().take(200).collect())),
            Some(("command", name)) if is_command_name(name.trim()) => {
                Ok(Self::Command(name.trim().to_owned()))
            }
            Some(("ntfy", topic)) if is_address(topic) => Ok(Self::Ntfy(topic.trim().to_owned())),
            Some(("email" | "mailto", address)) if is_mailbox(address.trim()) => {
                Ok(Self::Email(address.trim().to_owned()))
            }
            Some((scheme, address)) if is_scheme(scheme) && is_address(address) => {
                Ok(Self::Other {
                    scheme: scheme.to_owned(),
                    address: address.to_owned(),
                })
            }
            Some(_) | None => Err(unknown()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Webhook(url) => write!(f, "webhook:{url}"),
            Self::Molecule(workspace) => write!(f, "molecule:{workspace}"),
            Self::Command(name) => write!(f, "command:{name}"),
            Self::Ntfy(topic) => write!(f, "ntfy:{topic}"),
            Self::Email(address) => write!(f, "email:{address}"),
            Self::Other { scheme, address } => write!(f, "{scheme}:{address}"),
        }
    }
}

/// Whether a scheme of another sender may be called so.
#[must_use]
pub fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.len() <= SCHEME_MAX_CHARS
        && !OWN_SCHEMES.contains(&scheme)
        && scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
}

fn is_address(address: &str) -> bool {
    !address.trim().is_empty()
        && address.chars().nth(ADDRESS_MAX_CHARS).is_none()
        && !address.chars().any(char::is_control)
}

/// Whether it is one plain mailbox: no name, no list, no comment, nothing that a header could be broken with.
fn is_mailbox(address: &str) -> bool {
    let Some((local, host)) = address.split_once('@') else {
        return false;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    address.len() <= MAILBOX_MAX_CHARS
        && !local.is_empty()
        && !host.is_empty()
        && local.chars().all(is_plain)
        && host.chars().all(is_host)
}

/// Whether a command may be called so.
#[must_use]
pub fn is_command_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= COMMAND_MAX_CHARS
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let workspace = "3132147e-0000-4000-8000-000000000000";
        for text in [
            "local".to_owned(),
            "webhook:https://hooks.example.com/a?b=c".to_owned(),
            format!("molecule:{workspace}"),
            "command:mail-me_2".to_owned(),
            "feishu:oc_chat:1 2".to_owned(),
            "telegram:-100123".to_owned(),
            "ntfy:codex".to_owned(),
            "ntfy:https://ntfy.example.com/codex".to_owned(),
            "email:ann+x@example.org".to_owned(),
        ] {
            let read = Target::parse(&format!("  {text} ")).unwrap();
            assert_eq!(read.to_string(), text);
        }
        for bad in [
            "",
            "locally",
            "local:x",
            "webhook:",
            "webhook",
            "feishu:",
            "FEISHU:chat",
            "-x:chat",
            "feishu:a\nb",
            "command:",
            "command:../sh",
            "command:a b",
            "ntfy:",
            "ntfy:a\nb",
            "email:",
            "email:ann",
            "email:ann@example.org,bob@example.org",
            "email:Ann <ann@example.org>",
            "email:ann@example.org\r\nBcc: bob@example.org",
            "email:@example.org",
            "https://example.com",
        ] {
            assert!(
                matches!(Target::parse(bad), Err(TargetError::Unknown(_))),
                "{bad}"
            );
        }
        assert!(matches!(
            Target::parse("molecule:main"),
            Err(TargetError::Workspace(_))
        ));
    }
}
