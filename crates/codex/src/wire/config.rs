//! What of Codex's own configuration a host must know before it opens a thread.
//!
//! Everything else in it is between Codex and its operator, and is not read here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConfigReadParams {
    /// With it the configuration of a trusted project at this place counts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ConfigReadResponse {
    pub config: EffectiveConfig,
}

/// The part that matters. Its keys are those of config.toml.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EffectiveConfig {
    /// Refines `workspace-write`.
    pub sandbox_workspace_write: Option<WorkspaceWriteKeys>,
    /// Programs and addresses whose tools the model gets, by name.
    pub mcp_servers: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkspaceWriteKeys {
    pub writable_roots: Vec<String>,
    pub network_access: bool,
    pub exclude_tmpdir_env_var: bool,
    pub exclude_slash_tmp: bool,
}
