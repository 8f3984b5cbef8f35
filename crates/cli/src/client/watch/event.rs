//! Events of the daemon's streams, as far as `watch` needs them. Unknown ones of a later daemon are skipped.

use crate::client::sse::SseEvent;
use bridge_front::{EventView, MessageView};
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) enum WatchEvent {
    /// Codex did something, or the bridge has something to say.
    Item {
        message_id: String,
        event: EventView,
    },
    /// Where a message is.
    State(Box<MessageView>),
    /// That a message is somewhere else in its life, when everything is watched.
    Moved {
        message_id: String,
        conversation: String,
        state: String,
    },
    /// What Codex is writing.
    Text { message_id: String, text: String },
    /// What Codex changed in files.
    Diff { message_id: String, text: String },
    /// The last lines that a command wrote.
    Output { message_id: String, text: String },
    /// It is over: the message with its answer, or with the reason why there is none.
    End(Box<MessageView>),
    /// An approval request was opened or decided.
    RequestChanged,
    /// Too old to go on from where we were.
    Reset,
    /// Nothing a person needs.
    Other,
}

impl WatchEvent {
    /// Reads one event. One that names no message is about the watched one.
    pub(crate) fn read(event: &SseEvent, watched: &str) -> Result<Self, serde_json::Error> {
        let data: Value = match event.data.as_str() {
            "" => Value::Null,
            data => serde_json::from_str(data)?,
        };
        let message_id = data["message_id"].as_str().unwrap_or(watched).to_owned();
        Ok(match event.name.as_str() {
            "item" => Self::Item {
                message_id,
                event: serde_json::from_value(data)?,
            },
            "text" => Self::Text {
                message_id,
                text: text(&data, "text"),
            },
            "diff" => Self::Diff {
                message_id,
                text: text(&data, "text"),
            },
            "output" => Self::Output {
                message_id,
                text: text(&data, "text"),
            },
            "state" if data["why"].is_null() => Self::Moved {
                message_id,
                conversation: text(&data, "conversation"),
                state: text(&data, "state"),
            },
            "state" => Self::State(Box::new(serde_json::from_value(data)?)),
            "end" => Self::End(Box::new(serde_json::from_value(data)?)),
            "reset" => Self::Reset,
            name if name.starts_with("request") => Self::RequestChanged,
            _ => Self::Other,
        })
    }

    /// Whether an approval request may have been opened or closed.
    pub(crate) fn may_ask(&self) -> bool {
        match self {
            Self::Item { event, .. } => event.kind == "request",
            Self::State(_) | Self::RequestChanged | Self::Reset | Self::End(_) => true,
            Self::Moved { .. }
            | Self::Text { .. }
            | Self::Diff { .. }
            | Self::Output { .. }
            | Self::Other => false,
        }
    }

    /// Whether Codex asks something.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Self::Item { event, .. } if event.kind == "request")
    }

    /// The message that it is about.
    pub(crate) fn message_id(&self) -> Option<&str> {
        match self {
            Self::Item { message_id, .. }
            | Self::Moved { message_id, .. }
            | Self::Diff { message_id, .. }
            | Self::Output { message_id, .. }
            | Self::Text { message_id, .. } => Some(message_id),
            Self::State(message) | Self::End(message) => Some(&message.message_id),
            Self::RequestChanged | Self::Reset | Self::Other => None,
        }
    }
}

fn text(data: &Value, key: &str) -> String {
    data[key].as_str().unwrap_or_default().to_owned()
}
