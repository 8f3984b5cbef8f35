//! A turn as it is on the wire: in responses, in notifications and in a thread's history.
//!
//! Folding a running turn belongs to [`crate::turn`].

use serde::{Deserialize, Serialize};

use super::error_info::{ClassHint, ErrorInfo};
use super::item::{Item, MessageMark};
use super::values::{ItemsView, TurnStatus};
use bridge_core::value::{Class, ClientId, Failure, Timestamp, TurnId};

/// One turn. `items` may be partial: look at `items_view` before concluding from what is missing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub id: TurnId,
    pub status: TurnStatus,
    #[serde(default)]
    pub items: Vec<Item>,
    /// Absent in older versions, which always sent all items in a history.
    pub items_view: Option<ItemsView>,
    pub error: Option<TurnError>,
    /// Unix seconds.
    pub started_at: Option<i64>,
    /// Unix seconds.
    pub completed_at: Option<i64>,
}

impl Turn {
    /// True when `items` is all that Codex has of this turn.
    pub fn has_all_items(&self) -> bool {
        match &self.items_view {
            None | Some(ItemsView::Full) => true,
            Some(ItemsView::NotLoaded | ItemsView::Summary | ItemsView::Other(_)) => false,
        }
    }

    /// Marks of the user messages in this turn, in order; the first one opened it.
    pub fn marks(&self) -> impl Iterator<Item = &MessageMark> {
        self.items.iter().filter_map(|item| {
            let Item::UserMessage(message) = item else {
                return None;
            };
            Some(&message.mark)
        })
    }

    /// The names that clients gave the user messages in this turn.
    pub fn client_ids(&self) -> impl Iterator<Item = &ClientId> {
        self.marks().filter_map(|mark| match mark {
            MessageMark::Named(client_id) => Some(client_id),
            MessageMark::Nameless | MessageMark::Missing => None,
        })
    }
}

/// Why a turn failed, or why a model call is tried again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    pub message: String,
    #[serde(rename = "codexErrorInfo", default)]
    pub info: ErrorInfo,
    #[serde(rename = "additionalDetails")]
    pub details: Option<String>,
}

impl TurnError {
    /// The class and a sentence for people. `until` is when the account's limit resets, if that is known.
    pub fn failure(&self, until: Option<Timestamp>) -> Failure {
        let words = match &self.details {
            Some(details) if !details.is_empty() && !self.message.contains(details.as_str()) => {
                format!("{} ({details})", self.message)
            }
            Some(_) | None => self.message.clone(),
        };
        let (class, meaning) = match self.info.class_hint(&self.message) {
            ClassHint::Auth => (
                Class::Config,
                "the model's provider refused the login; run `codex login` (or set the provider's key) and the message is answered",
            ),
            ClassHint::RateLimited => (
                Class::Capacity { until: None },
                "the model's provider is limiting requests",
            ),
            ClassHint::UsageLimit => (
                Class::Capacity { until },
                "the account's usage limit is reached",
            ),
            ClassHint::ServerError => (Class::Transient, "the model's server failed"),
            ClassHint::Stream => (Class::Transient, "the connection to the model broke"),
            ClassHint::ContextWindow => (
                Class::Permanent,
                "the conversation no longer fits into the model's context; start a new one with --conversation",
            ),
            ClassHint::Sandbox => (
                Class::Config,
                "Codex could not set up its sandbox; `codex-bridge doctor` shows what is missing",
            ),
            ClassHint::BadRequest => (Class::Permanent, "the model refused the request"),
            ClassHint::Other => (Class::Transient, "the turn failed"),
        };
        Failure::new(class, format!("{meaning}: {words}"))
    }
}

/// One piece of the input of `turn/start` and `turn/steer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum UserInput {
    Text {
        text: String,
    },
    /// A file on the machine Codex runs on.
    LocalImage {
        path: String,
    },
}

impl UserInput {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}
