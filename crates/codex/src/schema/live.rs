//! What a running Codex says, compared with the schema that the same Codex generates. Where the two differ, the schema
//! does not tell what to expect of it.

use super::document::{Node, Schema};
use super::probe;
use super::strict::{Difference, DifferenceKind, differences};
use super::{Finding, Severity};
use crate::wire::method::{Method, MethodVisitor, each_method};
use crate::wire::{ReaderVisitor, item, notification, server_request};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// A message of Codex, as far as the schema speaks of it.
#[derive(Debug, Clone, Copy)]
pub enum LiveMessage<'a> {
    Notification {
        method: &'a str,
        params: &'a Value,
    },
    Request {
        method: &'a str,
        params: &'a Value,
    },
    /// The answer to a request of ours.
    Response {
        method: &'a str,
        result: &'a Value,
    },
}

/// A schema, and the names of the members that we read anywhere.
#[derive(Debug)]
pub struct LiveComparison {
    schema: Schema,
    read: BTreeSet<&'static str>,
}

impl LiveComparison {
    pub fn new(schema: Schema) -> Self {
        let mut names = Names(BTreeSet::new());
        each_method(&mut names);
        notification::each_reader(&mut names);
        server_request::each_reader(&mut names);
        item::each_reader(&mut names);
        Self {
            schema,
            read: names.0,
        }
    }

    /// How this message differs from the schema; nothing about a message that the schema does not have.
    pub fn compare(&self, message: LiveMessage<'_>) -> Vec<Finding> {
        let (method, value, node) = match message {
            LiveMessage::Notification { method, params } => {
                (method, params, self.params("ServerNotification", method))
            }
            LiveMessage::Request { method, params } => {
                (method, params, self.params("ServerRequest", method))
            }
            LiveMessage::Response { method, result } => (method, result, self.response(method)),
        };
        let found = node.map_or_else(Vec::new, |node| differences(value, node, method));
        found.iter().map(|found| self.finding(found)).collect()
    }

    fn params(&self, file: &str, method: &str) -> Option<Node<'_>> {
        let params = self.schema.methods(file).get(method).copied()??;
        self.schema.file(params)
    }

    fn response(&self, method: &str) -> Option<Node<'_>> {
        let params = self
            .schema
            .methods("ClientRequest")
            .get(method)
            .copied()??;
        self.schema.file(&params.replace("Params", "Response"))
    }

    /// A difference matters where we read the member.
    fn finding(&self, found: &Difference) -> Finding {
        let path = &found.path;
        let reads = |name: &str| self.read.contains(name);
        let (matters, what) = match &found.kind {
            DifferenceKind::Missing => (
                reads(found.name()),
                format!("{path}: its own schema requires it, and it does not send it"),
            ),
            DifferenceKind::Unknown { absent } => {
                let ours: Vec<_> = absent.iter().filter(|name| reads(name)).collect();
                let instead = ours.first().map(|name| format!(", and sends no `{name}`"));
                let what = format!(
                    "{path}: it sends a member that its own schema does not have{}",
                    instead.unwrap_or_default()
                );
                (!ours.is_empty(), what)
            }
            DifferenceKind::Type { kind, .. } => (
                reads(found.name()),
                format!("{path}: it sends {kind}, which its own schema does not allow"),
            ),
            DifferenceKind::Word { value, .. } => (
                reads(found.name()),
                format!("{path}: it says {value}, which its own schema does not list"),
            ),
        };
        let severity = if matters {
            Severity::Breaks
        } else {
            Severity::BlindSpot
        };
        Finding { severity, what }
    }
}

struct Names(BTreeSet<&'static str>);

impl ReaderVisitor for Names {
    fn reader<T: DeserializeOwned>(&mut self, _name: &'static str) {
        self.0.extend(probe::names::<T>());
    }
}

impl MethodVisitor for Names {
    fn method<M: Method>(&mut self) {
        self.0.extend(probe::names::<M::Response>());
    }
}
