//! A row of the route table. Router, OpenAPI document and the test of refusals are built from the rows.

use super::Context;
use crate::control::Scope;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads only.
    Get,
    Post,
    Delete,
    /// Any method; the protocol behind the route decides (MCP).
    Any,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody; it reveals nothing.
    Public,
    /// Callers with this scope.
    Scope(Scope),
}

/// The record that a call leaves (threat 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// None: it changes nothing.
    Nothing,
    /// An audit entry with one of these verbs.
    Audit(&'static [&'static str]),
    /// A row that names its author, as a message names its sender.
    Row,
    /// A row if it is about a task, otherwise an audit entry with one of these verbs.
    RowOrAudit(&'static [&'static str]),
}

/// The deadline of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallDeadline {
    /// As long as [`super::limits::CALL_DEADLINE`].
    Call,
    /// None: it streams as long as the client reads.
    Stream,
}

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The form of a successful response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Good {
    /// JSON with this schema.
    Json(SchemaOf),
    /// Another media type.
    Media(&'static str),
}

/// One row of the table.
pub(crate) struct Route<D> {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) summary: &'static str,
    pub(crate) trace: Trace,
    pub(crate) pace: CallDeadline,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(crate) good: Good,
    pub(crate) statuses: &'static [u16],
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Called once per router, because some handlers keep sessions.
    pub(crate) handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
}

impl<D> Route<D> {
    pub(crate) fn get(
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        Self {
            verb: Verb::Get,
            path,
            access,
            summary,
            trace: Trace::Nothing,
            pace: CallDeadline::Call,
            query: None,
            body: None,
            good: Good::Media("application/json"),
            statuses: &[200],
            headers: &[],
            handler,
        }
    }

    pub(crate) fn post(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        Self {
            verb: Verb::Post,
            trace,
            ..Self::get(path, access, summary, handler)
        }
    }

    pub(crate) fn delete(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        Self {
            verb: Verb::Delete,
            ..Self::post(path, access, trace, summary, handler)
        }
    }

    /// A protocol behind one path, which checks scopes beyond `access` itself.
    pub(crate) fn any(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        Self {
            verb: Verb::Any,
            pace: CallDeadline::Stream,
            ..Self::post(path, access, trace, summary, handler)
        }
    }

    /// Adds query parameters.
    pub(crate) fn asks<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// Adds a request body.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(reference::<T>);
        self
    }

    /// Sets the JSON response.
    pub(crate) fn answers<T: JsonSchema>(mut self) -> Self {
        self.good = Good::Json(reference::<T>);
        self
    }

    /// Sets a response that is not JSON.
    pub(crate) fn answers_media(mut self, media: &'static str) -> Self {
        self.good = Good::Media(media);
        self
    }

    /// Responds with server-sent events.
    pub(crate) fn streams(mut self) -> Self {
        self.pace = CallDeadline::Stream;
        self.headers = &[("Last-Event-ID", "The id of the last event that was seen")];
        self.answers_media("text/event-stream")
    }

    /// Sets the success statuses, if not 200.
    pub(crate) fn with_statuses(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// Adds request headers.
    pub(crate) fn with_headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
