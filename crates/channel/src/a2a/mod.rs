//! Other agents over A2A: the channel that their messages come in by, the client that calls them, and push notifications.
//!
//! Here is how a message comes in: which conversation it belongs to, and how a repeated one is recognised. A reply needs no
//! sending: it is delivered when its row is readable as a task, as on the local channel.

pub mod client;
pub mod push;

use crate::inbox::{Arrival, Refusal, check_key, check_text};
use bridge_core::step::{Extras, Verdict};
use bridge_core::value::{Attachment, ChannelId, ExternalId, MessageId, SenderKind, Tier};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The channel's id in the ledger.
pub const CHANNEL: &str = bridge_core::channels::A2A;
/// Ends the sender's own id in ours, and begins what is no id of theirs.
const END: char = '#';

/// A text as it came through the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The text.
    pub text: String,
    /// The conversation's key, made by [`conversation_key`].
    pub conversation: String,
    /// Made by [`external_id`].
    pub external_id: ExternalId,
    /// Who sent it, by its token.
    pub sender: String,
    /// Who waits for the answer.
    pub kind: SenderKind,
    /// What they may do.
    pub tier: Tier,
    /// Files, stored already.
    pub files: Vec<Attachment>,
    /// How many agents answered each other before it.
    pub hops: u32,
}

/// Checks a text at the inbox.
pub fn arrive(inbound: Inbound) -> Result<Arrival, Refusal> {
    check_text(&inbound.text)?;
    check_key(&inbound.conversation)?;
    Ok(Arrival {
        channel: ChannelId::new(CHANNEL),
        conversation: inbound.conversation,
        external_id: inbound.external_id,
        kind: inbound.kind,
        sender: inbound.sender,
        tier: inbound.tier,
        body: inbound.text,
        verdict: Verdict::Fit,
        extras: Extras {
            attachments: inbound.files,
            hops: inbound.hops,
            by_talk: true,
            // Words for the bridge are operations of the protocol here.
            command: None,
            ..Extras::default()
        },
    })
}

/// The key of a context: two peers that name the same one never meet, because no peer's name holds a slash.
#[must_use]
pub fn conversation_key(peer: &str, context: &str) -> String {
    format!("{peer}/{context}")
}

/// How a message is known again: by the key that its sender chose for that, else never.
#[must_use]
pub fn external_id(
    peer: &str,
    client_message_id: &str,
    key: Option<&str>,
    message_id: &MessageId,
) -> ExternalId {
    match key {
        Some(key) => key_id(peer, key),
        // What holds the sign could pass for another's.
        None => {
            let client_message_id = Some(client_message_id)
                .filter(|client_message_id| !client_message_id.contains(END));
            let client_message_id = client_message_id.unwrap_or_default();
            ExternalId::new(format!("{client_message_id}{END}{message_id}"))
        }
    }
}

/// What stands for a key of a peer: a message and an answer to a question are known again alike.
#[must_use]
pub fn key_id(peer: &str, key: &str) -> ExternalId {
    let digest = HEXLOWER.encode(&Sha256::digest(key.as_bytes()));
    ExternalId::new(format!("{END}key:{peer}:{digest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::FileDigest;

    fn inbound(text: &str, context: &str) -> Inbound {
        Inbound {
            text: text.to_owned(),
            conversation: conversation_key("ann", context),
            external_id: external_id("ann", "m1", None, &MessageId::new("01")),
            sender: "ann".to_owned(),
            kind: SenderKind::Agent,
            tier: Tier::Peer,
            files: Vec::new(),
            hops: 0,
        }
    }

    #[test]
    fn idempotency_key_identifies_message_per_peer() {
        let id = |peer: &str, client_message_id: &str, key: Option<&str>, own: &str| {
            external_id(peer, client_message_id, key, &MessageId::new(own))
        };
        assert_ne!(id("ann", "m", None, "1"), id("ann", "m", None, "2"));
        assert_eq!(
            id("ann", "m", Some("k"), "1"),
            id("ann", "n", Some("k"), "2")
        );
        assert_ne!(
            id("ann", "m", Some("k"), "1"),
            id("bob", "m", Some("k"), "1")
        );
        let forged = id("bob", "#key:ann:00", None, "3");
        assert_eq!(forged.as_str(), "#3");
    }

    #[test]
    fn rejects_bad_context() {
        let taken = arrive(inbound("/stop", "c")).unwrap();
        assert_eq!((taken.body.as_str(), taken.extras.command), ("/stop", None));
        assert!(arrive(inbound("hi", &"x".repeat(200))).is_err());
        assert!(arrive(inbound("hi", "a\nb")).is_err());
        let file = Attachment {
            name: "a".to_owned(),
            media_type: "text/plain".to_owned(),
            digest: FileDigest::new([7; 32]),
            bytes: 1,
        };
        let with_file = Inbound {
            files: vec![file],
            ..inbound("", "c")
        };
        assert!(arrive(with_file).is_ok());
    }
}
