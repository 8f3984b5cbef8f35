//! A turn as it is on the wire: in responses, in notifications and in a thread's history.
//!
//! Folding a running turn belongs to [`crate::turn`].

use serde::Deserialize;

use super::error_info::ErrorInfo;
use super::ids::{ClientId, TurnId};
use super::item::Item;
use super::values::{ItemsView, TurnStatus};

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

    /// Client ids of the user messages in this turn, in order; the first one opened it.
    pub fn client_ids(&self) -> impl Iterator<Item = Option<&ClientId>> {
        self.items.iter().filter_map(|item| {
            let Item::UserMessage(message) = item else {
                return None;
            };
            Some(message.client_id.as_ref())
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
