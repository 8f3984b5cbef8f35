//! The local channel: the person at this machine's command line, the owner.
//!
//! Texts come in through `api.sock`; a reply is delivered when its row is readable there, so the sink has
//! nothing to send and can't show a reply twice.

use bridge_core::limits::{CONVERSATION_KEY_MAX_CHARS, MESSAGE_MAX_CHARS};
use bridge_core::port::{Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::step::{MidTurn, Receive, Verdict};
use bridge_core::value::{
    AckMode, ChannelId, ConversationId, ExternalId, Message, MessageId, Reply, SenderKind, Tier,
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
}

/// Ids and places that the door assigns to what is new.
#[derive(Clone, Debug)]
pub struct Assigned {
    /// For the message.
    pub message_id: MessageId,
    /// For the conversation, if it is new.
    pub conversation_id: ConversationId,
    /// Where it works, if it is new.
    pub workdir: String,
    /// What happens to the text if a turn of its conversation runs.
    pub mid_turn: MidTurn,
}

/// Why a text is not taken in. Nothing was stored; the sender still has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing but white space.
    #[error("(empty prompt — nothing to do)")]
    Empty,
    /// Holds a NUL character.
    #[error(
        "the text holds a NUL character at position {position}, which Codex can't take: remove it and send again"
    )]
    Nul {
        /// Where, in characters from the start.
        position: usize,
    },
    /// Longer than Codex takes.
    #[error(
        "the text has {chars} characters and Codex takes at most {MESSAGE_MAX_CHARS}: put the rest in a file in the working directory and name it in the text"
    )]
    TooLong {
        /// How long it is.
        chars: usize,
    },
    /// The conversation's key can't be one.
    #[error("the conversation key {why}: choose a short name such as `main` or `ticket-42`")]
    Key {
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Checks a text at the door and makes it a transition.
pub fn receive(inbound: Inbound, assigned: Assigned) -> Result<Receive, Refusal> {
    check_text(&inbound.text)?;
    check_key(&inbound.conversation)?;
    check_key(&inbound.external_id)?;
    Ok(Receive {
        message_id: assigned.message_id,
        conversation_id: assigned.conversation_id,
        workdir: assigned.workdir,
        channel: ChannelId::new(CHANNEL),
        external_key: inbound.conversation,
        external_id: ExternalId::new(inbound.external_id),
        kind: SenderKind::Person,
        sender: inbound.sender,
        tier: Tier::Owner,
        body: inbound.text,
        ack: AckMode::None,
        mid_turn: assigned.mid_turn,
        verdict: Verdict::Fit,
    })
}

fn check_text(text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::Empty);
    }
    if let Some(position) = text.chars().position(|c| c == '\0') {
        return Err(Refusal::Nul { position });
    }
    match text.chars().count() {
        chars if chars > MESSAGE_MAX_CHARS => Err(Refusal::TooLong { chars }),
        _ => Ok(()),
    }
}

fn check_key(key: &str) -> Result<(), Refusal> {
    if key.trim().is_empty() {
        return Err(Refusal::Key { why: "is empty" });
    }
    if key.chars().nth(CONVERSATION_KEY_MAX_CHARS).is_some() {
        return Err(Refusal::Key {
            why: "is longer than 200 characters",
        });
    }
    if key.chars().any(char::is_control) {
        return Err(Refusal::Key {
            why: "holds control characters",
        });
    }
    Ok(())
}

/// Delivers by leaving the reply where `show` and `send` read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSink;

impl Sink for LocalSink {
    fn traits(&self, _channel: &ChannelId) -> SinkTraits {
        SinkTraits {
            class: SinkClass::Idempotent,
            max_chars: None,
        }
    }

    async fn send(&self, _message: &Message, reply: &Reply) -> Result<String, SinkFault> {
        Ok(format!("local:{}", reply.key))
    }

    async fn probe(&self, _message: &Message, reply: &Reply) -> Result<Probe, SinkFault> {
        Ok(Probe::Present {
            receipt: format!("local:{}", reply.key),
        })
    }

    /// Nobody waits for one: taking the text in was the receipt.
    async fn acknowledge(&self, _message: &Message) -> Result<(), SinkFault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(text: &str, conversation: &str) -> Result<Receive, Refusal> {
        let inbound = Inbound {
            text: text.to_owned(),
            conversation: conversation.to_owned(),
            external_id: "e1".to_owned(),
            sender: "me".to_owned(),
        };
        let assigned = Assigned {
            message_id: MessageId::new("m1"),
            conversation_id: ConversationId::new("c1"),
            workdir: "/w".to_owned(),
            mid_turn: MidTurn::Queue,
        };
        receive(inbound, assigned)
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
                door(text, "main").map(|receive| receive.body).as_deref(),
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
