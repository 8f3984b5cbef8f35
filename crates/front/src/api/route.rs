//! A row of the route table. Router, OpenAPI document and the test of refusals are built from the rows.

use super::Context;
use crate::BridgeService;
use crate::control::Scope;
use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
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
    /// A platform that pushes messages, by the secret that it gave us.
    Platform,
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

type RouteHandler<D> = Box<dyn FnOnce(&Context<D>) -> MethodRouter<Context<D>>>;

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
    pub(crate) handler: RouteHandler<D>,
}

impl<D: BridgeService> Route<D> {
    fn new(
        verb: Verb,
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: RouteHandler<D>,
    ) -> Self {
        Self {
            verb,
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

    pub(crate) fn get<T: 'static>(
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: impl Handler<T, Context<D>>,
    ) -> Self {
        let handler = Box::new(|_: &Context<D>| routing::get(handler));
        Self::new(Verb::Get, path, access, summary, handler)
    }

    pub(crate) fn post<T: 'static>(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: impl Handler<T, Context<D>>,
    ) -> Self {
        let handler = Box::new(|_: &Context<D>| routing::post(handler));
        let route = Self::new(Verb::Post, path, access, summary, handler);
        Self { trace, ..route }
    }

    pub(crate) fn delete<T: 'static>(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: impl Handler<T, Context<D>>,
    ) -> Self {
        let handler = Box::new(|_: &Context<D>| routing::delete(handler));
        let route = Self::new(Verb::Delete, path, access, summary, handler);
        Self { trace, ..route }
    }

    /// A protocol behind one path, which checks scopes beyond `access` itself. `handler` is called once per router,
    /// because the protocol may keep sessions.
    pub(crate) fn any(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        let route = Self::new(Verb::Any, path, access, summary, Box::new(handler));
        Self { trace, ..route }.waits()
    }

    /// The call may wait or stream, and has deadlines of its own.
    pub(crate) fn waits(mut self) -> Self {
        self.pace = CallDeadline::Stream;
        self
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
        self.headers = &[("Last-Event-ID", "The id of the last event that was seen")];
        self.waits().answers_media("text/event-stream")
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
