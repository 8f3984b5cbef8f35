//! What a Codex says about its own protocol, compared with the types that we write and read it with.
//!
//! The lists of what is compared come from the types themselves (`each_reader`, `each_method`, serialized samples).
//! How a type is walked belongs to `probe`, what we write to `samples` and `strict`, what a running Codex says to `live`.

mod document;
mod live;
mod minimal;
mod probe;
mod samples;
mod strict;
#[cfg(test)]
mod tests;

pub use document::{Schema, SchemaError};
pub use live::{LiveComparison, LiveMessage};

use crate::rpc::RawId;
use crate::wire::config::SandboxPolicy;
use crate::wire::error_info::ErrorInfo;
use crate::wire::method::{INITIALIZED, Method, MethodVisitor, each_method};
use crate::wire::server_request::{METHODS, RequestKind};
use crate::wire::thread::ThreadStatus;
use crate::wire::values::{GrantScope, each_word_list};
use crate::wire::{
    ReaderVisitor, RequestOutcome, ServerRequest, item, notification, server_request,
};
use document::Node;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// How bad a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It lacks something that we know: that never comes.
    Harmless,
    /// It says something that we do not know.
    BlindSpot,
    /// Something that we write is not taken as it is meant, or something that we need can't be read.
    Breaks,
}

/// One difference between a Codex and what we expect of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    pub what: String,
}

/// What is said of a word, an item or a request that only one side has decides its severity; everything else breaks.
impl From<String> for Finding {
    fn from(what: String) -> Self {
        let said = |words: &[&str]| words.iter().any(|words| what.contains(words));
        let severity = if said(&[LOST_WORD, NO_ITEM]) && !said(&VITAL_ITEMS) {
            Severity::Harmless
        } else if said(&[NEW_WORD, NEW_ITEM, NEW_REQUEST]) {
            Severity::BlindSpot
        } else {
            Severity::Breaks
        };
        Self { severity, what }
    }
}

impl Severity {
    /// Its word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Harmless => "harmless",
            Self::BlindSpot => "blind spot",
            Self::Breaks => "breaks",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity.as_str(), self.what)
    }
}

const LOST_WORD: &str = "codex no longer has the word";
const NEW_WORD: &str = "codex has the new word";
const NO_ITEM: &str = "codex has no such item";
const NEW_ITEM: &str = "an item we do not know";
const NEW_REQUEST: &str = "codex asks it, we do not know it";
/// Without these no turn can be followed.
const VITAL_ITEMS: [&str; 2] = ["userMessage: ", "agentMessage: "];

/// Every difference between our types and the schema.
#[must_use]
pub fn compare(schema: &Schema) -> Vec<Finding> {
    [
        requests,
        responses,
        notifications,
        items,
        server_requests,
        answers,
        words,
    ]
    .into_iter()
    .flat_map(|part| part(schema))
    .map(Finding::from)
    .collect()
}

/// What we write: the method exists, and so does every field and word.
fn requests(schema: &Schema) -> Vec<String> {
    let methods = schema.methods("ClientRequest");
    let mut found = Vec::new();
    for sample in samples::all() {
        match methods.get(sample.method) {
            Some(Some(params)) => match schema.file(params) {
                Some(node) => found.extend(strict::of_ours(&sample.params, node, sample.method)),
                None => found.push(format!("{}: no schema file {params}", sample.method)),
            },
            Some(None) => found.push(format!("{}: codex takes no params", sample.method)),
            None => found.push(format!("{}: codex has no such request", sample.method)),
        }
    }
    if !schema
        .methods("ClientNotification")
        .contains_key(INITIALIZED)
    {
        found.push(format!("{INITIALIZED}: codex has no such notification"));
    }
    found
}

/// Both ways of reading: every field of ours exists, and the least that may come is enough.
fn read<T: DeserializeOwned>(node: Node<'_>, path: &str) -> Vec<String> {
    let mut found = probe::fields::<T>(node, path);
    for least in minimal::values(node) {
        if let Err(error) = serde_json::from_value::<T>(least.clone()) {
            found.push(format!("{path}: codex may send {least}, we fail: {error}"));
        }
    }
    found
}

struct Responses<'a> {
    schema: &'a Schema,
    found: Vec<String>,
}

impl MethodVisitor for Responses<'_> {
    fn method<M: Method>(&mut self) {
        let methods = self.schema.methods("ClientRequest");
        let Some(Some(params)) = methods.get(M::NAME) else {
            return;
        };
        let name = params.replace("Params", "Response");
        match self.schema.file(&name) {
            Some(node) => self.found.extend(read::<M::Response>(node, &name)),
            None => self
                .found
                .push(format!("{}: no schema file {name}", M::NAME)),
        }
    }
}

fn responses(schema: &Schema) -> Vec<String> {
    let mut visitor = Responses {
        schema,
        found: Vec::new(),
    };
    each_method(&mut visitor);
    visitor.found
}

/// Readers that are chosen by a name: the place of the name in the schema, or a complaint.
struct Readers<'a> {
    place: &'a dyn Fn(&str) -> Result<Node<'a>, String>,
    found: Vec<String>,
}

impl ReaderVisitor for Readers<'_> {
    fn reader<T: DeserializeOwned>(&mut self, name: &'static str) {
        match (self.place)(name) {
            Ok(node) => self.found.extend(read::<T>(node, name)),
            Err(complaint) => self.found.push(format!("{name}: {complaint}")),
        }
    }
}

