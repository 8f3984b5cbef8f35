//! What a question or form of Codex wants to have filled in, read from what Codex sent.
//!
//! Tolerant: a schema that this does not know becomes a text field, and the daemon says if the answer does not fit.

use super::request::ApprovalRequest;
use serde_json::{Map, Value};

/// One thing to fill in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FormField {
    pub(crate) id: String,
    /// What it is asked as.
    pub(crate) title: String,
    pub(crate) options: Vec<FieldOption>,
    /// What may be typed instead of a number; nothing where only the options count.
    pub(crate) typed: Option<Typed>,
    pub(crate) required: bool,
    pub(crate) preset: Option<Value>,
    /// It is not shown while it is typed.
    pub(crate) secret: bool,
}

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldOption {
    pub(crate) label: String,
    pub(crate) help: String,
    pub(crate) value: Value,
}

/// How typed text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Text,
    Integer,
    Number,
    Boolean,
}

/// The questions that Codex asks the user.
pub(super) fn of_questions(question: &ApprovalRequest) -> Vec<FormField> {
    let sent = question.sent();
    let questions = sent["questions"].as_array().cloned().unwrap_or_default();
    questions.iter().map(of_question).collect()
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
        typed: free.then_some(Typed::Text),
        options,
        required: true,
        preset: None,
        secret: question["isSecret"] == true,
    }
}

/// The fields of an MCP server's form; none where it only wants a yes.
pub(super) fn of_form(question: &ApprovalRequest) -> Vec<FormField> {
    let sent = question.sent();
    let schema = &sent["requestedSchema"];
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
        Some("integer") => Some(Typed::Integer),
        Some("number") => Some(Typed::Number),
        Some("boolean") => Some(Typed::Boolean),
        Some(_) | None => Some(Typed::Text),
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

impl Typed {
    /// Reads what was typed; the error says what is wanted.
    pub(crate) fn read(self, line: &str) -> Result<Value, &'static str> {
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
