//! What a request would do, in the facts that rules look at. No judgement here: that is the core's.
//!
//! The files of a change are not in the request but in the item of the same id: [`FileChange::paths`].

use super::item::FileChange;
use super::server_request::{CommandApproval, PermissionsApproval, RequestKind, ServerRequest};
use super::values::CommandApprovalKind;
use bridge_core::rules::{Effect, quote};
use serde_json::Value;

/// The environment that is this machine.
const HERE: &str = "local";

impl ServerRequest {
    /// What an accept would let happen.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match &self.kind {
            RequestKind::Command(request) => command(request, &self.params),
            RequestKind::FileChange(request) => Effect {
                paths: request.grant_root.iter().cloned().collect(),
                ..Effect::default()
            },
            RequestKind::Permissions(request) => permissions(request, &self.params),
            RequestKind::LegacyPatch(_) => legacy_patch(&self.params),
            RequestKind::LegacyExec(request) => Effect {
                command: Some(quote(&request.command)),
                cwd: request.cwd.clone(),
                escalated: request.reason.is_some(),
                ..Effect::default()
            },
            RequestKind::UserInput(_)
            | RequestKind::Elicitation(_)
            | RequestKind::ToolCall(_)
            | RequestKind::AuthRefresh(_)
            | RequestKind::CurrentTime(_)
            | RequestKind::Attestation
            | RequestKind::Unknown { .. } => Effect::default(),
        }
    }
}

impl FileChange {
    /// Every path that the change touches, also where it moves a file to.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.changes
            .iter()
            .flat_map(|change| [Some(&change.path), change.kind.move_path.as_ref()])
            .flatten()
            .cloned()
            .collect()
    }
}

fn command(request: &CommandApproval, params: &Value) -> Effect {
    let given = |key: &str| params.get(key).is_some_and(|value| !value.is_null());
    let network = request
        .network_approval_context
        .as_ref()
        .map(|network| format!("network access to {}", network.host));
    let input = match &request.kind {
        Some(CommandApprovalKind::WriteStdin) => Some("input to a running command".to_owned()),
        Some(CommandApprovalKind::Other(kind)) => {
            Some(format!("something this bridge does not know ({kind})"))
        }
        Some(CommandApprovalKind::Command) | None => None,
    };
    let more = given("additionalPermissions").then(|| "more permissions".to_owned());
    Effect {
        command: request.command.clone(),
        cwd: request.cwd.clone(),
        paths: Vec::new(),
        escalated: request.reason.is_some(),
        beyond: network.or(input).or(more).or_else(|| elsewhere(params)),
    }
}

/// A command for another machine is not what a rule about this one means.
fn elsewhere(params: &Value) -> Option<String> {
    let environment = params.get("environmentId")?.as_str()?;
    (environment != HERE).then(|| format!("the environment {environment}"))
}

fn permissions(request: &PermissionsApproval, params: &Value) -> Effect {
    let mut effect = Effect {
        cwd: request.cwd.clone(),
        escalated: true,
        beyond: elsewhere(params),
        ..Effect::default()
    };
    for (key, asked) in request.permissions.as_object().into_iter().flatten() {
        match key.as_str() {
            "fileSystem" => file_system(asked, &mut effect),
            _ if is_empty(asked) => {}
            key => effect.beyond = Some(key.to_owned()),
        }
    }
    effect
}

fn file_system(asked: &Value, effect: &mut Effect) {
    for (key, value) in asked.as_object().into_iter().flatten() {
        let listed = value.as_array().map(Vec::as_slice).unwrap_or_default();
        for entry in listed {
            let denied = entry.get("access").and_then(Value::as_str) == Some("deny");
            let path = match key.as_str() {
                "entries" => entry.pointer("/path/path"),
                _ => Some(entry),
            };
            match path.and_then(Value::as_str) {
                _ if denied => {}
                Some(path) => effect.paths.push(path.to_owned()),
                None => effect.beyond = Some("files by a pattern".to_owned()),
            }
        }
    }
}

