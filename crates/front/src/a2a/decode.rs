//! Decodes requests as ProtoJSON before the official types see them: both spellings of names, numbers for enums, null
//! for absent. Checks every rule of the proto and reports every wrong field.

use super::error::A2aError;
use super::schema::{Field, Kind, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Wrong fields reported in one answer.
const WRONG_MAX: usize = 20;

/// Decodes the parameters of an operation into their official type.
pub(crate) fn request<T: DeserializeOwned>(schema: &Schema, params: Value) -> Result<T, A2aError> {
    let Value::Object(given) = params else {
        return Err(A2aError::invalid("params", "must be a JSON object"));
    };
    let mut decoder = Decoder { wrong: Vec::new() };
    let read = decoder.message("", schema, given);
    if !decoder.wrong.is_empty() {
        return Err(A2aError::fields(decoder.wrong));
    }
    serde_json::from_value(Value::Object(read))
        .map_err(|error| A2aError::invalid("params", error.to_string()))
}

struct Decoder {
    wrong: Vec<(String, String)>,
}

impl Decoder {
    fn refuse(&mut self, path: &str, why: impl Into<String>) {
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push((path.to_owned(), why.into()));
        }
    }

    /// The message under the names that the official types know; unknown fields are dropped.
    fn message(
        &mut self,
        path: &str,
        schema: &Schema,
        mut given: Map<String, Value>,
    ) -> Map<String, Value> {
        let mut read = Map::new();
        for field in schema.fields {
            let path = below(path, field.name);
            let value = self.take(&path, field, &mut given);
            let read_value = value.and_then(|value| self.value(&path, &field.kind, value));
            match read_value {
                Some(value) if !(field.required && is_empty(&field.kind, &value)) => {
                    read.insert(field.name.to_owned(), value);
                }
                Some(_) | None if field.required => self.missing(&path, &field.kind),
                Some(_) | None => {}
            }
        }
        if !schema.one_of.is_empty() {
            self.exactly_one(path, schema.one_of, &read);
        }
        read
    }

    fn missing(&mut self, path: &str, kind: &Kind) {
        let reported = self.wrong.iter().any(|(wrong, _)| wrong.starts_with(path));
        if reported {
            return;
        }
        let why = match kind {
            Kind::Many(..) => "at least one is required",
            _ => "is required",
        };
        self.refuse(path, why);
    }

    fn exactly_one(&mut self, path: &str, names: &[&str], read: &Map<String, Value>) {
        let count = names
            .iter()
            .filter(|name| read.contains_key(**name))
            .count();
        // A refused one counts as given.
        let refused = names
            .iter()
            .filter(|name| {
                let wrong = below(path, name);
                self.wrong.iter().any(|(path, _)| *path == wrong)
            })
            .count();
        if count + refused != 1 {
            let why = format!("must have exactly one of {}", names.join(", "));
            self.refuse(path, why);
        }
    }

    /// The value under either of its names.
    fn take(&mut self, path: &str, field: &Field, given: &mut Map<String, Value>) -> Option<Value> {
        let snake = snake_case(field.name);
        let first = given.remove(field.name);
        let second = if snake == field.name {
            None
        } else {
            given.remove(&snake)
        };
        if first.is_some() && second.is_some() {
            self.refuse(path, "is given twice, under both of its names");
        }
        let value = first.or(second)?;
        match (&field.kind, value) {
            (Kind::Any, value) => Some(value),
            (_, Value::Null) => None,
            (_, value) => Some(value),
        }
    }

    fn value(&mut self, path: &str, kind: &Kind, value: Value) -> Option<Value> {
        let read = match (kind, value) {
            (Kind::Any, value) => Ok(value),
            (Kind::Long, Value::String(text)) => Ok(Value::String(text)),
            (Kind::Text(max), Value::String(text)) => short(text, *max),
            (Kind::Bytes, Value::String(text)) => base64(text),
            (Kind::Time, Value::String(text)) => Ok(Value::String(text)),
            (Kind::Flag, value) => flag(value),
            (Kind::Whole(min, max), value) => whole(&value, *min, *max),
            (Kind::Enum(names), value) => member(&value, names),
            (Kind::Object, Value::Object(object)) => Ok(Value::Object(object)),
            (Kind::Message(schema), Value::Object(object)) => {
                Ok(Value::Object(self.message(path, schema, object)))
            }
            (Kind::Many(max, kind), Value::Array(items)) if items.len() <= *max => {
                Ok(Value::Array(self.many(path, kind, items)))
            }
            (Kind::Many(max, _), Value::Array(_)) => Err(format!("at most {max} are taken")),
            (Kind::Long | Kind::Text(_) | Kind::Bytes | Kind::Time, _) => {
                Err("must be a string".to_owned())
            }
            (Kind::Object | Kind::Message(_), _) => Err("must be a JSON object".to_owned()),
            (Kind::Many(..), _) => Err("must be a JSON array".to_owned()),
        };
        match read {
            Ok(value) => Some(value),
            Err(why) => {
                self.refuse(path, why);
                None
            }
        }
    }

    fn many(&mut self, path: &str, kind: &Kind, items: Vec<Value>) -> Vec<Value> {
        items
            .into_iter()
            .enumerate()
            .filter_map(|(n, item)| self.value(&format!("{path}[{n}]"), kind, item))
            .collect()
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Whether a required value counts as absent: the proto does not distinguish empty from absent.
fn is_empty(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Enum(names), Value::String(word)) => names.first() == Some(&word.as_str()),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Null) => true,
        (_, Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Short texts end up in rows, logs and headers: refuses unprintable characters (threat 18).
fn short(text: String, max: usize) -> Result<Value, String> {
    if text.chars().count() > max {
        return Err(format!("is longer than {max} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err("has a control character in it".to_owned());
    }
    Ok(Value::String(text))
}

fn flag(value: Value) -> Result<Value, String> {
    match value {
        Value::Bool(flag) => Ok(Value::Bool(flag)),
        Value::String(word) if word == "true" => Ok(Value::Bool(true)),
        Value::String(word) if word == "false" => Ok(Value::Bool(false)),
        _ => Err("must be true or false".to_owned()),
    }
}

fn whole(value: &Value, min: i64, max: i64) -> Result<Value, String> {
    let number = match value {
        Value::Number(number) => number.as_i64().or_else(|| integral(number.as_f64()?)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number.into()),
        Some(number) => Err(format!("must be from {min} to {max}, got {number}")),
        None => Err("must be a whole number".to_owned()),
    }
}

/// `1.0` and `1e1` are whole numbers too.
fn integral(number: f64) -> Option<i64> {
    let near = f64::from(i32::MAX);
    let whole = number.fract() == 0.0 && (-near..=near).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number that fits 32 bits"
    )]
    whole.then_some(number as i64)
}

fn member(value: &Value, names: &[&str]) -> Result<Value, String> {
    let found = match value {
        Value::String(word) => names.iter().find(|name| **name == word.as_str()),
        Value::Number(number) => number
            .as_u64()
            .and_then(|number| names.get(usize::try_from(number).ok()?)),
        _ => None,
    };
    found.map(|name| Value::from(*name)).ok_or_else(|| {
        let known = names.get(1..).unwrap_or_default().join(", ");
        format!("must be one of {known}")
    })
}

/// Accepts both alphabets, padded or not, as ProtoJSON demands; the official types accept only the standard one.
fn base64(text: String) -> Result<Value, String> {
    let bare = text.trim_end_matches('=');
    let known = |letter: u8| letter.is_ascii_alphanumeric() || b"+/-_".contains(&letter);
    if !bare.bytes().all(known) || bare.len() % 4 == 1 {
        return Err("must be base64".to_owned());
    }
    let plain = text.len().is_multiple_of(4) && !bare.contains(['-', '_']);
    if plain {
        return Ok(Value::String(text));
    }
    let mut read = bare.replace('-', "+").replace('_', "/");
    while !read.len().is_multiple_of(4) {
        read.push('=');
    }
    Ok(Value::String(read))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
