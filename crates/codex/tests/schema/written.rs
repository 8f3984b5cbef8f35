//! Checks what we write against a schema, strictly.
//!
//! Codex ignores an unknown field without a word, so a name that the schema does not have is an
//! error here.

use serde_json::Value;

use crate::schema::Node;

/// Complaints about `value` as an instance of `schema`.
pub(crate) fn complaints(value: &Value, schema: Node<'_>, path: &str) -> Vec<String> {
    let tried = schema
        .alternatives()
        .into_iter()
        .map(|node| against(value, node, path));
    tried.min_by_key(Vec::len).unwrap_or_default()
}

fn against(value: &Value, node: Node<'_>, path: &str) -> Vec<String> {
    if !node.takes(kind(value)) {
        return vec![format!(
            "{path}: we write {} ({value}), codex takes something else",
            kind(value)
        )];
    }
    if let Some(words) = node.at["enum"]
        .as_array()
        .filter(|words| !words.contains(value))
    {
        let words = Value::from(words.clone());
        return vec![format!("{path}: we write {value}, codex knows {words}")];
    }
    match value {
        Value::Object(members) => {
            let mut found = missing(value, node, path);
            for (name, member) in members {
                let path = format!("{path}.{name}");
                match node.own_property(name) {
                    Some(property) => found.extend(complaints(member, property, &path)),
                    None if is_open(node) => {}
                    None => found.push(format!("{path}: we write it, codex does not know it")),
                }
            }
            found
        }
        Value::Array(items) => items
            .iter()
            .filter_map(|item| Some((item, node.items()?)))
            .flat_map(|(item, schema)| complaints(item, schema, &format!("{path}[]")))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn missing(value: &Value, node: Node<'_>, path: &str) -> Vec<String> {
    let required = node.required().into_iter();
    required
        .filter(|name| value.get(name).is_none())
        .map(|name| format!("{path}.{name}: codex requires it, we do not write it"))
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
