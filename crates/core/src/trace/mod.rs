//! The trace of a message: spans as a pure function over its rows, so that every daemon that tells of it, now or after a
//! crash, tells the same.
//!
//! What rows do not keep (how long a commit took, when a tool ended) is added by whoever saw it: [`Moment`].

pub mod names;
mod rows;

pub use rows::TraceRows;

use crate::value::{ItemId, Message, MessageId, SpanId, Timestamp, TraceId};

/// Kinds of items that are no tools: texts, plans, and remarks of Codex about itself.
const NO_TOOLS: [&str; 9] = [
    "agentMessage",
    "contextCompaction",
    "enteredReviewMode",
    "exitedReviewMode",
    "functionCallOutput",
    "hookPrompt",
    "plan",
    "reasoning",
    "userMessage",
];

/// One span, in the terms of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub start: Nanos,
    pub end: Nanos,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Set where it failed. The text says why, where texts are exported.
    pub error: Option<Option<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Client,
    Producer,
    Consumer,
}

/// Nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl From<Timestamp> for Nanos {
    fn from(at: Timestamp) -> Self {
        Self(u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000))
    }
}

impl Nanos {
    #[must_use]
    pub fn plus(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Number(i64),
    Flag(bool),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Attribute {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// Something that was seen of a message and that no row keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub message_id: MessageId,
    pub start: Nanos,
    pub end: Nanos,
    pub what: MomentKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MomentKind {
    /// A transition was put on disk.
    Commit { transition: &'static str },
    /// Codex used a tool.
    Tool {
        attempt: u32,
        item_id: ItemId,
        /// Codex's name of the kind of tool.
        kind: String,
        declined: bool,
        /// One line of Codex about it; exported only where texts are.
        headline: String,
    },
}

impl MomentKind {
    /// Whether items of this kind are tools.
    #[must_use]
    pub fn is_tool(kind: &str) -> bool {
        !NO_TOOLS.contains(&kind)
    }
}

impl Moment {
    /// Its span in the trace of its message.
    #[must_use]
    pub fn span(&self, of: &Message, texts: bool) -> Span {
        let span = Span {
            trace_id: of.trace_id(),
            span_id: of.root_span(),
            parent: Some(of.root_span()),
            name: String::new(),
            kind: SpanKind::Internal,
            start: self.start,
            end: self.end,
            attributes: Vec::new(),
            error: None,
        };
        match &self.what {
            MomentKind::Commit { transition } => Span {
                span_id: of.span_id(&format!("commit {transition} {}", self.start.0)),
                name: format!("commit {transition}"),
                attributes: vec![(names::TRANSITION, (*transition).into())],
                ..span
            },
            MomentKind::Tool {
                attempt,
                item_id,
                kind,
                declined,
                headline,
            } => {
                let mut attributes = vec![
                    (names::OPERATION, names::EXECUTE_TOOL.into()),
                    (names::TOOL_NAME, kind.as_str().into()),
                    (names::TOOL_CALL, item_id.as_str().into()),
                    (names::TOOL_DECLINED, (*declined).into()),
                ];
                if texts {
                    attributes.push((names::TOOL_HEADLINE, headline.as_str().into()));
                }
                Span {
                    span_id: of.tool_span(*attempt, item_id),
                    parent: Some(of.turn_span(*attempt)),
                    name: format!("{} {kind}", names::EXECUTE_TOOL),
                    attributes,
                    ..span
                }
            }
        }
    }
}
