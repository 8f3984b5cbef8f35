//! All that is decided about when a request of Codex is decided, as plain lines.
//!
//! A decision is bound to this text, and a grant answers only what reads exactly the same: so it holds no ids and no
//! times, and what is too long to be shown is named by its length and hash. A text of the model can't pass for one of
//! our lines: what follows its first line is indented. Escaping for a terminal or a chat is the surface's own.

use data_encoding::HEXLOWER;
use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::item::FileUpdate;
use super::server_request::{
    CommandApproval, Elicitation, FileChangeApproval, PermissionsApproval, RequestKind,
    ServerRequest, UserInputRequest,
};
use super::values::CommandApprovalKind;
use crate::text::head;

/// Longest text of one line, such as a command; nobody reads more before saying yes.
pub const MAX_PART_BYTES: usize = 64 * 1024;
/// Longest diff.
pub const MAX_DIFF_BYTES: usize = 256 * 1024;

/// Shown for a change whose item was never seen.
const NO_DIFF: &str = "the diff is not known";

/// Facts beside the request that belong into its text.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext<'a> {
    /// The sandbox in force, in our words.
    pub sandbox: &'a str,
    /// The files of the item that it is about; from `item/started`, because a request carries none.
    pub changes: Option<&'a [FileUpdate]>,
}

impl ServerRequest {
    /// The text; the same for the same effect, in every life of Codex.
    pub fn shown(&self, context: &RequestContext<'_>) -> String {
        let mut lines = RequestLines::default();
        match &self.kind {
            RequestKind::Command(request) => command(&mut lines, request, context),
            RequestKind::FileChange(request) => files(&mut lines, request, context),
            RequestKind::Permissions(request) => permissions(&mut lines, request, context),
            RequestKind::UserInput(request) => questions(&mut lines, request),
            RequestKind::Elicitation(request) => elicitation(&mut lines, request),
            RequestKind::ToolCall(request) => {
                lines.put("tool", &request.tool);
                lines.maybe("of", request.namespace.as_deref());
                lines.put("arguments", &request.arguments.to_string());
            }
            RequestKind::LegacyExec(request) => {
                lines.put("command", &Value::from(request.command.clone()).to_string());
                lines.maybe("cwd", request.cwd.as_deref());
                lines.put("sandbox", &outside(context.sandbox));
                lines.maybe("reason", request.reason.as_deref());
            }
            RequestKind::LegacyPatch(_)
            | RequestKind::AuthRefresh(_)
            | RequestKind::Attestation
            | RequestKind::CurrentTime(_)
            | RequestKind::Unknown { .. } => {
                lines.put("asks for", &self.method);
                lines.put("with", &self.params.to_string());
            }
        }
        lines.0
    }

    /// Whether a yes lets something happen outside of the sandbox that the turn has. Codex asks about a command only
    /// when it is to leave the sandbox, or where every command is asked about and an accepted one may leave it.
    pub fn leaves_sandbox(&self) -> bool {
        match &self.kind {
            RequestKind::Command(request) => {
                request.additional_permissions.is_none()
                    && request.network_approval_context.is_none()
                    && request.kind != Some(CommandApprovalKind::WriteStdin)
            }
            RequestKind::FileChange(_)
            | RequestKind::Permissions(_)
            | RequestKind::LegacyExec(_)
            | RequestKind::LegacyPatch(_) => true,
            // A tool of an MCP server runs where the operator started it, never in the sandbox.
            RequestKind::Elicitation(request) => request.tool_approval().is_some(),
            RequestKind::UserInput(_)
            | RequestKind::ToolCall(_)
            | RequestKind::AuthRefresh(_)
            | RequestKind::Attestation
            | RequestKind::CurrentTime(_)
            | RequestKind::Unknown { .. } => false,
        }
    }
}

fn command(lines: &mut RequestLines, request: &CommandApproval, context: &RequestContext<'_>) {
    let command = request.command.as_deref().unwrap_or("not named by Codex");
    match request.kind {
        Some(CommandApprovalKind::WriteStdin) => {
            lines.put("input for the running command", command)
        }
        Some(CommandApprovalKind::Command | CommandApprovalKind::Other(_)) | None => {
            lines.put("command", command);
        }
    }
    lines.maybe("cwd", request.cwd.as_deref());
    let elsewhere = request.environment_id.as_deref();
    lines.maybe("environment", elsewhere.filter(|id| *id != "local"));
    let network = request.network_approval_context.as_ref();
    let added = request.additional_permissions.as_ref();
    match (network, added) {
        (Some(network), _) => {
            lines.put(
                "network",
                &format!("{} over {}", network.host, network.protocol),
            );
            lines.put("sandbox", context.sandbox);
        }
        (None, Some(added)) => {
            lines.put("sandbox", context.sandbox);
            lines.put("and beside it", &added.to_string());
        }
        (None, None) if request.kind == Some(CommandApprovalKind::WriteStdin) => {
            lines.put("sandbox", context.sandbox);
        }
        (None, None) => lines.put("sandbox", &outside(context.sandbox)),
    }
    lines.maybe("reason", request.reason.as_deref());
}

