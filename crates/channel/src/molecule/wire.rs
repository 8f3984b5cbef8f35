//! The JSON forms that the platform speaks. Tolerant in reading, exact in writing.
//!
//! A page's rows are kept as raw text, and a row's fields too: a row that is nested too deep or holds an impossible
//! number spoils itself alone. What a row means is `row`'s business.

use crate::secret::Secret;
use bridge_core::value::Timestamp;
use reqwest::header::{DATE, HeaderMap};
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// A moment of the platform's own clock, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Stamp(pub(super) i64);

impl Stamp {
    /// Reads RFC 3339. The platform trims zeros of the fraction, so its texts can't be compared.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Some(Self(time.as_microsecond()))
    }

    /// What the platform's HTTP server thinks the time is.
    pub(crate) fn of_date(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(DATE)?.to_str().ok()?;
        let time = jiff::fmt::rfc2822::parse(text).ok()?;
        Some(Self(time.timestamp().as_microsecond()))
    }

    pub(crate) fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000)))
    }

    /// As the ledger keeps times.
    pub(crate) fn in_ms(self) -> Timestamp {
        Timestamp(self.0 / 1_000)
    }

    pub(crate) fn plus_us(self, us: i64) -> Self {
        Self(self.0.saturating_add(us))
    }
}

/// RFC 3339, as the platform wants it in `before_ts`.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => f.write_str("1970-01-01T00:00:00Z"),
        }
    }
}

/// One page of the feed.
#[derive(Debug)]
pub(crate) struct FeedPage {
    /// As the platform ordered them: oldest first with `since_id`, else newest first.
    pub(crate) rows: Vec<Row>,
    /// The platform's clock.
    pub(crate) date: Option<Stamp>,
}

/// One row of the feed, its fields still unread.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    id: Option<Box<RawValue>>,
    created_at: Option<Box<RawValue>>,
    seq: Option<Box<RawValue>>,
    pub(crate) workspace_id: Option<Box<RawValue>>,
    pub(crate) activity_type: Option<Box<RawValue>>,
    pub(crate) source_id: Option<Box<RawValue>>,
    pub(crate) method: Option<Box<RawValue>>,
    pub(crate) summary: Option<Box<RawValue>>,
    pub(crate) request_body: Option<Box<RawValue>>,
    pub(crate) response_body: Option<Box<RawValue>>,
    /// What the platform showed could not even be split into fields.
    #[serde(skip)]
    pub(crate) broken: Option<String>,
}

impl Row {
    /// Splits a row into its fields.
    pub(crate) fn split(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_else(|error| Self {
            broken: Some(error.to_string()),
            ..Self::default()
        })
    }

    /// What can be known of a row from its first bytes. The platform writes its fields in the order of the alphabet, so
    /// the id and the time come before the bodies.
    pub(crate) fn of_head(head: &[u8]) -> Self {
        let mut row = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(head);
        // It ends in the middle, and that is no news.
        let _cut = HeadOfPage(&mut row).deserialize(&mut reader);
        row.broken = Some("it is too long to be read".to_owned());
        row
    }

    pub(crate) fn id(&self) -> Option<String> {
        field(self.id.as_deref()).ok().flatten()
    }

    pub(crate) fn at(&self) -> Option<Stamp> {
        let text: Option<String> = field(self.created_at.as_deref()).ok().flatten();
        Stamp::read(&text?)
    }

    pub(crate) fn seq(&self) -> Option<i64> {
        field(self.seq.as_deref()).ok().flatten()
    }
}

/// Reads one field: absent and `null` are the same.
pub(crate) fn field<T: DeserializeOwned>(raw: Option<&RawValue>) -> Result<Option<T>, String> {
    match raw {
        None => Ok(None),
        Some(raw) => serde_json::from_str(raw.get()).map_err(|error| error.to_string()),
    }
}

struct HeadOfPage<'a>(&'a mut Row);
struct HeadOfRow<'a>(&'a mut Row);

impl<'de> DeserializeSeed<'de> for HeadOfPage<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for HeadOfPage<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        rows.next_element_seed(HeadOfRow(self.0)).map(drop)
    }
}

impl<'de> DeserializeSeed<'de> for HeadOfRow<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeadOfRow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            let place = match name.as_str() {
                "id" => &mut self.0.id,
                "created_at" => &mut self.0.created_at,
                "seq" => &mut self.0.seq,
                "workspace_id" => &mut self.0.workspace_id,
                "activity_type" => &mut self.0.activity_type,
                "source_id" => &mut self.0.source_id,
                "method" => &mut self.0.method,
                "summary" => &mut self.0.summary,
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *place = Some(fields.next_value()?);
        }
        Ok(())
    }
}

