//! One connection to Codex without the connection: pending requests, their deadlines, and what
//! comes in, sorted.
//!
//! The async host owns sockets and waiters; it writes the texts this module returns and passes in
//! the texts it reads. Folding notifications into a turn belongs to [`crate::turn`].

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::rpc::{self, RawId, RpcError, RpcMessage};
use crate::text::one_line;
use crate::wire::{Method, Notification, RequestOutcome, ServerRequest};

/// Requests that may wait at once. Codex's queues hold 128; a burst over stdio beyond that loses
/// requests without any answer (measured: 92 of 500), at 200 none was lost.
pub const MAX_IN_FLIGHT: usize = 64;

/// Unknown methods that are counted by name; all further names share one count.
pub const MAX_COUNTED_METHODS: usize = 64;

/// Name under which unknown methods beyond [`MAX_COUNTED_METHODS`] are counted.
pub const FURTHER_METHODS: &str = "(further methods)";

/// Longest method name kept in the counters.
const MAX_METHOD_BYTES: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOptions {
    pub max_in_flight: usize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            max_in_flight: MAX_IN_FLIGHT,
        }
    }
}

/// One request of ours, known by the id it has on the wire. Never reused on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(i64);

#[derive(Debug, Error)]
pub enum LinkError {
    #[error("{in_flight} requests wait for codex already; wait for one to end and send again")]
    Full { in_flight: usize },
    #[error("the params of {method} could not be written as json")]
    Encode {
        method: &'static str,
        source: serde_json::Error,
    },
}

/// A message from Codex after the link has sorted it.
#[derive(Debug, Clone, PartialEq)]
pub enum LinkEvent {
    Response {
        call: CallId,
        result: Result<Value, RpcError>,
        /// How long Codex took.
        elapsed_ms: u64,
    },
    /// Codex asks; answer with [`Link::respond`].
    Request(ServerRequest),
    /// Typed, or known but malformed. Unknown ones are counted and ignored.
    Notification(Notification),
    Ignored(Ignored),
}

/// Why a text was dropped. None of these ends the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ignored {
    /// A response to a request that was already answered or given up.
    LateResponse {
        call: CallId,
    },
    /// A response with an id we never sent.
    ForeignResponse {
        id: RawId,
    },
    UnknownNotification {
        method: String,
    },
    Malformed {
        why: String,
    },
}

/// Messages dropped so far, for metrics and `doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkCounters {
    pub late_responses: u64,
    pub foreign_responses: u64,
    pub malformed_lines: u64,
    /// Known notifications whose params did not read: the protocol has drifted.
    pub malformed_notifications: u64,
    /// By method, bounded by [`MAX_COUNTED_METHODS`].
    pub unknown_notifications: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy)]
struct PendingCall {
    sent_ms: u64,
    deadline_ms: u64,
}

/// The pending table of one connection.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    next: i64,
    pending: BTreeMap<CallId, PendingCall>,
    counters: LinkCounters,
}

#[derive(Serialize)]
struct RequestText<'a, P> {
    id: i64,
    method: &'a str,
    params: &'a P,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceText>,
}

/// W3C trace context, as Codex takes it in a request.
#[derive(Serialize)]
struct TraceText {
    traceparent: String,
}

impl Link {
    pub fn new(options: LinkOptions) -> Self {
        Self {
            options,
            next: 1,
            pending: BTreeMap::new(),
            counters: LinkCounters::default(),
        }
    }

    /// Registers a request and returns the text to write. When the text then can not be written,
    /// the whole link is broken: end it with [`Link::fail_all`].
    pub fn request<M: Method>(
        &mut self,
        params: &M::Params,
        now_ms: u64,
    ) -> Result<(CallId, String), LinkError> {
        let in_flight = self.pending.len();
        if in_flight >= self.options.max_in_flight {
            return Err(LinkError::Full { in_flight });
        }
        let call = CallId(self.next);
        let text = serde_json::to_string(&RequestText {
            id: call.0,
            method: M::NAME,
            params,
            trace: M::trace(params).map(|parent| TraceText {
                traceparent: parent.to_string(),
            }),
        })
        .map_err(|source| LinkError::Encode {
            method: M::NAME,
            source,
        })?;
        self.next = self.next.saturating_add(1);
        self.pending.insert(
            call,
            PendingCall {
                sent_ms: now_ms,
                deadline_ms: now_ms.saturating_add(M::deadline_ms()),
            },
        );
        Ok((call, text))
    }

