//! Parses the arguments of a tool call; errors are worded so that a model can correct them.

use crate::{ControlError, ControlErrorKind};
use rmcp::model::JsonObject;
use serde_json::Value;

/// The arguments of one call. `null` counts as absent: models fill in parameters that they do not use.
#[derive(Debug)]
pub(super) struct Arguments {
    tool: &'static str,
    values: JsonObject,
}

impl Arguments {
    pub(super) fn new(tool: &'static str, values: Option<JsonObject>) -> Self {
        Self {
            tool,
            values: values.unwrap_or_default(),
        }
    }

    /// A text; white space alone counts as absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ControlError> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.unfit(name, "a string")),
        }
    }

    /// A required text.
    pub(super) fn needed(&self, name: &str) -> Result<String, ControlError> {
        self.text(name)?
            .ok_or_else(|| invalid(format!("{} requires {name}.", self.tool)))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, ControlError> {
        let unfit = || self.unfit(name, "a whole number that is not negative");
        match self.given(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_u64().ok_or_else(unfit)?;
                u32::try_from(number).map(Some).map_err(|_| unfit())
            }
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ControlError> {
        match self.given(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.unfit(name, "true or false")),
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Value>, ControlError> {
        match self.given(name) {
            None => Ok(None),
            Some(object @ Value::Object(_)) => Ok(Some(object.clone())),
            Some(_) => Err(self.unfit(name, "an object")),
        }
    }

    /// Refuses unknown names, so that a misspelt one is not silently ignored.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ControlError> {
        match self
            .values
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(name) => Err(invalid(format!(
                "{} has no parameter {name:?}; it has: {}.",
                self.tool,
                known.join(", ")
            ))),
        }
    }

    fn given(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    fn unfit(&self, name: &str, wanted: &str) -> ControlError {
        invalid(format!("{}: {name} must be {wanted}.", self.tool))
    }
}

pub(super) fn invalid(message: String) -> ControlError {
    ControlError::new(ControlErrorKind::Invalid, message)
}