fn params_of<'a>(schema: &'a Schema, file: &str, method: &str) -> Result<Node<'a>, String> {
    let methods = schema.methods(file);
    let params = methods.get(method).ok_or("codex has no such message")?;
    let params = params.ok_or("codex sends no params")?;
    schema
        .file(params)
        .ok_or(format!("no schema file {params}"))
}

fn notifications(schema: &Schema) -> Vec<String> {
    let place = |method: &str| params_of(schema, "ServerNotification", method);
    let mut readers = Readers {
        place: &place,
        found: Vec::new(),
    };
    notification::each_reader(&mut readers);
    readers.found
}

fn items(schema: &Schema) -> Vec<String> {
    let Some(union) = schema.definition("ThreadItem") else {
        return vec!["ThreadItem: codex has no such definition".to_owned()];
    };
    let place = |kind: &str| union.tagged("type", kind).ok_or(NO_ITEM.to_owned());
    let mut readers = Readers {
        place: &place,
        found: Vec::new(),
    };
    item::each_reader(&mut readers);
    for kind in union.tags("type") {
        let Some(least) = least_item(union, kind) else {
            continue;
        };
        if let item::Item::Other(_) = item::Item::from_value(&least) {
            readers
                .found
                .push(format!("{kind}: {NEW_ITEM}; does it touch the world?"));
        }
    }
    readers.found
}

fn least_item(union: Node<'_>, kind: &str) -> Option<Value> {
    let node = union.tagged("type", kind)?;
    minimal::values(node).into_iter().next()
}

fn server_requests(schema: &Schema) -> Vec<String> {
    let place = |method: &str| params_of(schema, "ServerRequest", method);
    let mut readers = Readers {
        place: &place,
        found: Vec::new(),
    };
    server_request::each_reader(&mut readers);
    for method in schema.methods("ServerRequest").keys() {
        if !METHODS.contains(method) {
            readers.found.push(format!("{method}: {NEW_REQUEST}"));
        }
    }
    readers.found
}

/// Every answer we can build, against the response that Codex expects for that kind.
fn answers(schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    for (method, params) in schema.methods("ServerRequest") {
        let Some((asked, response)) = params.and_then(|params| {
            let response = schema.file(&params.replace("Params", "Response"))?;
            Some((schema.file(params)?, response))
        }) else {
            found.push(format!("{method}: no schema of params and response"));
            continue;
        };
        for least in minimal::values(asked) {
            let request = ServerRequest::parse(RawId::Integer(0), method.to_owned(), least);
            for outcome in every_answer(&request) {
                if let RequestOutcome::Result(result) = outcome {
                    found.extend(strict::of_ours(&result, response, method));
                } else if is_decidable(&request) {
                    found.push(format!("{method}: has no refusal of its own"));
                }
            }
        }
    }
    found
}

fn every_answer(request: &ServerRequest) -> Vec<RequestOutcome> {
    let given = BTreeMap::from([("q".to_owned(), vec!["a".to_owned()])]);
    let granted = json!({"network": {"enabled": true}});
    let maybe = [
        request.accept(),
        request.accept_for_session(),
        request.grant(&granted, &GrantScope::Session),
        request.answer(&given),
        request.fill_in(json!({"a": 1})),
        request.tool_result("text", true),
        request.tell_time(1),
    ];
    let mut outcomes = vec![request.decline(), request.cancel()];
    outcomes.extend(maybe.into_iter().flatten());
    outcomes
}

/// Kinds that a person decides must be refused in their own shape, never by an error.
fn is_decidable(request: &ServerRequest) -> bool {
    match request.kind {
        RequestKind::Command(_)
        | RequestKind::FileChange(_)
        | RequestKind::Permissions(_)
        | RequestKind::UserInput(_)
        | RequestKind::Elicitation(_)
        | RequestKind::ToolCall(_)
        | RequestKind::LegacyPatch(_)
        | RequestKind::LegacyExec(_) => true,
        RequestKind::AuthRefresh(_)
        | RequestKind::Attestation
        | RequestKind::CurrentTime(_)
        | RequestKind::Unknown { .. } => false,
    }
}

fn words(schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    each_word_list(&mut |name, ours| {
        let theirs = schema.definition(name).map(Node::words).unwrap_or_default();
        found.extend(lost(name, ours, &theirs));
        let news = theirs.iter().filter(|word| !ours.contains(word));
        found.extend(news.map(|word| format!("{name}: {NEW_WORD} {word:?}")));
    });
    let info = schema.definition("CodexErrorInfo");
    found.extend(lost(
        "CodexErrorInfo",
        &ErrorInfo::words(),
        &info.map(Node::words).unwrap_or_default(),
    ));
    for name in ErrorInfo::OBJECTS {
        let status = info
            .and_then(|info| info.property(name))
            .and_then(|object| object.property("httpStatusCode"));
        if status.is_none() {
            found.push(format!(
                "CodexErrorInfo.{name}.httpStatusCode: codex no longer has it"
            ));
        }
    }
    for (name, ours) in [
        ("SandboxPolicy", SandboxPolicy::KINDS),
        ("ThreadStatus", ThreadStatus::KINDS),
    ] {
        let theirs = schema.definition(name).map(|node| node.tags("type"));
        found.extend(lost(name, ours, &theirs.unwrap_or_default()));
    }
    found
}

fn lost(name: &str, ours: &[&str], theirs: &[&str]) -> Vec<String> {
    let lost = ours.iter().filter(|word| !theirs.contains(word));
    lost.map(|word| format!("{name}: {LOST_WORD} {word:?}"))
        .collect()
}
