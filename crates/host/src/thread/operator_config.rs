//! The parts of the operator's own Codex configuration that a thread of ours must respect, or must be kept from.
//! It is asked of Codex, never read from a file: only Codex knows what is in force.

use crate::app_server::connection::{CallError, Connection};
use crate::error::{CallEffect, agent_error, of_call};
use bridge_codex::wire::config::SandboxPolicy;
use bridge_codex::wire::config::{ConfigReadParams, ConfigReadResponse, WorkspaceWriteKeys};
use bridge_codex::wire::method::ConfigRead;
use bridge_core::port::{AgentError, Reads, ThreadSpec};
use bridge_core::value::{Class, Sandbox};
use serde_json::{Map, Value, json};

/// Why messages of shielded senders wait on a Codex that can't tell its configuration.
const UNKNOWN_TOOLS: &str = "this Codex does not tell which tools its operator has set up, so they can't be kept from this sender and the turn was not begun: run `npm install -g @openai/codex@latest`, or accept it with tiers.peer.reads = \"disk\"";

/// The configuration in force for one working directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorConfig(ConfigReadResponse);

/// Asks for it, for a thread of this kind; takes a few milliseconds. A Codex without this call has no say. Any other
/// refusal says nothing about the operator's configuration, so the turn waits; and who must be kept from the operator's
/// tools has no turn on a Codex that does not tell them.
pub(crate) async fn read(
    connection: &Connection,
    spec: &ThreadSpec,
) -> Result<OperatorConfig, AgentError> {
    let cwd = Some(spec.workdir.clone());
    let answer = connection
        .call::<ConfigRead>(ConfigReadParams { cwd })
        .await;
    understood(answer, &spec.reads)
}

fn understood(
    answer: Result<ConfigReadResponse, CallError>,
    reads: &Reads,
) -> Result<OperatorConfig, AgentError> {
    let error = match answer {
        Ok(answer) => return Ok(answer.into()),
        Err(error) => error,
    };
    match &error {
        CallError::Refused { method, error } if error.is_unknown_method(method) => match reads {
            Reads::Disk => Ok(OperatorConfig::default()),
            Reads::Shielded { .. } => Err(agent_error(Class::Config, UNKNOWN_TOOLS)),
        },
        CallError::Refused { .. }
        | CallError::Closed { .. }
        | CallError::Silent { .. }
        | CallError::Unreadable { .. } => {
            let mut failed = of_call(&error, CallEffect::Repeatable);
            // Whatever it is, nothing is wrong with the message.
            if failed.failure.class == Class::Permanent {
                failed.failure.class = Class::Config;
            }
            Err(failed)
        }
    }
}

impl From<ConfigReadResponse> for OperatorConfig {
    fn from(answer: ConfigReadResponse) -> Self {
        Self(answer)
    }
}

impl OperatorConfig {
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

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_codex::rpc::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError};

    fn refused(code: i64, message: &str, reads: &Reads) -> Result<OperatorConfig, Class> {
        let method = "config/read";
        let error = RpcError::new(code, message);
        let answer = Err(CallError::Refused { method, error });
        understood(answer, reads).map_err(|failed| failed.failure.class)
    }

    #[test]
    fn missing_config_read_is_tolerated_unless_isolated() {
        let shielded = Reads::Shielded {
            also: Vec::new(),
            hidden: Vec::new(),
        };
        let unknown =
            "Invalid request: unknown variant `config/read`, expected one of `initialize`";
        for (code, words) in [(INVALID_REQUEST, unknown), (METHOD_NOT_FOUND, "no")] {
            let found = refused(code, words, &Reads::Disk);
            assert_eq!(found, Ok(OperatorConfig::default()));
            assert_eq!(refused(code, words, &shielded), Err(Class::Config));
        }
        let busy = Class::Capacity { until: None };
        for (code, words, class) in [
            (-32001, "Server overloaded; retry later.", busy),
            (INVALID_REQUEST, "Server is draining", Class::Transient),
            (
                INTERNAL_ERROR,
                "failed to read configuration layers: x",
                Class::Config,
            ),
            (INTERNAL_ERROR, "oops", Class::Transient),
            (INVALID_REQUEST, "no", Class::Config),
        ] {
            for reads in [&Reads::Disk, &shielded] {
                assert_eq!(refused(code, words, reads), Err(class.clone()), "{words}");
            }
        }
    }
}
