//! The facts of an approval request that rules match.
//!
//! A rule that lets something through sees nothing else; so whatever an accept would give beside a command and paths is
//! named as `beyond`, and what is not known counts as that too.

use super::item::FileUpdate;
use super::server_request::{
    CommandApproval, Elicitation, FileChangeApproval, PermissionsApproval, RequestKind,
    ServerRequest,
};
use super::values::CommandApprovalKind;
use bridge_core::rules::{Effect, McpTool};
use serde_json::Value;

/// The facts of a question; `changes` are the files of the item that it is about.
pub fn effect(request: &ServerRequest, changes: Option<&[FileUpdate]>) -> Effect {
    let facts = match &request.kind {
        RequestKind::Command(asked) => command(asked),
        RequestKind::FileChange(asked) => files(asked, changes.unwrap_or_default()),
        RequestKind::Permissions(asked) => permissions(asked),
        RequestKind::Elicitation(asked) if asked.tool_approval().is_some() => mcp_tool(asked),
        RequestKind::LegacyExec(_)
        | RequestKind::LegacyPatch(_)
        | RequestKind::UserInput(_)
        | RequestKind::Elicitation(_)
        | RequestKind::ToolCall(_)
        | RequestKind::AuthRefresh(_)
        | RequestKind::Attestation
        | RequestKind::CurrentTime(_)
        | RequestKind::Unknown { .. } => Effect {
            beyond: Some(request.method.clone()),
            ..Effect::default()
        },
    };
    Effect {
        escalated: request.leaves_sandbox(),
        ..facts
    }
}

fn command(asked: &CommandApproval) -> Effect {
    let network = asked.network_approval_context.as_ref();
    let network = network.map(|network| format!("the network: {}", network.host));
    let added = asked.additional_permissions.as_ref();
    let added = added.map(|added| format!("permissions: {added}"));
    let elsewhere = asked.environment_id.as_deref().filter(|id| *id != "local");
    let elsewhere = elsewhere.map(|id| format!("another environment: {id}"));
    let input = match &asked.kind {
        Some(CommandApprovalKind::Command) | None => None,
        Some(CommandApprovalKind::WriteStdin) => Some("input to a running command".to_owned()),
        Some(CommandApprovalKind::Other(kind)) => Some(kind.clone()),
    };
    Effect {
        command: asked.command.clone(),
        cwd: asked.cwd.clone(),
        beyond: network.or(added).or(elsewhere).or(input),
        ..Effect::default()
    }
}

fn files(asked: &FileChangeApproval, changes: &[FileUpdate]) -> Effect {
    let paths = changes.iter().flat_map(|change| {
        let moved = change.kind.move_path.clone();
        std::iter::once(change.path.clone()).chain(moved)
    });
    let unseen = changes
        .is_empty()
        .then(|| "a change whose diff is not known".to_owned());
    let opened = asked.grant_root.as_ref();
    let opened = opened.map(|root| format!("writing in {root} for the session"));
    Effect {
        paths: paths.collect(),
        beyond: unseen.or(opened),
        ..Effect::default()
    }
}

fn permissions(asked: &PermissionsApproval) -> Effect {
    let mut paths = Vec::new();
    let mut beyond = None;
    for (kind, value) in asked.permissions.as_object().into_iter().flatten() {
        if value.is_null() {
            continue;
        }
        let named = (kind == "fileSystem").then(|| places(value)).flatten();
        match named {
            Some(places) => paths.extend(places),
            None => beyond = Some(format!("{kind}: {value}")),
        }
    }
    Effect {
        cwd: asked.cwd.clone(),
        paths,
        beyond,
        ..Effect::default()
    }
}

fn mcp_tool(asked: &Elicitation) -> Effect {
    Effect {
        mcp_tool: Some(Box::new(McpTool {
            server: asked.server_name.clone(),
            tool: tool_name(asked).map(str::to_owned),
        })),
        ..Effect::default()
    }
}

