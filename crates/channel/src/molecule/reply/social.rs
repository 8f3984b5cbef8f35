//! Answers to social channels. The platform sends a text to all chats of a channel and to no single one, so an answer
//! goes there only where the channel has exactly the chat that asked; every other answer is a bubble on the canvas.

use crate::http::{HttpError, Operation, accept, body, parse};
use crate::molecule::Molecule;
use crate::molecule::failure::fault;
use crate::molecule::files::with_note;
use crate::molecule::reply::spoken;
use crate::molecule::reply::upload::for_peers;
use crate::molecule::row::origin::{Origin, SenderName};
use bridge_core::limits::clip;
use bridge_core::port::{MayAct, SinkFault};
use bridge_core::value::{Message, Reply};
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest text: what the narrowest of these services takes.
pub(crate) const MAX_CHARS: usize = 2_000;
/// How long one call may take; the platform waits for the service behind it.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// The longest list of channels.
const LIST_MAX_BYTES: usize = 1 << 20;

/// A chat on a service that the platform is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chat<'a> {
    pub(crate) origin: Origin,
    pub(crate) id: &'a str,
}

impl<'a> Chat<'a> {
    /// The chat in a sender's name: `telegram:777@4242`.
    pub(crate) fn of_sender(sender: &'a str) -> Option<Self> {
        let name = SenderName::read(sender)?;
        let (origin, id) = (name.origin, name.chat?);
        Origin::CHATS
            .contains(&origin)
            .then_some(Self { origin, id })
    }
}

/// A connection of the workspace to a service, as the platform lists it.
#[derive(Debug, Deserialize)]
struct SocialChannel {
    id: String,
    channel_type: String,
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    config: Value,
}

impl SocialChannel {
    /// Whether this chat is the only one that hears what is sent to it.
    fn is_only(&self, chat: Chat<'_>) -> bool {
        let key = match chat.origin {
            Origin::Slack => "channel_id",
            _ => "chat_id",
        };
        let chats = self.config.get(key).and_then(Value::as_str);
        self.enabled
            && self.channel_type == chat.origin.as_str()
            && chats.is_some_and(|chats| chats.trim() == chat.id)
    }
}

impl Molecule {
    /// Sends an answer to the chat that asked; none where the platform has no way to that chat alone.
    pub(crate) async fn tell_chat(
        &self,
        chat: Chat<'_>,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> Result<Option<String>, SinkFault> {
        let failed = |error: HttpError| fault(Operation::Probe, &error);
        let Some(channel) = self.channel_of(chat).await.map_err(failed)? else {
            return Ok(None);
        };
        let files = for_peers(&reply.attachments);
        let room = MAX_CHARS.saturating_sub(files.chars().count() + 2);
        let text = with_note(&clip(&reply.body, room), &files);
        let text = spoken(&text);
        let call = self
            .0
            .client
            .post(&["channels", &channel, "send"])
            .json(&json!({ "text": text }))
            .timeout(CALL_DEADLINE);
        may_act()?;
        let sent = accept(call).await;
        sent.map_err(|error| fault(Operation::Send, &error))?;
        Ok(Some(format!("{}:{}", chat.origin.as_str(), reply.key)))
    }

    /// The one channel whose only chat this is.
    async fn channel_of(&self, chat: Chat<'_>) -> Result<Option<String>, HttpError> {
        let call = self.0.client.get(&["channels"]).timeout(CALL_DEADLINE);
        let bytes = match accept(call).await {
            Ok(response) => body(response, LIST_MAX_BYTES).await?,
            Err(error) if has_no_channels(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let listed: Option<Vec<Value>> = parse(&bytes)?;
        let listed = listed.unwrap_or_default().into_iter();
        let mut channels: Vec<SocialChannel> = listed
            .filter_map(|channel| serde_json::from_value(channel).ok())
            .collect();
        channels.retain(|channel| channel.is_only(chat));
        Ok(match channels.as_slice() {
            [channel] => Some(channel.id.clone()),
            [] | [_, ..] => None,
        })
    }
}

/// Whether the platform has no such call for us, as older ones; a refused token or a busy platform is another matter.
fn has_no_channels(error: &HttpError) -> bool {
    let later = [
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    let refused = error.status().filter(|status| status.is_client_error());
    refused.is_some_and(|status| !later.contains(&status))
}

/// What stands over an answer on the canvas that is for somebody else than the canvas.
pub(crate) fn addressed(message: &Message) -> Option<String> {
    match SenderName::read(&message.sender).map(|name| name.origin) {
        // Notifications of our own are sent in the workspace's name.
        None | Some(Origin::Canvas) => None,
        Some(Origin::Unmarked) => {
            Some("Answer to a message whose sender the platform does not name:".to_owned())
        }
        Some(_) => Some(format!("Answer to {}:", message.sender)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_is_read_from_its_sender() {
        let chat = Chat::of_sender("telegram:777@-1004242").unwrap();
        assert_eq!((chat.origin, chat.id), (Origin::Telegram, "-1004242"));
        assert!(Chat::of_sender("slack@C1").is_some());
        for other in ["canvas", "canvas:u@x", "github:mallory@o/r", "telegram:777"] {
            assert_eq!(Chat::of_sender(other), None, "{other}");
        }
    }

    #[test]
    fn channel_must_serve_only_that_chat() {
        let chat = Chat::of_sender("telegram:777@42").unwrap();
        let channel = |kind: &str, enabled: bool, chats: &str| SocialChannel {
            id: "c".to_owned(),
            channel_type: kind.to_owned(),
            enabled,
            config: json!({ "chat_id": chats }),
        };
        assert!(channel("telegram", true, " 42").is_only(chat));
        assert!(!channel("telegram", true, "42,43").is_only(chat));
        assert!(!channel("telegram", false, "42").is_only(chat));
        assert!(!channel("lark", true, "42").is_only(chat));
    }
}