/// A bubble on its way to the canvas.
#[derive(Debug, Serialize)]
pub(crate) struct NewBubble<'a> {
    pub(crate) message: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) attachments: &'a [NewAttachment],
}

/// A file that was uploaded and goes with a bubble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewAttachment {
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) mime_type: String,
    pub(crate) size: u64,
}

/// A message for a peer.
#[derive(Debug)]
pub(crate) struct NewMessage<'a> {
    /// The platform shows a second one with the same id no more than once, where it can.
    pub(crate) message_id: String,
    pub(crate) text: &'a str,
    pub(crate) context: Option<&'a str>,
    pub(crate) hops: u32,
}

impl NewMessage<'_> {
    pub(crate) fn json(&self) -> Value {
        let mut message = serde_json::json!({
            "role": "user",
            "messageId": self.message_id,
            "parts": [{"kind": "text", "text": self.text}],
            "metadata": {(HOPS): self.hops},
        });
        if let (Some(context), Some(fields)) = (self.context, message.as_object_mut()) {
            fields.insert("contextId".to_owned(), context.into());
        }
        serde_json::json!({
            "jsonrpc": "2.0",
            "id": self.message_id,
            "method": "message/send",
            "params": {"message": message},
        })
    }
}

/// Where a message says how many agents' answers led to it.
pub(crate) const HOPS: &str = "codex_bridge_hops";

/// That we are here, and what we do.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Heartbeat<'a> {
    pub(crate) workspace_id: &'a str,
    pub(crate) error_rate: f32,
    pub(crate) sample_error: &'a str,
    pub(crate) active_tasks: u32,
    pub(crate) uptime_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_task: Option<&'a str>,
}

/// Who signs on.
#[derive(Debug, Serialize)]
pub(crate) struct NewAgent<'a> {
    pub(crate) id: &'a str,
    /// Where the platform calls us; empty for an agent that polls.
    pub(crate) url: &'a str,
    pub(crate) agent_card: Value,
    pub(crate) delivery_mode: &'a str,
}

/// What the platform answers to that, and to a heartbeat.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Registered {
    /// A token, for a workspace without any.
    pub(crate) auth_token: Option<IgnoredAny>,
    /// What it calls us with, where it does.
    pub(crate) platform_inbound_secret: Option<Secret>,
}

/// What the platform says of a workspace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WorkspaceView {
    pub(crate) status: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) agent_card: Option<Value>,
}

/// What the platform says of a workspace that was removed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Removed {
    pub(crate) removed_at: Option<String>,
    pub(crate) hint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_times() {
        let early = Stamp::read("2026-11-15T20:00:13.57267Z").unwrap();
        let late = Stamp::read("2026-11-15T20:00:13.572671Z").unwrap();
        assert_eq!(early.plus_us(1), late);
        assert_eq!(Stamp::read(&late.to_string()), Some(late));
        assert_eq!(Stamp::read("yesterday"), None);
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "Sun, 15 Nov 2026 20:00:13 GMT".parse().unwrap());
        assert_eq!(Stamp::of_date(&headers), Some(early.plus_us(-572_670)));
    }

    #[test]
    fn unreadable_row_spoils_no_other() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let page = format!(
            r#"[{{"id":"a","request_body":{deep}}},{{"id":"b","seq":1e999}},7,{{"id":"c","seq":3}}]"#
        );
        let raw: Vec<Box<RawValue>> = serde_json::from_str(&page).unwrap();
        let rows: Vec<Row> = raw.iter().map(|raw| Row::split(raw)).collect();
        let ids: Vec<_> = rows.iter().map(Row::id).collect();
        let id = |id: &str| Some(id.to_owned());
        assert_eq!(ids, [id("a"), id("b"), None, id("c")]);
        assert!(field::<Value>(rows[0].request_body.as_deref()).is_err());
        assert_eq!((rows[1].seq(), rows[3].seq()), (None, Some(3)));
        assert!(rows[2].broken.is_some());
    }

    #[test]
    fn row_head_identifies_the_row() {
        let head = br#"[{"activity_type":"a2a_receive","created_at":"2026-11-15T20:00:13Z","id":"x","method":"notify","response_body":{"result":"aaaa"#;
        let row = Row::of_head(head);
        assert_eq!(row.id().as_deref(), Some("x"));
        assert!(row.at().is_some() && row.broken.is_some());
        assert_eq!(Row::of_head(b"<html>").id(), None);
    }
}
