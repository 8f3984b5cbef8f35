//! The parts of Codex's own configuration that matter before a thread is opened.
//!
//! Everything else in it is between Codex and its operator, and is not read here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConfigReadParams {
    /// With it the configuration of a trusted project at this place counts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Its keys are those of config.toml, and most of them are nobody's business here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ConfigReadResponse {
    config: Value,
}

/// Details of `workspace-write`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkspaceWriteKeys {
    pub writable_roots: Vec<String>,
    pub network_access: bool,
    pub exclude_tmpdir_env_var: bool,
    pub exclude_slash_tmp: bool,
}

impl ConfigReadResponse {
    /// The operator's additions to `workspace-write`; none if they can't be read.
    pub fn workspace_write(&self) -> WorkspaceWriteKeys {
        let keys = self.config.get("sandbox_workspace_write").cloned();
        let keys = keys.and_then(|keys| serde_json::from_value(keys).ok());
        keys.unwrap_or_default()
    }

    /// Names of the programs and addresses whose tools the model would get.
    pub fn mcp_servers(&self) -> impl Iterator<Item = &str> {
        let servers = self.config.get("mcp_servers").and_then(Value::as_object);
        servers.into_iter().flatten().map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(config: Value) -> ConfigReadResponse {
        serde_json::from_value(json!({ "config": config })).unwrap()
    }

    #[test]
    fn reads_known_config_keys_only() {
        let found = read(json!({
            "model": "m",
            "sandbox_workspace_write": {"network_access": true, "writable_roots": ["/srv"], "more": 1},
            "mcp_servers": {"mine": {"command": "x"}, "other": null},
        }));
        let keys = found.workspace_write();
        assert!(keys.network_access && !keys.exclude_slash_tmp);
        assert_eq!(keys.writable_roots, ["/srv"]);
        assert_eq!(found.mcp_servers().collect::<Vec<_>>(), ["mine", "other"]);
    }

    #[test]
    fn what_is_not_said_adds_nothing() {
        for config in [
            json!({}),
            json!(null),
            json!({"sandbox_workspace_write": null}),
        ] {
            let found = read(config);
            assert_eq!(found.workspace_write(), WorkspaceWriteKeys::default());
            assert_eq!(found.mcp_servers().count(), 0);
        }
    }
}
