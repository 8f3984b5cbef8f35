//! Where a value differs from a schema, strictly: a name that the schema does not have is a difference, because Codex
//! ignores an unknown field of ours without a word, and we one of Codex.

use super::document::Node;
use serde_json::Value;

/// One difference, with the path of the place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) kind: DifferenceKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DifferenceKind {
    /// A value of a JSON type that does not fit.
    Type { kind: &'static str, value: Value },
    /// A word that the schema does not list, with those that it does.
    Word { value: Value, known: Value },
    /// A required member that is not there.
    Missing,
    /// A member that the schema does not have, with the members that it has and the value has not.
    Unknown { absent: Vec<String> },
}

impl Difference {
    fn new(path: &str, kind: DifferenceKind) -> Self {
        let path = path.to_owned();
        Self { path, kind }
    }

    /// As a clause about something that we write.
    pub(super) fn of_ours(&self) -> String {
        let path = &self.path;
        match &self.kind {
            DifferenceKind::Type { kind, value } => {
                format!("{path}: we write {kind} ({value}), codex takes something else")
            }
            DifferenceKind::Word { value, known } => {
                format!("{path}: we write {value}, codex knows {known}")
            }
            DifferenceKind::Missing => format!("{path}: codex requires it, we do not write it"),
            DifferenceKind::Unknown { .. } => {
                format!("{path}: we write it, codex does not know it")
            }
        }
    }

    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        let last = self.path.rsplit('.').next().unwrap_or_default();
        last.trim_end_matches("[]")
    }
}

/// The differences of `value` from `schema`.
pub(super) fn differences(value: &Value, schema: Node<'_>, path: &str) -> Vec<Difference> {
    let tried = schema
        .alternatives()
        .into_iter()
        .map(|node| against(value, node, path));
    tried.min_by_key(Vec::len).unwrap_or_default()
}

/// The same as clauses about something that we write.
pub(super) fn of_ours(value: &Value, schema: Node<'_>, path: &str) -> Vec<String> {
    let found = differences(value, schema, path);
    found.iter().map(Difference::of_ours).collect()
}

fn against(value: &Value, node: Node<'_>, path: &str) -> Vec<Difference> {
    if !node.takes(kind(value)) {
        let kind = DifferenceKind::Type {
            kind: kind(value),
            value: value.clone(),
        };
        return vec![Difference::new(path, kind)];
    }
    if let Some(words) = node.at["enum"]
        .as_array()
        .filter(|words| !words.contains(value))
    {
        let kind = DifferenceKind::Word {
            value: value.clone(),
            known: Value::from(words.clone()),
        };
        return vec![Difference::new(path, kind)];
    }
    match value {
        Value::Object(members) => {
            let mut found = missing(value, node, path);
            for (name, member) in members {
                let path = format!("{path}.{name}");
                match node.own_property(name) {
                    Some(property) => found.extend(differences(member, property, &path)),
                    None if is_open(node) => {}
                    None => {
                        let absent = node
                            .own_properties()
                            .filter(|name| value.get(name).is_none());
                        let absent = absent.map(str::to_owned).collect();
                        found.push(Difference::new(&path, DifferenceKind::Unknown { absent }));
                    }
                }
            }
            found
        }
        Value::Array(items) => items
            .iter()
            .filter_map(|item| Some((item, node.items()?)))
            .flat_map(|(item, schema)| differences(item, schema, &format!("{path}[]")))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn missing(value: &Value, node: Node<'_>, path: &str) -> Vec<Difference> {
    let required = node.required().into_iter();
    required
        .filter(|name| value.get(name).is_none())
        .map(|name| Difference::new(&format!("{path}.{name}"), DifferenceKind::Missing))
        .collect()
}

/// A map with keys of the sender's choice, or a place without any statement.
fn is_open(node: Node<'_>) -> bool {
    match node.at.get("additionalProperties") {
        Some(Value::Bool(open)) => *open,
        Some(_) => true,
        None => !node.has_fields(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
