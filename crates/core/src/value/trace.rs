//! W3C trace context: the trace that a message belongs to, and the span that caused it.
//!
//! Ids are derived from rows, so that every daemon that tells of a message tells of the same spans.

use super::{ItemId, Message, MessageId};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// Characters of a `traceparent` of version 00; a later version may have more behind them.
const V00_CHARS: usize = 55;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// The `traceparent` of a caller, or for one that is called: a trace, and the span in it that things hang under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    /// Whether whoever began the trace records it.
    pub sampled: bool,
}

/// A text is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no W3C traceparent")]
pub struct NoTraceParent;

impl TraceId {
    /// The trace of a message that nobody gave one: a UUIDv7 is one already, so its id finds its trace.
    fn of(message_id: &MessageId) -> Self {
        let digits = message_id.as_str().replace('-', "");
        Self(bytes(&digits).unwrap_or_else(|| {
            let digest: [u8; 32] = Sha256::digest(message_id.as_str()).into();
            let mut id = [0; 16];
            id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
            id
        }))
    }
}

impl SpanId {
    /// The span of a message that this word names.
    fn of(message_id: &MessageId, word: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(format!("{message_id}\n{word}")).into();
        let mut id = [0; 8];
        id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(id)
    }
}

impl Message {
    /// Its trace: the caller's where that gave one.
    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        let given = self.trace.map(|parent| parent.trace_id);
        given.unwrap_or_else(|| TraceId::of(&self.message_id))
    }

    /// One of its spans.
    #[must_use]
    pub fn span_id(&self, word: &str) -> SpanId {
        SpanId::of(&self.message_id, word)
    }

    /// The span of its whole life.
    #[must_use]
    pub fn root_span(&self) -> SpanId {
        self.span_id("message")
    }

    /// The span of the turn of one attempt.
    #[must_use]
    pub fn turn_span(&self, attempt: u32) -> SpanId {
        self.span_id(&format!("turn {attempt}"))
    }

    /// The span of a tool that a turn used.
    #[must_use]
    pub fn tool_span(&self, attempt: u32, item_id: &ItemId) -> SpanId {
        self.span_id(&format!("tool {attempt} {item_id}"))
    }

    /// Whether its trace is recorded: whoever began a trace decides that.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.trace.is_none_or(|parent| parent.sampled)
    }

    /// What one that is called for this message is given: it hangs under this span.
    #[must_use]
    pub fn trace_parent(&self, span_id: SpanId) -> TraceParent {
        TraceParent {
            trace_id: self.trace_id(),
            span_id,
            sampled: self.is_traced(),
        }
    }
}

impl FromStr for TraceParent {
    type Err = NoTraceParent;

    /// Reads it as strictly as the recommendation says: lower case, no zeros for ids, no version `ff`.
    fn from_str(text: &str) -> Result<Self, NoTraceParent> {
        let rest = text.as_bytes().get(V00_CHARS);
        let version = text.get(..2).and_then(bytes::<1>).ok_or(NoTraceParent)?;
        let fits = match version {
            [0] => rest.is_none(),
            [0xff] => false,
            _ => rest.is_none_or(|next| *next == b'-'),
        };
        let mut fields = text
            .get(..V00_CHARS)
            .ok_or(NoTraceParent)?
            .split('-')
            .skip(1);
        let mut field = || fields.next().unwrap_or_default();
        let trace_id = bytes::<16>(field()).filter(|id| *id != [0; 16]);
        let span_id = bytes::<8>(field()).filter(|id| *id != [0; 8]);
        let flags = bytes::<1>(field());
        match (trace_id, span_id, flags) {
            (Some(trace_id), Some(span_id), Some([flags])) if fits => Ok(Self {
                trace_id: TraceId(trace_id),
                span_id: SpanId(span_id),
                sampled: flags & SAMPLED == SAMPLED,
            }),
            _ => Err(NoTraceParent),
        }
    }
}

/// Lower-case hexadecimal digits of exactly so many bytes.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(digits.as_bytes()).ok()?.try_into().ok()
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", self.trace_id, self.span_id)
    }
}

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

hexadecimal!(TraceId, SpanId);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::value::MessageState;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_survives_reading_and_writing() {
        let parent: TraceParent = GIVEN.parse().unwrap();
        assert!(parent.sampled);
        assert_eq!(parent.to_string(), GIVEN);
        let later = format!("cc{}-what the future holds", &GIVEN[2..]);
        assert_eq!(later.parse::<TraceParent>().unwrap(), parent);
    }

    #[test]
    fn malformed_traceparents_are_refused() {
        for text in [
            "",
            "00",
            &GIVEN[..54],
            &format!("{GIVEN}-01"),
            &format!("{GIVEN}\r\nX-Evil: 1"),
            &GIVEN.to_uppercase(),
            &format!("ff{}", &GIVEN[2..]),
            &format!("01{}.x", &GIVEN[2..]),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333\u{e9}-01",
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(NoTraceParent), "{text}");
        }
    }

    #[test]
    fn message_id_is_its_trace_id() {
        let mut message = fixture::message(MessageState::Claimed, |_| {});
        message.message_id = MessageId::new("019a1b2c-3d4e-7f50-8a6b-7c8d9eafb0c1");
        assert_eq!(
            message.trace_id().to_string(),
            "019a1b2c3d4e7f508a6b7c8d9eafb0c1"
        );
        assert_ne!(message.turn_span(1), message.turn_span(2));
        message.trace = Some(GIVEN.parse().unwrap());
        let given = message.trace_parent(message.root_span()).to_string();
        assert!(given.starts_with(&GIVEN[..36]), "{given}");
    }
}
