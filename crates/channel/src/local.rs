//! The local channel: the person at this machine's command line, the owner; and holders of tokens.
//!
//! Texts come in through the API; a reply is delivered when its row is readable there, so the sink has
//! nothing to send and can't show a reply twice.

use crate::inbox::{Arrival, Refusal, check_key, check_text};
use bridge_core::channels::{HOLDER, conversation_prefix};
use bridge_core::port::{MayAct, Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::step::{Extras, Verdict};
use bridge_core::value::{ChannelId, Command, ExternalId, Message, Reply, SenderKind, Tier, Twin};

/// The channel's id in the ledger.
pub const CHANNEL: &str = bridge_core::channels::LOCAL;
/// The conversation of people who name none.
pub const DEFAULT_CONVERSATION: &str = "main";

/// What a conversation is stored as. Those of a token holder begin with `@NAME/`, which the owner can't choose and no
/// other holder has, because no name of a token holds a slash.
fn conversation_key(holder: Option<&str>, name: &str) -> Result<String, Refusal> {
    match holder {
        Some(holder) => Ok(held(holder, name)),
        None if name.starts_with(HOLDER) => Err(Refusal::Key {
            why: "begins with `@`, as those of token holders do",
        }),
        None => Ok(name.to_owned()),
    }
}

/// What a sender's own id is stored as: apart in the same way, but every id stays possible.
fn external_key(holder: Option<&str>, id: &str) -> String {
    match holder {
        Some(holder) => held(holder, id),
        None if id.starts_with(HOLDER) => format!("{HOLDER}{id}"),
        None => id.to_owned(),
    }
}

fn held(holder: &str, name: &str) -> String {
    format!("{}{name}", conversation_prefix(holder))
}

/// Checks a text at the inbox. `key` is the sender's own id for it, so that sending it twice makes one message. A
/// token holder who is not the owner has conversations and keys of their own, and can neither write into the owner's
/// conversations nor find out the owner's keys. What the owner sends with a session of the console has it in its id.
pub fn arrive(
    text: String,
    conversation: Option<&str>,
    key: &str,
    sender: String,
    is_owner: bool,
    session: Option<&str>,
) -> Result<Arrival, Refusal> {
    let conversation = conversation.unwrap_or(DEFAULT_CONVERSATION);
    check_text(&text)?;
    check_key(conversation)?;
    check_key(key)?;
    let holder = (!is_owner).then_some(sender.as_str());
    let conversation = conversation_key(holder, conversation)?;
    let external_id = external_key(holder.or(session), key);
    check_key(&conversation)?;
    check_key(&external_id)?;
    Ok(Arrival {
        channel: ChannelId::new(CHANNEL),
        conversation,
        external_id: ExternalId::new(external_id),
        kind: SenderKind::Person,
        sender,
        tier: if is_owner { Tier::Owner } else { Tier::Tool },
        verdict: Verdict::Fit,
        extras: Extras {
            // A token for sending does not allow deciding.
            command: is_owner.then(|| Command::read_word(&text)).flatten(),
            ..Extras::default()
        },
        body: text,
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

    /// Shown by the commit that follows, which a node without its lease can't make.
    async fn send(
        &self,
        _message: &Message,
        reply: &Reply,
        _may_act: MayAct<'_>,
    ) -> Result<String, SinkFault> {
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
}

fn receipt(reply: &Reply) -> String {
    format!("local:{}", reply.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::limits::MESSAGE_MAX_CHARS;

    fn inbox(text: &str, conversation: &str) -> Result<Arrival, Refusal> {
        arrive(
            text.to_owned(),
            Some(conversation),
            "e1",
            "me".to_owned(),
            true,
            None,
        )
    }

    #[test]
    fn text_is_accepted_whole_or_rejected() {
        for text in [
            "-rf",
            "--dangerously-bypass-approvals-and-sandbox",
            "\u{1b}[31mred",
            "a\r\nb",
        ] {
            assert_eq!(
                inbox(text, "main").map(|arrival| arrival.body).as_deref(),
                Ok(text)
            );
        }
        let longest = "ä".repeat(MESSAGE_MAX_CHARS);
        assert!(inbox(&longest, "main").is_ok());
        let too_long = format!("{longest}b");
        let refusal = Refusal::TooLong {
            chars: MESSAGE_MAX_CHARS + 1,
        };
        assert_eq!(inbox(&too_long, "main").err(), Some(refusal));
        for empty in ["", "  \n\t "] {
            assert!(inbox(empty, "main").is_ok());
        }
        assert_eq!(
            inbox("a\0b", "main").err(),
            Some(Refusal::Nul { position: 1 })
        );
    }

    #[test]
    fn f10_holders_and_owner_share_no_names() {
        let keys = |holder: Option<&str>, name: &str| {
            let sender = holder.unwrap_or("me").to_owned();
            let arrival = arrive(
                "hi".to_owned(),
                Some(name),
                name,
                sender,
                holder.is_none(),
                None,
            );
            arrival.map(|arrival| (arrival.conversation, arrival.external_id.to_string()))
        };
        let held = keys(Some("snd"), "main").unwrap();
        assert_eq!(held, ("@snd/main".to_owned(), "@snd/main".to_owned()));
        assert_ne!(keys(None, "snd/main").unwrap(), held);
        assert_ne!(keys(Some("a"), "b/main"), keys(Some("b"), "main"));
        assert!(matches!(keys(None, "@snd/main"), Err(Refusal::Key { .. })));
        assert_eq!(external_key(None, "@snd/main"), "@@snd/main");
    }

    #[test]
    fn keys_are_short_printable_names() {
        assert!(inbox("hi", "ticket-42 ü").is_ok());
        for key in ["", " ", "a\nb", &"x".repeat(201)] {
            assert!(
                matches!(inbox("hi", key), Err(Refusal::Key { .. })),
                "{key:?}"
            );
        }
    }
}
