//! Codex's sandbox policy, and the parts of Codex's configuration that matter before a thread is opened.
//!
//! Everything else in the configuration is between Codex and its operator, and is not read here. Which sandbox a sender
//! gets is decided elsewhere.

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

/// The effective sandbox. Compare it with what was asked for: an unknown request field is ignored
/// without a word, so asking is not having.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "SandboxFields")]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum SandboxPolicy {
    ReadOnly {
        network_access: bool,
    },
    WorkspaceWrite {
        writable_roots: Vec<String>,
        network_access: bool,
        exclude_tmpdir_env_var: bool,
        exclude_slash_tmp: bool,
    },
    DangerFullAccess,
    /// A kind we do not write and can not judge, with its name.
    #[serde(untagged)]
    Other {
        r#type: String,
    },
}

impl SandboxPolicy {
    /// The kinds that have a variant.
    pub const KINDS: &'static [&'static str] = &["readOnly", "workspaceWrite", "dangerFullAccess"];

    /// True when commands may change files; unknown kinds count as writing.
    pub fn can_write(&self) -> bool {
        match self {
            Self::ReadOnly { .. } => false,
            Self::WorkspaceWrite { .. } | Self::DangerFullAccess | Self::Other { .. } => true,
        }
    }
}

/// The union of all kinds, as it is on the wire.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SandboxFields {
    r#type: String,
    #[serde(default)]
    network_access: Value,
    #[serde(default)]
    writable_roots: Vec<String>,
    #[serde(default)]
    exclude_tmpdir_env_var: bool,
    #[serde(default)]
    exclude_slash_tmp: bool,
}

impl From<SandboxFields> for SandboxPolicy {
    fn from(fields: SandboxFields) -> Self {
        let network_access = fields.network_access == Value::Bool(true);
        match fields.r#type.as_str() {
            "readOnly" => Self::ReadOnly { network_access },
            "workspaceWrite" => Self::WorkspaceWrite {
                writable_roots: fields.writable_roots,
                network_access,
                exclude_tmpdir_env_var: fields.exclude_tmpdir_env_var,
                exclude_slash_tmp: fields.exclude_slash_tmp,
            },
            "dangerFullAccess" => Self::DangerFullAccess,
            _ => Self::Other {
                r#type: fields.r#type,
            },
        }
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

    #[test]
    fn reads_and_writes_each_kind() {
        for value in [
            json!({"type": "readOnly", "networkAccess": false}),
            json!({"type": "dangerFullAccess"}),
            json!({"type": "workspaceWrite", "writableRoots": ["/w"], "networkAccess": true,
                   "excludeTmpdirEnvVar": true, "excludeSlashTmp": false}),
        ] {
            let policy: SandboxPolicy = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&policy).unwrap(), value);
        }
    }

    #[test]
    fn every_listed_kind_has_a_variant() {
        for kind in SandboxPolicy::KINDS {
            let policy: SandboxPolicy = serde_json::from_value(json!({"type": kind})).unwrap();
            assert!(!matches!(policy, SandboxPolicy::Other { .. }), "{kind}");
        }
    }

    #[test]
    fn unknown_sandbox_policy_counts_as_writable() {
        let policy: SandboxPolicy =
            serde_json::from_value(json!({"type": "externalSandbox", "networkAccess": "enabled"}))
                .unwrap();
        assert_eq!(
            policy,
            SandboxPolicy::Other {
                r#type: "externalSandbox".to_owned()
            }
        );
        assert!(policy.can_write());
    }
}
