//! The append-only table behind the feed: what one row holds, when it can be seen, and how it is shown.
//! Which rows a call gets is the feed's business.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::ids::WorkspaceId;
use super::time::Micros;

/// What is logged.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) kind: String,
    pub(super) method: Option<String>,
    pub(super) source: Option<String>,
    pub(super) target: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) status: String,
    pub(super) error: Option<String>,
    pub(super) request: Option<Value>,
    pub(super) response: Option<Value>,
    pub(super) message_id: Option<String>,
}

/// When a row that was written can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    Now,
    /// After so many more looks at its workspace's feed.
    AfterLooks(u32),
    /// When a test says so.
    Held,
    From(Instant),
    /// When its insert got the lock of its workspace and held it for so long.
    Waiting(Duration),
}

/// How a row that a test planted differs from one that the platform wrote.
#[derive(Clone, Debug)]
pub(super) enum Planted {
    /// These fields go over the platform's own.
    Over(Map<String, Value>),
    /// It is shown as it stands.
    Raw(Value),
}

/// One row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) workspace: WorkspaceId,
    pub(super) at: Micros,
    pub(super) seq: u64,
    pub(super) visible: Visible,
    pub(super) entry: Entry,
    pub(super) planted: Option<Planted>,
}

impl Row {
    pub(super) fn is_visible(&self) -> bool {
        self.visible == Visible::Now
    }

    /// Whether it is a message of the canvas or of a peer.
    pub(super) fn is_message(&self) -> bool {
        let method = self.entry.method.as_deref().unwrap_or_default();
        self.entry.kind == RECEIVE && method.starts_with("message/")
    }

    /// Whether it is the echo of a bubble.
    pub(super) fn is_bubble(&self) -> bool {
        self.entry.kind == RECEIVE
            && self.entry.source.is_none()
            && self.entry.method.as_deref() == Some("notify")
    }

    /// What a person would read of it.
    pub(super) fn text(&self) -> String {
        let result = self
            .entry
            .response
            .as_ref()
            .and_then(|body| body.get("result"));
        if let Some(result) = result.and_then(Value::as_str) {
            return result.to_owned();
        }
        let texts = parts("/params/message/parts", &self.entry.request);
        texts
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect()
    }

    /// The files that it carries, whichever way it goes.
    pub(super) fn files(&self) -> Vec<Value> {
        let sent = parts("/parts", &self.entry.response);
        let got = parts("/params/message/parts", &self.entry.request);
        let files = sent.chain(got).filter_map(|part| part.get("file"));
        files.cloned().collect()
    }

    pub(super) fn show(&self, with_seq: bool) -> Value {
        let entry = &self.entry;
        let mut shown = json!({
            "id": self.id,
            "workspace_id": self.workspace.to_string(),
            "activity_type": entry.kind,
            "source_id": entry.source,
            "target_id": entry.target,
            "method": entry.method,
            "summary": entry.summary,
            "duration_ms": null,
            "status": entry.status,
            "error_detail": entry.error,
            "created_at": self.at.text(),
        });
        if with_seq {
            put(&mut shown, "seq", json!(self.seq));
        }
        if let Some(body) = &entry.request {
            put(&mut shown, "request_body", body.clone());
        }
        if let Some(body) = &entry.response {
            put(&mut shown, "response_body", body.clone());
        }
        match &self.planted {
            None => shown,
            Some(Planted::Raw(raw)) => raw.clone(),
            Some(Planted::Over(fields)) => {
                for (key, value) in fields {
                    put(&mut shown, key, value.clone());
                }
                shown
            }
        }
    }
}

/// The activity type of everything that a workspace receives.
pub(super) const RECEIVE: &str = "a2a_receive";

/// Sets a field of an object; anything else stays as it is.
pub(super) fn put(value: &mut Value, key: &str, field: Value) {
    if let Value::Object(fields) = value {
        fields.insert(key.to_owned(), field);
    }
}

fn parts<'a>(place: &str, body: &'a Option<Value>) -> impl Iterator<Item = &'a Value> + use<'a> {
    let parts = body.as_ref().and_then(|body| body.pointer(place));
    parts.and_then(Value::as_array).into_iter().flatten()
}
