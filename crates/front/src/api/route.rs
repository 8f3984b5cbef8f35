//! What one route is: the rows of the table that the router, the OpenAPI document and the test of refusals are made
//! from. There is no other way to add a route.

use super::Context;
use crate::control::Scope;
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// How a route is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Looks, and changes nothing.
    Get,
    /// Acts.
    Post,
    /// Removes.
    Delete,
    /// A protocol of its own decides by the method: MCP.
    Any,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who can reach it: it tells nothing.
    Public,
    /// Whoever holds this scope.
    Scope(Scope),
}

/// What a call leaves behind for whoever asks later who did what (threat 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It changes nothing.
    Nothing,
    /// An entry in the audit, with one of these words.
    Audit(&'static [&'static str]),
    /// A row that names who made it: a message names its sender.
    Row,
    /// A row where it is about a task, and an entry in the audit with one of these words where it is not.
    RowOrAudit(&'static [&'static str]),
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As long as [`super::limits::CALL_DEADLINE`].
    Call,
    /// It streams for as long as somebody reads.
    Stream,
}

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a good answer looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Good {
    /// JSON of this shape.
    Json(SchemaOf),
    /// Something else, of this media type.
    Media(&'static str),
}

/// One row of the table.
pub(crate) struct Route<D> {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) summary: &'static str,
    pub(crate) trace: Trace,
    pub(crate) pace: Pace,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(crate) good: Good,
    pub(crate) statuses: &'static [u16],
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Made when the router is, because some handlers keep sessions.
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
            pace: Pace::Call,
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

    /// A protocol of its own behind one path; what it lets a caller do is its own business beside `access`.
    pub(crate) fn any(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        Self {
            verb: Verb::Any,
            pace: Pace::Stream,
            ..Self::post(path, access, trace, summary, handler)
        }
    }

    /// What it takes behind the `?`.
    pub(crate) fn asks<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// What it takes as a body.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(reference::<T>);
        self
    }

    /// What it answers.
    pub(crate) fn answers<T: JsonSchema>(mut self) -> Self {
        self.good = Good::Json(reference::<T>);
        self
    }

    /// What it answers where that is no JSON.
    pub(crate) fn answers_media(mut self, media: &'static str) -> Self {
        self.good = Good::Media(media);
        self
    }

    /// Server-sent events.
    pub(crate) fn streams(mut self) -> Self {
        self.pace = Pace::Stream;
        self.headers = &[("Last-Event-ID", "The id of the last event that was seen")];
        self.answers_media("text/event-stream")
    }

    /// Its good statuses, where they are not 200.
    pub(crate) fn with_statuses(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// Headers that it looks at.
    pub(crate) fn with_headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
