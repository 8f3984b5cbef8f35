//! The JSON Schema of the configuration, generated from [`Config`], and the same as [`KeySchema`]s that a file
//! is held against. One source: what an editor says about a file is what we say about it.

use super::keys::Config;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::collections::BTreeMap;

/// What may stand at a place of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySchema {
    /// A table with these keys and no others.
    Table(BTreeMap<String, KeySchema>),
    /// One of these words.
    Word(Vec<String>),
    /// Text; not empty where that would mean nothing.
    Text { may_be_empty: bool },
    /// A whole number within bounds.
    Number { min: i128, max: i128 },
    /// `true` or `false`.
    Flag,
    /// A list of texts.
    Texts,
    /// A table of texts under names of the operator's own.
    NamedTexts,
    /// A list of some of these words.
    Words(Vec<String>),
    /// Any number of tables with these keys and no others.
    Tables(BTreeMap<String, KeySchema>),
    /// Something the schema can say and no key of ours is; left to serde.
    Other,
}

/// The JSON Schema, as `config schema` prints it.
pub(super) fn schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Config>();
    schema.to_value()
}

/// What the whole file may hold.
pub(super) fn file_schema() -> KeySchema {
    key_schema(&schema())
}

fn key_schema(schema: &Value) -> KeySchema {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let table = properties
            .iter()
            .map(|(key, schema)| (key.clone(), key_schema(schema)));
        return KeySchema::Table(table.collect());
    }
    if let Some(words) = words(schema) {
        return KeySchema::Word(words);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => KeySchema::Text {
            may_be_empty: schema.get("minLength").is_none(),
        },
        Some("integer") => KeySchema::Number {
            min: bound(schema, "minimum").unwrap_or(i128::MIN),
            max: bound(schema, "maximum").unwrap_or(i128::MAX),
        },
        Some("boolean") => KeySchema::Flag,
        Some("object")
            if schema.pointer("/additionalProperties/type") == Some(&Value::from("string")) =>
        {
            KeySchema::NamedTexts
        }
        Some("array") if schema.pointer("/items/type") == Some(&Value::from("string")) => {
            KeySchema::Texts
        }
        Some("array") => match schema.get("items").map(key_schema) {
            Some(KeySchema::Table(keys)) => KeySchema::Tables(keys),
            Some(KeySchema::Word(words)) => KeySchema::Words(words),
            Some(_) | None => KeySchema::Other,
        },
        Some(_) | None => KeySchema::Other,
    }
}

fn words(schema: &Value) -> Option<Vec<String>> {
    let choices = schema.get("oneOf")?.as_array()?;
    let word = |choice: &Value| Some(choice.get("const")?.as_str()?.to_owned());
    choices.iter().map(word).collect()
}

fn bound(schema: &Value, name: &str) -> Option<i128> {
    schema.get(name)?.as_i64().map(i128::from)
}

impl KeySchema {
    /// The dotted names of all keys at or below this place that hold a value.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.collect("", &mut keys);
        keys
    }

    fn collect(&self, path: &str, keys: &mut Vec<String>) {
        match self {
            Self::Table(table) | Self::Tables(table) => {
                for (key, shape) in table {
                    shape.collect(&join(path, key), keys);
                }
            }
            Self::Word(_)
            | Self::Text { .. }
            | Self::Number { .. }
            | Self::Flag
            | Self::Texts
            | Self::NamedTexts
            | Self::Words(_)
            | Self::Other => keys.push(path.to_owned()),
        }
    }
}

impl KeySchema {
    /// As [`KeySchema::keys`], for these values: each table of a list has its number.
    pub(super) fn keys_of(&self, value: &Value) -> Vec<String> {
        let mut keys = Vec::new();
        self.collect_of("", Some(value), &mut keys);
        keys
    }

    fn collect_of(&self, path: &str, value: Option<&Value>, keys: &mut Vec<String>) {
        match self {
            Self::Table(table) => {
                for (key, shape) in table {
                    let value = value.and_then(|value| value.get(key));
                    shape.collect_of(&join(path, key), value, keys);
                }
            }
            Self::Tables(table) => {
                let all = value.and_then(Value::as_array).into_iter().flatten();
                for (at, value) in all.enumerate() {
                    let path = join(path, &at.to_string());
                    Self::Table(table.clone()).collect_of(&path, Some(value), keys);
                }
            }
            Self::Word(_)
            | Self::Text { .. }
            | Self::Number { .. }
            | Self::Flag
            | Self::Texts
            | Self::NamedTexts
            | Self::Words(_)
            | Self::Other => keys.push(path.to_owned()),
        }
    }
}

/// A key below a table.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(shape: &KeySchema, found: &mut Vec<KeySchema>) {
        match shape {
            KeySchema::Table(table) | KeySchema::Tables(table) => {
                table.values().for_each(|shape| leaves(shape, found));
            }
            other => found.push(other.clone()),
        }
    }

    #[test]
    fn every_key_has_a_checked_file_schema() {
        let mut found = Vec::new();
        leaves(&file_schema(), &mut found);
        assert!(!found.contains(&KeySchema::Other), "{found:?}");
        assert_eq!(found.len(), file_schema().keys().len());
    }

    #[test]
    fn bounds_and_words_come_from_the_fields() {
        let KeySchema::Table(root) = file_schema() else {
            panic!("the root is a table")
        };
        let KeySchema::Table(daemon) = &root["daemon"] else {
            panic!("[daemon] is a table")
        };
        assert_eq!(daemon["turns_max"], KeySchema::Number { min: 1, max: 512 });
        let KeySchema::Table(codex) = &root["codex"] else {
            panic!("[codex] is a table")
        };
        let words = ["auto", "socket", "stdio"].map(str::to_owned).to_vec();
        assert_eq!(codex["transport"], KeySchema::Word(words));
        assert_eq!(
            codex["bin"],
            KeySchema::Text {
                may_be_empty: false
            }
        );
    }

    #[test]
    fn every_key_and_choice_is_described() {
        fn undescribed(path: &str, schema: &Value, found: &mut Vec<String>) {
            if schema.get("description").is_none() {
                found.push(path.to_owned());
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, schema) in properties.into_iter().flatten() {
                undescribed(&join(path, key), schema, found);
            }
            for choice in schema
                .get("oneOf")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                undescribed(&format!("{path}={}", choice["const"]), choice, found);
            }
        }
        let mut found = Vec::new();
        undescribed("", &schema(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
