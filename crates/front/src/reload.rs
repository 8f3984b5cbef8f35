//! What reading the configuration again came to, as JSON. The names are stable: programs read them.

use bridge_core::value::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to `POST /v1/reload`, and what `status` tells of the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadView {
    /// Whether the file could be used. If not, what was in force before still is.
    pub ok: bool,
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// Why the file can't be used.
    pub error: Option<String>,
    /// Keys that have another value from now on.
    pub changed: Vec<String>,
    /// Keys that have another value in the file, and take effect at the next start.
    pub needs_restart: Vec<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

impl ReloadView {
    /// Nothing changed, and why.
    #[must_use]
    pub fn failed(at: Timestamp, error: String) -> Self {
        Self {
            ok: false,
            at: at.0,
            error: Some(error),
            changed: Vec::new(),
            needs_restart: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The same as one line, for the record.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let keys = |keys: &[String]| match keys {
            [] => "nothing".to_owned(),
            keys => keys.join(" "),
        };
        match &self.error {
            Some(error) => format!("refused: {}", error.replace('\n', " ")),
            None if self.needs_restart.is_empty() => format!("changed {}", keys(&self.changed)),
            None => format!(
                "changed {}; at the next start {}",
                keys(&self.changed),
                keys(&self.needs_restart)
            ),
        }
    }
}