/// Whether nothing is asked for: absent, or switched off.
fn is_empty(asked: &Value) -> bool {
    match asked {
        Value::Null | Value::Bool(false) => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

fn legacy_patch(params: &Value) -> Effect {
    let changes = params.get("fileChanges").and_then(Value::as_object);
    let changed = changes.into_iter().flatten().flat_map(|(path, change)| {
        let moved = ["/update/move_path", "/move_path"]
            .iter()
            .find_map(|at| change.pointer(at)?.as_str());
        [Some(path.as_str()), moved].into_iter().flatten()
    });
    let root = params.get("grantRoot").and_then(Value::as_str);
    Effect {
        paths: changed.chain(root).map(str::to_owned).collect(),
        ..Effect::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;
    use serde_json::json;

    fn effect(method: &str, more: Value) -> Effect {
        let mut params = json!({"threadId": "t", "turnId": "u", "itemId": "i",
                                "conversationId": "t", "callId": "i"});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        ServerRequest::parse(RawId::Integer(0), method.to_owned(), params).effect()
    }

    fn command(more: Value) -> Effect {
        effect("item/commandExecution/requestApproval", more)
    }

    #[test]
    fn a_command_is_told_with_its_directory_and_whether_it_wants_out() {
        let plain = command(json!({"command": "/bin/bash -lc 'touch x'", "cwd": "/work",
                                   "environmentId": "local", "kind": "command"}));
        assert_eq!(plain.command.as_deref(), Some("/bin/bash -lc 'touch x'"));
        assert_eq!(plain.cwd.as_deref(), Some("/work"));
        assert_eq!((plain.escalated, plain.beyond), (false, None));
        assert!(command(json!({"command": "x", "reason": "needs it"})).escalated);
        let old = effect(
            "execCommandApproval",
            json!({"command": ["git", "commit", "-m", "it's; rm"], "cwd": "/work"}),
        );
        assert_eq!(old.command.as_deref(), Some(r"git commit -m 'it'\''s; rm'"));
    }

    #[test]
    fn whatever_is_more_than_a_command_is_told() {
        for more in [
            json!({"networkApprovalContext": {"host": "a.io", "protocol": "https"}}),
            json!({"kind": "writeStdin"}),
            json!({"kind": "brandNew"}),
            json!({"additionalPermissions": {"network": {"enabled": true}}}),
            json!({"environmentId": "far-away"}),
        ] {
            let found = command(more.clone());
            assert!(found.beyond.is_some(), "{more}");
        }
    }

    #[test]
    fn permissions_are_their_paths_and_everything_else_is_beyond() {
        let asked = |permissions: Value| {
            let params = json!({"cwd": "/work", "permissions": permissions});
            let found = effect("item/permissions/requestApproval", params);
            (found.paths, found.beyond.is_some())
        };
        let paths = |all: &[&str]| {
            all.iter()
                .map(|path| (*path).to_owned())
                .collect::<Vec<_>>()
        };
        let entries = json!({"fileSystem": {"entries": [
            {"access": "write", "path": {"type": "path", "path": "/a"}},
            {"access": "deny", "path": {"type": "path", "path": "/b"}}],
            "read": ["/c"], "write": null}, "network": {"enabled": null}});
        assert_eq!(asked(entries), (paths(&["/a", "/c"]), false));
        assert_eq!(asked(json!({"network": {"enabled": true}})), (vec![], true));
        let glob = json!({"fileSystem": {"entries": [
            {"access": "read", "path": {"type": "glob_pattern", "pattern": "/**"}}]}});
        assert_eq!(asked(glob), (vec![], true));
    }

    #[test]
    fn a_change_names_every_file_and_the_root_it_would_open() {
        let found = effect(
            "item/fileChange/requestApproval",
            json!({"grantRoot": "/work"}),
        );
        assert_eq!(found.paths, ["/work"]);
        let changes = json!({"fileChanges": {"/work/a": {"update": {"move_path": "/work/b"}}}});
        assert_eq!(
            effect("applyPatchApproval", changes).paths,
            ["/work/a", "/work/b"]
        );
    }
}