fn outside(sandbox: &str) -> String {
    format!("{sandbox}, and if accepted it may run outside of it")
}

fn files(lines: &mut RequestLines, request: &FileChangeApproval, context: &RequestContext<'_>) {
    match context.changes.filter(|changes| !changes.is_empty()) {
        Some(changes) => {
            let list: Vec<String> = changes.iter().map(named).collect();
            lines.put_within("files", &list.join("\n"), MAX_PART_BYTES);
            lines.put_within("diff", &diff(changes), MAX_DIFF_BYTES);
        }
        // The item's id makes it unlike every other question, so that no grant is ever bound to it.
        None => lines.put(
            "diff",
            &format!("{NO_DIFF} (item {})", request.item_id.as_str()),
        ),
    }
    lines.put("sandbox", context.sandbox);
    lines.maybe("also opens for the session", request.grant_root.as_deref());
    lines.maybe("reason", request.reason.as_deref());
}

fn named(change: &FileUpdate) -> String {
    let path = plain(&change.path);
    match &change.kind.move_path {
        Some(to) => format!("{} {path}, moved to {}", change.kind.r#type, plain(to)),
        None => format!("{} {path}", change.kind.r#type),
    }
}

/// The diff of a change for watchers; of a long one the beginning.
pub fn diff_lines(changes: &[FileUpdate], limit: usize) -> String {
    head(&diff(changes), limit).to_owned()
}

fn diff(changes: &[FileUpdate]) -> String {
    let mut text = String::new();
    for change in changes {
        let _infallible = writeln!(text, "{}:", named(change));
        for line in change.diff.split_terminator('\n') {
            let _infallible = writeln!(text, "  {line}");
        }
        if !change.diff.is_empty() && !change.diff.ends_with('\n') {
            text.push_str("(no line break at the end)\n");
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

fn permissions(
    lines: &mut RequestLines,
    request: &PermissionsApproval,
    context: &RequestContext<'_>,
) {
    lines.put("permissions", &request.permissions.to_string());
    lines.maybe("cwd", request.cwd.as_deref());
    lines.put("sandbox", context.sandbox);
    lines.maybe("reason", request.reason.as_deref());
}

fn questions(lines: &mut RequestLines, request: &UserInputRequest) {
    for question in &request.questions {
        lines.put(
            &format!("question `{}`", plain(&question.id)),
            &question.question,
        );
        for option in question.options.iter().flatten() {
            let label = plain(&option.label);
            if option.description.is_empty() {
                lines.put("- choice", &label)
            } else {
                lines.put(&format!("- choice `{label}`"), &option.description)
            }
        }
        if question.is_other && question.options.is_some() {
            lines.put("- choice", "anything else, in your own words");
        }
        if question.is_secret {
            lines.put("- note", "the answer is secret and is shown nowhere");
        }
    }
}

fn elicitation(lines: &mut RequestLines, request: &Elicitation) {
    lines.put("MCP server", &request.server_name);
    lines.maybe("asks", request.message.as_deref());
    if let Some(about) = request.tool_approval() {
        lines.put(
            "parameters",
            &about.get("tool_params").unwrap_or(&Value::Null).to_string(),
        );
        let says = about.get("tool_description").and_then(Value::as_str);
        lines.maybe("the tool says of itself", says);
        lines.put("sandbox", "none: tools of MCP servers run outside of it");
        return;
    }
    lines.maybe("address to visit", request.url.as_deref());
    if let Some(schema) = &request.requested_schema {
        lines.put("form", &schema.to_string());
    }
    if request.needs_device() {
        lines.put(
            "note",
            "it wants a proof of this device, so it can only be declined here",
        );
    }
}

/// One line: a control character in a path or a label is written out.
fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect::<Vec<char>>()
            } else {
                vec![c]
            }
        })
        .collect()
}

#[derive(Default)]
struct RequestLines(String);

impl RequestLines {
    fn put(&mut self, name: &str, value: &str) {
        self.put_within(name, value, MAX_PART_BYTES);
    }

    fn maybe(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
            self.put(name, value);
        }
    }

    fn put_within(&mut self, name: &str, value: &str, limit: usize) {
        let shown = head(value, limit);
        let _infallible = write!(self.0, "{name}:");
        if shown.contains('\n') {
            for line in shown.split('\n') {
                let _infallible = write!(self.0, "\n  {line}");
            }
        } else {
            let _infallible = write!(self.0, " {shown}");
        }
        self.0.push('\n');
        if shown.len() < value.len() {
            let hash = HEXLOWER.encode(&Sha256::digest(value));
            let bytes = value.len();
            let _infallible = writeln!(
                self.0,
                "{name} is cut here: it has {bytes} bytes in all, sha256 {hash}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;
    use serde_json::json;

    const SCENE: RequestContext<'_> = RequestContext {
        sandbox: "read-only",
        changes: None,
    };

    fn request(method: &str, params: Value) -> ServerRequest {
        let mut all = json!({"threadId": "t", "turnId": "u", "itemId": "call_1", "startedAtMs": 7});
        for (key, value) in params.as_object().unwrap() {
            all[key] = value.clone();
        }
        ServerRequest::parse(RawId::Integer(3), method.to_owned(), all)
    }

    fn command(params: Value) -> String {
        request("item/commandExecution/requestApproval", params).shown(&SCENE)
    }

    #[test]
    fn command_shows_directory_and_sandbox() {
        assert_eq!(
            command(
                json!({"command": "touch one", "cwd": "/w", "reason": "because", "environmentId": "local"})
            ),
            "command: touch one\ncwd: /w\nsandbox: read-only, and if accepted it may run outside of it\nreason: because\n"
        );
        assert_eq!(
            command(
                json!({"command": "curl a", "networkApprovalContext": {"host": "a.io", "protocol": "https"}})
            ),
            "command: curl a\nnetwork: a.io over https\nsandbox: read-only\n"
        );
    }

    #[test]
    fn model_text_cannot_forge_lines() {
        let shown = command(json!({"command": "rm -rf x\ncwd: /harmless", "cwd": "/w"}));
        assert!(
            shown.starts_with("command:\n  rm -rf x\n  cwd: /harmless\ncwd: /w\n"),
            "{shown}"
        );
    }

    #[test]
    fn long_command_is_cut_with_hash() {
        let long = |last: &str| format!("{}{last}", "x".repeat(MAX_PART_BYTES));
        let one = command(json!({"command": long("1")}));
        assert!(one.len() < MAX_PART_BYTES + 500, "{}", one.len());
        assert!(one.contains("command is cut here: it has 65537 bytes in all, sha256 "));
        assert_ne!(one, command(json!({"command": long("2")})));
    }

    #[test]
    fn file_change_shows_whole_diff() {
        let asked = request("item/fileChange/requestApproval", json!({"reason": null}));
        let changes: Vec<FileUpdate> = serde_json::from_value(json!([
            {"path": "/w/a", "kind": {"type": "add"}, "diff": "hello\n"},
            {"path": "/w/b", "kind": {"type": "update", "move_path": "/w/c"}, "diff": "@@\n-x\n+y"},
        ]))
        .unwrap();
        let context = RequestContext {
            changes: Some(&changes),
            ..SCENE
        };
        let shown = asked.shown(&context);
        assert_eq!(
            shown,
            "files:\n  add /w/a\n  update /w/b, moved to /w/c\ndiff:\n  add /w/a:\n    hello\n  update /w/b, moved to /w/c:\n    @@\n    -x\n    +y\n  (no line break at the end)\nsandbox: read-only\n"
        );
    }

    #[test]
    fn unknown_diff_is_reported_and_unique() {
        let asked = |item: &str| {
            request("item/fileChange/requestApproval", json!({"itemId": item})).shown(&SCENE)
        };
        assert!(asked("call_1").starts_with("diff: the diff is not known"));
        assert_ne!(asked("call_1"), asked("call_2"));
    }

    #[test]
    fn questions_forms_and_tools_are_shown_whole() {
        let options = json!([{"label": "Red", "description": "r"}, {"label": "Blue"}]);
        let asked = json!({"isBlocking": true, "questions": [
            {"id": "color", "question": "Which?", "isOther": true, "options": options}]});
        assert_eq!(
            request("item/tool/requestUserInput", asked).shown(&SCENE),
            "question `color`: Which?\n- choice `Red`: r\n- choice: Blue\n- choice: anything else, in your own words\n"
        );
        let meta = json!({"codex_approval_kind": "mcp_tool_call", "tool_params": {"a": 1}});
        let tool = json!({"serverName": "s", "mode": "form", "message": "run it?", "_meta": meta,
                          "requestedSchema": {"type": "object", "properties": {}}});
        let tool = request("mcpServer/elicitation/request", tool);
        assert_eq!(
            tool.shown(&SCENE),
            "MCP server: s\nasks: run it?\nparameters: {\"a\":1}\nsandbox: none: tools of MCP servers run outside of it\n"
        );
        assert!(tool.leaves_sandbox());
    }
}
