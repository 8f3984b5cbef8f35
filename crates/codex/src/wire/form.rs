//! Whether an answer fits the form of an MCP server: as much of JSON schema as such forms may use.
//!
//! Codex passes on whatever it is given and the server then fails the tool, so a wrong answer is caught here, while
//! the question is still open. Complaints name the field and what it takes.

use serde_json::{Map, Value};

/// Why `content` does not fit `schema`; `None` when it does. A schema that says nothing takes any object.
pub(super) fn mismatch(schema: &Value, content: &Value) -> Option<String> {
    let Some(given) = content.as_object() else {
        return Some("the form takes an object of its fields".to_owned());
    };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties.unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|name| given.get(*name).is_none_or(Value::is_null));
    if let Some(name) = missing {
        return Some(format!("the form needs `{name}`"));
    }
    given
        .iter()
        .find_map(|(name, value)| match fields.get(name) {
            Some(field) => field_mismatch(field, value).map(|why| format!("`{name}` {why}")),
            None if properties.is_none() => None,
            None => Some(format!(
                "the form has no `{name}`, only {}",
                names(fields.keys().map(String::as_str))
            )),
        })
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() {
        "no field at all".to_owned()
    } else {
        quoted.join(", ")
    }
}

fn field_mismatch(field: &Value, value: &Value) -> Option<String> {
    let kind = field.get("type").and_then(Value::as_str);
    let fits = match kind {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some(_) | None => true,
    };
    if !fits {
        return Some(format!("takes {}", kind.unwrap_or("something else")));
    }
    choice_mismatch(field, value)
        .or_else(|| size_mismatch(field, value))
        .or_else(|| items_mismatch(field, value))
}

fn items_mismatch(field: &Value, value: &Value) -> Option<String> {
    let items = field.get("items")?;
    value
        .as_array()?
        .iter()
        .find_map(|item| field_mismatch(items, item))
}

/// `enum`, or titled choices under `oneOf` and `anyOf`.
fn choice_mismatch(field: &Value, value: &Value) -> Option<String> {
    let plain = field.get("enum").and_then(Value::as_array);
    let titled = ["oneOf", "anyOf"]
        .into_iter()
        .find_map(|key| field.get(key).and_then(Value::as_array));
    let choices: Vec<&Value> = match (plain, titled) {
        (Some(plain), _) => plain.iter().collect(),
        (None, Some(titled)) => titled.iter().filter_map(|one| one.get("const")).collect(),
        (None, None) => return None,
    };
    let fits = choices.is_empty() || choices.contains(&value);
    (!fits).then(|| format!("takes {}", names(choices.iter().filter_map(|v| v.as_str()))))
}

fn size_mismatch(field: &Value, value: &Value) -> Option<String> {
    let number = |key: &str| field.get(key).and_then(Value::as_f64);
    let count = |key: &str| {
        let count = field.get(key).and_then(Value::as_u64);
        count.and_then(|count| usize::try_from(count).ok())
    };
    let (size, least, most, what) = match value {
        Value::String(text) => (text.chars().count(), "minLength", "maxLength", "characters"),
        Value::Array(items) => (items.len(), "minItems", "maxItems", "choices"),
        Value::Number(given) => {
            let given = given.as_f64()?;
            return match (number("minimum"), number("maximum")) {
                (Some(least), _) if given < least => Some(format!("must be at least {least}")),
                (_, Some(most)) if given > most => Some(format!("must be at most {most}")),
                (Some(_) | None, Some(_) | None) => None,
            };
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => return None,
    };
    match (count(least), count(most)) {
        (Some(least), _) if size < least => Some(format!("needs at least {least} {what}")),
        (_, Some(most)) if size > most => Some(format!("takes at most {most} {what}")),
        (Some(_) | None, Some(_) | None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 4},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "size": {"type": "number"},
            "sure": {"type": "boolean"},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "pet": {"type": "string", "oneOf": [{"const": "cat", "title": "Cat"}]},
            "tags": {"type": "array", "maxItems": 2, "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        }})
    }

    #[test]
    fn what_fits_is_taken() {
        let all = json!({"name": "Ann", "count": 3, "size": 1.5, "sure": true, "color": "red",
                         "pet": "cat", "tags": ["a"]});
        assert_eq!(mismatch(&schema(), &all), None);
        assert_eq!(mismatch(&json!({}), &json!({"any": "thing"})), None);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (content, why) in [
            (json!("Ann"), "the form takes an object of its fields"),
            (json!({}), "the form needs `name`"),
            (json!({"name": null}), "the form needs `name`"),
            (json!({"name": 7}), "`name` takes string"),
            (json!({"name": "A"}), "`name` needs at least 2 characters"),
            (
                json!({"name": "Annabel"}),
                "`name` takes at most 4 characters",
            ),
            (
                json!({"name": "Ann", "count": 1.5}),
                "`count` takes integer",
            ),
            (
                json!({"name": "Ann", "count": 0}),
                "`count` must be at least 1",
            ),
            (
                json!({"name": "Ann", "count": 10}),
                "`count` must be at most 9",
            ),
            (
                json!({"name": "Ann", "sure": "yes"}),
                "`sure` takes boolean",
            ),
            (
                json!({"name": "Ann", "color": "green"}),
                "`color` takes `red`, `blue`",
            ),
            (json!({"name": "Ann", "pet": "dog"}), "`pet` takes `cat`"),
            (
                json!({"name": "Ann", "tags": ["a", "a", "a"]}),
                "`tags` takes at most 2 choices",
            ),
            (json!({"name": "Ann", "tags": ["b"]}), "`tags` takes `a`"),
        ] {
            assert_eq!(
                mismatch(&schema(), &content).as_deref(),
                Some(why),
                "{content}"
            );
        }
        let unknown = mismatch(&schema(), &json!({"name": "Ann", "nmae": "x"})).unwrap();
        assert!(
            unknown.starts_with("the form has no `nmae`, only `"),
            "{unknown}"
        );
    }
}
