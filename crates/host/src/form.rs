//! The fields of Codex's questions and of MCP servers' forms, read from the stored request for a person at a terminal.
//!
//! Tolerant: an unknown schema becomes a text field. Codex's peer checks the answers (`bridge_codex::wire`).

use serde_json::{Map, Value};

/// One question, or one field of a form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormField {
    pub id: String,
    /// What it is asked as.
    pub title: String,
    pub options: Vec<FieldOption>,
    /// What may be typed instead of a number; nothing where only the options count.
    pub typed: Option<FieldType>,
    pub required: bool,
    pub preset: Option<Value>,
    /// It is not shown while it is typed.
    pub secret: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FieldOption {
    pub label: String,
    pub help: String,
    pub value: Value,
}

/// How typed text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    Text,
    Integer,
    Number,
    Boolean,
}

/// What an approval request wants filled in; empty where a bare decision is enough. Some surfaces give the payload as text.
pub fn form_fields(kind: &str, payload: &Value) -> Vec<FormField> {
    let parsed = match payload {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        payload => payload.clone(),
    };
    match kind {
        "user_input" => list(&parsed["questions"]).map(of_question).collect(),
        "elicitation" => of_schema(&parsed["requestedSchema"]),
        _ => Vec::new(),
    }
}

fn of_question(question: &Value) -> FormField {
    let options: Vec<_> = list(&question["options"])
        .map(|option| FieldOption {
            label: text(&option["label"]),
            help: text(&option["description"]),
            value: option["label"].clone(),
        })
        .collect();
    let free = options.is_empty() || question["isOther"] == true;
    FormField {
        id: text(&question["id"]),
        title: text(&question["question"]),
        typed: free.then_some(FieldType::Text),
        options,
        required: true,
        preset: None,
        secret: question["isSecret"] == true,
    }
}

fn of_schema(schema: &Value) -> Vec<FormField> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<_> = list(&schema["required"]).map(text).collect();
    let field = |(id, schema): (&String, &Value)| of_property(id, schema, required.contains(id));
    properties.iter().map(field).collect()
}

fn of_property(id: &str, schema: &Value, required: bool) -> FormField {
    let title = [&schema["title"], &schema["description"]]
        .into_iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(": ");
    let mut options: Vec<_> = list(&schema["enum"])
        .zip(
            list(&schema["enumNames"])
                .map(Some)
                .chain(std::iter::repeat(None)),
        )
        .map(|(value, name)| choice(name.unwrap_or(value), value))
        .collect();
    let titled = list(&schema["oneOf"]).filter(|one| !one["const"].is_null());
    options.extend(titled.map(|one| choice(&one["title"], &one["const"])));
    let typed = match schema["type"].as_str() {
        _ if !options.is_empty() => None,
        Some("integer") => Some(FieldType::Integer),
        Some("number") => Some(FieldType::Number),
        Some("boolean") => Some(FieldType::Boolean),
        Some(_) | None => Some(FieldType::Text),
    };
    FormField {
        id: id.to_owned(),
        title: if title.is_empty() {
            id.to_owned()
        } else {
            title
        },
        options,
        typed,
        required,
        preset: Some(schema["default"].clone()).filter(|preset| !preset.is_null()),
        secret: false,
    }
}

fn choice(label: &Value, value: &Value) -> FieldOption {
    let shown = if label.is_null() { value } else { label };
    FieldOption {
        label: text(shown),
        help: String::new(),
        value: value.clone(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl FieldType {
    /// Parses a typed line; the error says what is wanted.
    pub fn parse(self, line: &str) -> Result<Value, &'static str> {
        match self {
            Self::Text => Ok(Value::from(line)),
            Self::Integer => match line.parse::<i64>() {
                Ok(number) => Ok(Value::from(number)),
                Err(_) => Err("a whole number is wanted"),
            },
            Self::Number => match line.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::from(number)),
                Ok(_) | Err(_) => Err("a number is wanted"),
            },
            Self::Boolean => match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Value::from(true)),
                "n" | "no" | "false" => Ok(Value::from(false)),
                _ => Err("yes or no is wanted"),
            },
        }
    }
}
