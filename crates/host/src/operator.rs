//! What the operator's own Codex configuration says that a thread of ours must respect, or must be kept from.
//! It is asked of Codex, never read from a file: only Codex knows what is in force.

use crate::connection::{CallError, Connection};
use crate::fault::{Deed, of_call};
use bridge_codex::wire::config::{ConfigReadParams, ConfigReadResponse, WorkspaceWriteKeys};
use bridge_codex::wire::method::ConfigRead;
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_core::port::AgentFault;
use bridge_core::value::Sandbox;
use serde_json::{Map, Value, json};

/// The configuration in force for one working directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Operator(ConfigReadResponse);

/// Asks for it; takes a few milliseconds. A Codex without this call has no say.
pub(crate) async fn read(connection: &Connection, workdir: &str) -> Result<Operator, AgentFault> {
    let cwd = Some(workdir.to_owned());
    match connection
        .call::<ConfigRead>(ConfigReadParams { cwd })
        .await
    {
        Ok(answer) => Ok(Operator(answer)),
        Err(CallError::Refused { .. }) => Ok(Operator::default()),
        Err(
            error @ (CallError::Closed { .. }
            | CallError::Silent { .. }
            | CallError::Unreadable { .. }),
        ) => Err(of_call(&error, Deed::Harmless)),
    }
}

impl Operator {
    /// The sandbox as a turn takes it, with what the operator's configuration adds to it.
    pub(crate) fn policy(&self, sandbox: Sandbox) -> SandboxPolicy {
        match sandbox {
            Sandbox::ReadOnly => SandboxPolicy::ReadOnly {
                network_access: false,
            },
            Sandbox::WorkspaceWrite => {
                let WorkspaceWriteKeys {
                    writable_roots,
                    network_access,
                    exclude_tmpdir_env_var,
                    exclude_slash_tmp,
                } = self.0.workspace_write();
                SandboxPolicy::WorkspaceWrite {
                    writable_roots,
                    network_access,
                    exclude_tmpdir_env_var,
                    exclude_slash_tmp,
                }
            }
            Sandbox::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        }
    }

    /// Keys that leave a thread without the tools of the operator: they act with the operator's logins, outside
    /// every sandbox.
    pub(crate) fn without_tools(&self) -> Map<String, Value> {
        let servers: Map<String, Value> = self
            .0
            .mcp_servers()
            .map(|name| (name.to_owned(), json!({ "enabled": false })))
            .collect();
        let mut keys = Map::new();
        if !servers.is_empty() {
            keys.insert("mcp_servers".to_owned(), servers.into());
        }
        let features = json!({ "apps": false, "multi_agent": false });
        keys.insert("features".to_owned(), features);
        keys
    }
}
