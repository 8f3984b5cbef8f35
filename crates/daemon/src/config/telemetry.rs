//! The key `[telemetry]`: where traces of messages go.

use bridge_channel::otlp::traces_url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Traces of messages, for a receiver that speaks OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// The address of a receiver of OTLP over HTTP, such as "http://127.0.0.1:4318". Without it nothing is exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub otlp: Option<String>,
    /// A file of mode 0600 with one HTTP header for the receiver, such as `Authorization: Basic …`, by its absolute path.
    /// It is read for every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub header_file: Option<PathBuf>,
    /// Whether traces say what was said: texts of messages and answers, what tools did, and why something failed.
    pub texts: bool,
}

impl TelemetryConfig {
    /// What is wrong with it: the key and why.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        if let Some(Err(why)) = self.otlp.as_deref().map(traces_url) {
            return Some(("telemetry.otlp", format!("can't be used: {why}")));
        }
        let path = self
            .header_file
            .as_ref()
            .filter(|path| !path.is_absolute())?;
        let what = format!("names {}; write an absolute path", path.display());
        Some(("telemetry.header_file", what))
    }
}