    /// The text of a notification without params, such as [`crate::wire::method::INITIALIZED`].
    pub fn notify(&self, method: &str) -> String {
        let method = ("method".to_owned(), Value::from(method));
        Value::Object([method].into_iter().collect()).to_string()
    }

    /// The text that answers a request of Codex, with its id exactly as it came.
    pub fn respond(&self, id: &RawId, outcome: RequestOutcome) -> String {
        let (member, value) = match outcome {
            RequestOutcome::Result(result) => ("result", result),
            RequestOutcome::Error(error) => ("error", Value::from(error)),
        };
        let id = ("id".to_owned(), Value::from(id.clone()));
        Value::Object([id, (member.to_owned(), value)].into_iter().collect()).to_string()
    }

    /// Sorts one text from Codex.
    pub fn handle(&mut self, text: &str, now_ms: u64) -> LinkEvent {
        match rpc::parse(text) {
            RpcMessage::Response { id, result } => self.response(id, result, now_ms),
            RpcMessage::Request { id, method, params } => {
                LinkEvent::Request(ServerRequest::parse(id, method, params))
            }
            RpcMessage::Notification { method, params } => self.notification(&method, &params),
            RpcMessage::Malformed { why } => {
                self.counters.malformed_lines += 1;
                LinkEvent::Ignored(Ignored::Malformed { why })
            }
        }
    }

    /// Gives up the requests whose deadline has passed. Their outcome is unknown, not "no".
    pub fn expire(&mut self, now_ms: u64) -> Vec<CallId> {
        self.pending
            .extract_if(.., |_, pending| pending.deadline_ms <= now_ms)
            .map(|(call, _)| call)
            .collect()
    }

    /// When [`Link::expire`] has something to do next.
    pub fn next_deadline(&self) -> Option<u64> {
        self.pending
            .values()
            .map(|pending| pending.deadline_ms)
            .min()
    }

    /// The connection is gone: every pending request, oldest first. Their outcome is unknown.
    pub fn fail_all(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.pending).into_keys().collect()
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    fn response(&mut self, id: RawId, result: Result<Value, RpcError>, now_ms: u64) -> LinkEvent {
        let RawId::Integer(number) = id else {
            self.counters.foreign_responses += 1;
            return LinkEvent::Ignored(Ignored::ForeignResponse { id });
        };
        let call = CallId(number);
        if let Some(pending) = self.pending.remove(&call) {
            return LinkEvent::Response {
                call,
                result,
                elapsed_ms: now_ms.saturating_sub(pending.sent_ms),
            };
        }
        if (1..self.next).contains(&number) {
            self.counters.late_responses += 1;
            return LinkEvent::Ignored(Ignored::LateResponse { call });
        }
        self.counters.foreign_responses += 1;
        LinkEvent::Ignored(Ignored::ForeignResponse { id })
    }

    fn notification(&mut self, method: &str, params: &Value) -> LinkEvent {
        match Notification::parse(method, params) {
            Notification::Unknown { method } => {
                self.count_unknown(&method);
                LinkEvent::Ignored(Ignored::UnknownNotification { method })
            }
            malformed @ Notification::Malformed { .. } => {
                self.counters.malformed_notifications += 1;
                LinkEvent::Notification(malformed)
            }
            known => LinkEvent::Notification(known),
        }
    }

    fn count_unknown(&mut self, method: &str) {
        let counts = &mut self.counters.unknown_notifications;
        let name = one_line(method, MAX_METHOD_BYTES);
        let name = if counts.contains_key(&name) || counts.len() < MAX_COUNTED_METHODS {
            name
        } else {
            FURTHER_METHODS.to_owned()
        };
        *counts.entry(name).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
