//! OTLP's messages for traces as JSON: the few of `ExportTraceServiceRequest` that spans of ours need.
//!
//! OTLP/JSON differs from ProtoJSON in that ids are hexadecimal and enums are numbers; 64-bit numbers are texts in both.

use bridge_core::trace::{Attribute, Nanos, Span, SpanKind};
use serde::Deserialize;
use serde_json::{Value, json};

/// `STATUS_CODE_ERROR`.
const FAILED: u8 = 2;

/// One request with these spans; `resource` says what program and node they are of.
pub(super) fn request(resource: &[(&'static str, String)], spans: &[Span]) -> Value {
    let resource = resource
        .iter()
        .map(|(name, text)| key_value(name, &text.as_str().into()));
    let scope = json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{
        "resource": {"attributes": resource.collect::<Vec<Value>>()},
        "scopeSpans": [{"scope": scope, "spans": spans.iter().map(span).collect::<Vec<Value>>()}],
    }]})
}

fn span(span: &Span) -> Value {
    let attributes = span
        .attributes
        .iter()
        .map(|(name, value)| key_value(name, value));
    let mut told = json!({
        "traceId": span.trace_id.to_string(),
        "spanId": span.span_id.to_string(),
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": nanos(span.start),
        "endTimeUnixNano": nanos(span.end),
        "attributes": attributes.collect::<Vec<Value>>(),
    });
    let mut add = |name: &str, value: Value| {
        if let Some(told) = told.as_object_mut() {
            told.insert(name.to_owned(), value);
        }
    };
    if let Some(parent) = span.parent {
        add("parentSpanId", parent.to_string().into());
    }
    if let Some(why) = &span.error {
        let why = why.as_deref().unwrap_or_default();
        add("status", json!({"code": FAILED, "message": why}));
    }
    told
}

fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

fn nanos(at: Nanos) -> String {
    at.0.to_string()
}

fn key_value(key: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
        Attribute::Flag(flag) => json!({"boolValue": flag}),
    };
    json!({"key": key, "value": value})
}

/// What a receiver says that took a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ExportResponse {
    partial_success: Option<PartialSuccess>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    /// A number, or a text as ProtoJSON has it.
    rejected_spans: Value,
}

impl ExportResponse {
    /// Spans of the request that the receiver did not take, for good.
    pub(super) fn rejected(&self) -> u64 {
        let rejected = self
            .partial_success
            .as_ref()
            .map(|partial| &partial.rejected_spans);
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        rejected.and_then(number).unwrap_or(0)
    }
}