/// The tool's name is nowhere but in the sentence that Codex 0.166 makes of it. Whatever else stands there is no name,
/// and neither is one that could end the quotes: a server chooses the names of its tools.
fn tool_name(asked: &Elicitation) -> Option<&str> {
    let server = &asked.server_name;
    let before = format!("Allow the {server} MCP server to run tool \"");
    let name = asked.message.as_deref()?.strip_prefix(&before)?;
    let name = name.strip_suffix("\"?")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// The paths that are asked for; `None` when there is anything else than plain paths.
fn places(file_system: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut paths = Vec::new();
    for (key, list) in file_system.as_object()? {
        for one in list.as_array().into_iter().flatten() {
            paths.push(match key.as_str() {
                "read" | "write" => text(one)?,
                "entries" => text(one.get("path")?.get("path")?)?,
                _ => return None,
            });
        }
        if !list.is_array() && !list.is_null() {
            return None;
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;
    use serde_json::json;

    fn of(method: &str, params: Value, changes: &[FileUpdate]) -> Effect {
        let mut all = json!({"threadId": "t", "turnId": "u", "itemId": "i"});
        for (key, value) in params.as_object().unwrap() {
            all[key] = value.clone();
        }
        let request = ServerRequest::parse(RawId::Integer(0), method.to_owned(), all);
        effect(&request, Some(changes))
    }

    #[test]
    fn extra_command_permissions_are_reported() {
        let command = |more: Value| of("item/commandExecution/requestApproval", more, &[]);
        let plain = command(json!({"command": "ls", "cwd": "/w", "environmentId": "local"}));
        assert_eq!(plain.command.as_deref(), Some("ls"));
        assert_eq!(
            (plain.cwd.as_deref(), plain.escalated, plain.beyond),
            (Some("/w"), true, None)
        );
        for more in [
            json!({"kind": "writeStdin"}),
            json!({"networkApprovalContext": {"host": "a", "protocol": "https"}}),
            json!({"additionalPermissions": {"network": {"enabled": true}}}),
            json!({"environmentId": "cloud"}),
            json!({"kind": "brandNew"}),
        ] {
            assert!(command(more.clone()).beyond.is_some(), "{more}");
        }
    }

    #[test]
    fn file_change_lists_all_its_paths() {
        let changes: Vec<FileUpdate> = serde_json::from_value(json!([
            {"path": "/w/a", "kind": {"type": "add"}},
            {"path": "/w/b", "kind": {"type": "update", "move_path": "/w/c"}},
        ]))
        .unwrap();
        let method = "item/fileChange/requestApproval";
        let known = of(method, json!({}), &changes);
        assert_eq!(known.paths, ["/w/a", "/w/b", "/w/c"]);
        assert_eq!(known.beyond, None);
        assert!(of(method, json!({}), &[]).beyond.is_some());
        assert!(
            of(method, json!({"grantRoot": "/"}), &changes)
                .beyond
                .is_some()
        );
    }

    #[test]
    fn tool_approval_names_server_and_tool() {
        let asked = |message: &str, meta: Value| {
            let params =
                json!({"serverName": "mine", "mode": "form", "message": message, "_meta": meta});
            of("mcpServer/elicitation/request", params, &[])
        };
        let approval = || json!({"codex_approval_kind": "mcp_tool_call"});
        let known = asked(
            "Allow the mine MCP server to run tool \"list_peers\"?",
            approval(),
        );
        let tool = known.mcp_tool.unwrap();
        assert_eq!(
            (tool.server.as_str(), tool.tool.as_deref()),
            ("mine", Some("list_peers"))
        );
        assert_eq!((known.beyond, known.escalated), (None, true));
        for other in [
            "Allow the other MCP server to run tool \"list_peers\"?",
            "Allow the mine MCP server to run tool \"a\" or \"b\"?",
            "Allow the mine MCP server to run tool \"\"?",
            "Run list_peers?",
        ] {
            let tool = asked(other, approval()).mcp_tool.unwrap();
            assert_eq!(tool.tool, None, "{other}");
        }
        let form = asked("Allow the mine MCP server to run tool \"x\"?", Value::Null);
        assert!(form.mcp_tool.is_none() && form.beyond.is_some());
    }

    #[test]
    fn permissions_are_paths_or_beyond() {
        let asked = |permissions: Value| {
            let params = json!({"permissions": permissions});
            of("item/permissions/requestApproval", params, &[])
        };
        let entry = json!({"access": "write", "path": {"type": "path", "path": "/c"}});
        let plain = asked(json!({"network": null,
            "fileSystem": {"write": ["/a"], "read": ["/b"], "entries": [entry]}}));
        assert_eq!(plain.beyond, None);
        assert_eq!(plain.paths.len(), 3);
        let glob = json!({"access": "write", "path": {"type": "glob_pattern", "pattern": "**"}});
        for more in [
            json!({"network": {"enabled": true}}),
            json!({"fileSystem": {"entries": [glob]}}),
            json!({"fileSystem": {"brandNew": ["/a"]}}),
            json!({"brandNew": true}),
        ] {
            assert!(asked(more.clone()).beyond.is_some(), "{more}");
        }
    }
}
