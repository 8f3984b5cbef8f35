//! The least that Codex may send: only required fields, `null` wherever it is allowed.
//!
//! Our readers must live with it.

use serde_json::{Map, Value, json};

use super::document::Node;

/// One minimal value per alternative of the schema.
pub(super) fn values(schema: Node<'_>) -> Vec<Value> {
    schema.alternatives().into_iter().map(value).collect()
}

fn value(schema: Node<'_>) -> Value {
    if schema.takes("null") {
        return Value::Null;
    }
    let Some(node) = schema.alternatives().into_iter().next() else {
        return Value::Null;
    };
    if let Some(word) = node.words().first() {
        return json!(word);
    }
    if node.has_fields() {
        return object(node);
    }
    match node.at["type"].as_str() {
        Some("string") => json!("x"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some(_) | None => json!({}),
    }
}

fn object(node: Node<'_>) -> Value {
    let fields = node.required().into_iter().filter_map(|name| {
        let field = node.own_property(name)?;
        Some((name.to_owned(), value(field)))
    });
    Value::Object(fields.collect::<Map<_, _>>())
}
