//! The local channel: the person at this machine's command line, the owner; and holders of tokens.
//!
//! Texts come in through the API; a reply is delivered when its row is readable there, so the sink has
//! nothing to send and can't show a reply twice.

use crate::door::{Arrival, Refusal, check_key, check_text};
use bridge_core::port::{Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::step::{Extras, Verdict};
use bridge_core::value::{
    AckMode, ChannelId, Command, ExternalId, Message, Reply, SenderKind, Tier, Twin,
};

/// The channel's id in the ledger.
pub const CHANNEL: &str = "local";
/// The conversation of people who name none.
pub const DEFAULT_CONVERSATION: &str = "main";

/// A text as it came through the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The text.
    pub text: String,
    /// The conversation's key.
    pub conversation: String,
    /// The sender's own id for it, so that sending it twice makes one message.
    pub external_id: String,
    /// Who is at the keyboard, for display.
    pub sender: String,
    /// What they may do.
    pub tier: Tier,
}

/// Checks a text at the door.
pub fn arrive(inbound: Inbound) -> Result<Arrival, Refusal> {
    check_text(&inbound.text)?;
    check_key(&inbound.conversation)?;
    check_key(&inbound.external_id)?;
    Ok(Arrival {
        channel: ChannelId::new(CHANNEL),
        conversation: inbound.conversation,
        external_id: ExternalId::new(inbound.external_id),
        kind: SenderKind::Person,
        sender: inbound.sender,
        tier: inbound.tier,
        ack: AckMode::None,
        verdict: Verdict::Fit,
        extras: Extras {
            // Whoever holds a token for sending does not hold one for deciding.
            command: match inbound.tier {
                Tier::Owner => Command::read_word(&inbound.text),
                Tier::Peer | Tier::Tool => None,
            },
            ..Extras::default()
        },
        body: inbound.text,
    })
}

/// Delivers by leaving the reply where `show` and `send` read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSink;

impl Sink for LocalSink {
    fn traits(&self, _message: &Message) -> SinkTraits {
        SinkTraits {
            class: SinkClass::Idempotent,
            max_chars: None,
        }
    }

    async fn send(&self, _message: &Message, reply: &Reply) -> Result<String, SinkFault> {
        Ok(receipt(reply))
    }

    async fn probe(
        &self,
        _message: &Message,
        reply: &Reply,
        _twins: &[Twin],
    ) -> Result<Probe, SinkFault> {
        let receipt = receipt(reply);
        Ok(Probe::Present { receipt })
    }

    /// Nobody waits for one: taking the text in was the receipt.
    async fn acknowledge(&self, _message: &Message) -> Result<(), SinkFault> {
        Ok(())
    }
}

fn receipt(reply: &Reply) -> String {
    format!("local:{}", reply.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::limits::MESSAGE_MAX_CHARS;

    fn door(text: &str, conversation: &str) -> Result<Arrival, Refusal> {
        arrive(Inbound {
            text: text.to_owned(),
            conversation: conversation.to_owned(),
            external_id: "e1".to_owned(),
            sender: "me".to_owned(),
            tier: Tier::Owner,
        })
    }

    #[test]
    fn texts_are_taken_whole_or_refused_with_a_reason() {
        for text in [
            "-rf",
            "--dangerously-bypass-approvals-and-sandbox",
            "\u{1b}[31mred",
            "a\r\nb",
        ] {
            assert_eq!(
                door(text, "main").map(|arrival| arrival.body).as_deref(),
                Ok(text)
            );
        }
        let longest = "ä".repeat(MESSAGE_MAX_CHARS);
        assert!(door(&longest, "main").is_ok());
        let too_long = format!("{longest}b");
        let refusal = Refusal::TooLong {
            chars: MESSAGE_MAX_CHARS + 1,
        };
        assert_eq!(door(&too_long, "main").err(), Some(refusal));
        for empty in ["", "  \n\t "] {
            assert_eq!(door(empty, "main").err(), Some(Refusal::Empty));
        }
        assert_eq!(
            door("a\0b", "main").err(),
            Some(Refusal::Nul { position: 1 })
        );
    }

    #[test]
    fn keys_are_short_printable_names() {
        assert!(door("hi", "ticket-42 ü").is_ok());
        for key in ["", " ", "a\nb", &"x".repeat(201)] {
            assert!(
                matches!(door("hi", key), Err(Refusal::Key { .. })),
                "{key:?}"
            );
        }
    }
}
