//! Headlines: one short sentence per item (what Codex is doing) and per request (what a person is asked to decide).
//!
//! Raw text from Codex, bounded and on one line; a surface escapes it. The whole payload of a request is in
//! [`ServerRequest::params`]; a surface that lets a person decide shows that too.

use super::item::{CommandExecution, FileChange, Item};
use super::request_text::RequestContext;
use super::server_request::{
    CommandApproval, Elicitation, RequestKind, ServerRequest, UserInputRequest,
};
use super::values::{CommandApprovalKind, CommandStatus};
use crate::text::{MAX_HEADLINE_BYTES, one_line};

/// Room for one variable part of an item's headline, leaving some for the words around it.
const ITEM_DETAIL_BYTES: usize = 120;
/// The same for a request, whose headline may have two of them.
const REQUEST_DETAIL_BYTES: usize = 110;

impl Item {
    /// A short sentence without a final stop: "running `ls -la`", "editing src/a.rs (+2 more)".
    pub fn headline(&self) -> String {
        let line = match self {
            Self::UserMessage(item) => format!("asked: {}", item_detail(&item.text())),
            Self::AgentMessage(item) => format!("says: {}", item_detail(&item.text)),
            Self::Reasoning(_) => "thinking".to_owned(),
            Self::Plan(_) => "planning".to_owned(),
            Self::CommandExecution(item) => format!("running {}", item_command(item)),
            Self::FileChange(item) => format!("editing {}", file_words(item)),
            Self::McpToolCall(item) => {
                format!(
                    "using {} of {}",
                    item_detail(&item.tool),
                    item_detail(&item.server)
                )
            }
            Self::DynamicToolCall(item) => format!("using {}", item_detail(&item.tool)),
            Self::CollabAgentToolCall(item) => {
                format!("working with another agent ({})", item_detail(&item.tool))
            }
            Self::SubAgentActivity(item) => format!("another agent: {}", item_detail(&item.kind)),
            Self::FunctionCallOutput(item) => {
                format!("reading the result of {}", item_detail(&item.name))
            }
            Self::WebSearch(item) if item.query.trim().is_empty() => "searching the web".to_owned(),
            Self::WebSearch(item) => format!("searching the web for {}", item_detail(&item.query)),
            Self::ImageView(item) => format!("looking at {}", item_detail(&item.path)),
            Self::ImageGeneration(_) => "making an image".to_owned(),
            Self::Sleep(_) => "waiting".to_owned(),
            Self::HookPrompt(_) => "reading what a hook says".to_owned(),
            Self::ContextCompaction(_) => "summarising the conversation so far".to_owned(),
            Self::EnteredReviewMode(_) => "reviewing".to_owned(),
            Self::ExitedReviewMode(_) => "finished reviewing".to_owned(),
            Self::Other(item) if item.kind.is_empty() => "doing something unnamed".to_owned(),
            Self::Other(item) => format!("doing {}", item_detail(&item.kind)),
        };
        one_line(&line, MAX_HEADLINE_BYTES)
    }
}

fn item_detail(text: &str) -> String {
    one_line(text, ITEM_DETAIL_BYTES)
}

fn item_command(item: &CommandExecution) -> String {
    let command = item_detail(unwrap_shell(&item.command));
    match (&item.status, item.exit_code) {
        (CommandStatus::Declined, _) => format!("`{command}` (declined)"),
        (_, Some(code)) if code != 0 => format!("`{command}` (exit code {code})"),
        _ => format!("`{command}`"),
    }
}

fn file_words(item: &FileChange) -> String {
    match item.changes.as_slice() {
        [] => "files".to_owned(),
        [only] => item_detail(&only.path),
        [first, rest @ ..] => format!("{} (+{} more)", item_detail(&first.path), rest.len()),
    }
}

/// Codex runs every command as `/bin/bash -lc '…'`; people care for what is inside. A command with
/// quotes of its own is left as it is: showing something that did not run would be worse.
fn unwrap_shell(command: &str) -> &str {
    let inner = [
        "/bin/bash -lc '",
        "bash -lc '",
        "/bin/zsh -lc '",
        "/bin/sh -c '",
    ]
    .iter()
    .find_map(|shell| command.strip_prefix(shell))
    .and_then(|rest| rest.strip_suffix('\''));
    match inner {
        Some(inner) if !inner.contains('\'') => inner,
        Some(_) | None => command,
    }
}

impl ServerRequest {
    /// [`Self::headline`] with the names of the changed files where they are known.
    pub fn headline_in(&self, context: &RequestContext<'_>) -> String {
        let changes = context.changes.unwrap_or_default();
        let (RequestKind::FileChange(request), [first, rest @ ..]) = (&self.kind, changes) else {
            return self.headline();
        };
        let what = detail(&format!("{} {}", first.kind.r#type, first.path));
        let line = match rest.len() {
            0 => what,
            more => format!("{what} (+{more} more)"),
        };
        one_line(
            &with_reason(line, request.reason.as_deref()),
            MAX_HEADLINE_BYTES,
        )
    }

    /// A short sentence: "run `touch x` in /work (mock wants to escalate)".
    pub fn headline(&self) -> String {
        let line = match &self.kind {
            RequestKind::Command(request) => command_words(request),
            RequestKind::FileChange(request) => {
                with_reason("change files".to_owned(), request.reason.as_deref())
            }
            RequestKind::Permissions(request) => with_reason(
                format!(
                    "more permissions: {}",
                    detail(&request.permissions.to_string())
                ),
                request.reason.as_deref(),
            ),
            RequestKind::UserInput(request) => question_words(request),
            RequestKind::Elicitation(request) => elicitation_words(request),
            RequestKind::ToolCall(request) => format!("use the tool {}", detail(&request.tool)),
            RequestKind::LegacyPatch(request) => {
                with_reason("change files".to_owned(), request.reason.as_deref())
            }
            RequestKind::LegacyExec(request) => with_reason(
                format!("run `{}`", detail(&request.command.join(" "))),
                request.reason.as_deref(),
            ),
            RequestKind::AuthRefresh(_) => "a fresh login of the account".to_owned(),
            RequestKind::Attestation => "a proof about this client".to_owned(),
            RequestKind::CurrentTime(_) => "the time".to_owned(),
            RequestKind::Unknown { .. } => {
                format!(
                    "something this bridge does not know ({})",
                    detail(&self.method)
                )
            }
        };
        one_line(&line, MAX_HEADLINE_BYTES)
    }
}

fn command_words(request: &CommandApproval) -> String {
    let command = request.command.as_deref().unwrap_or("a command");
    let command = detail(unwrap_shell(command));
    let line = match (&request.network_approval_context, &request.kind) {
        (Some(network), _) => format!("let `{command}` reach {}", detail(&network.host)),
        (None, Some(CommandApprovalKind::WriteStdin)) => format!("send input to `{command}`"),
        (None, Some(CommandApprovalKind::Command | CommandApprovalKind::Other(_)) | None) => {
            match &request.cwd {
                Some(cwd) => format!("run `{command}` in {}", detail(cwd)),
                None => format!("run `{command}`"),
            }
        }
    };
    with_reason(line, request.reason.as_deref())
}

fn question_words(request: &UserInputRequest) -> String {
    match request.questions.as_slice() {
        [] => "a question without words".to_owned(),
        [only] => detail(&only.question),
        [first, rest @ ..] => format!("{} (+{} more)", detail(&first.question), rest.len()),
    }
}

fn elicitation_words(request: &Elicitation) -> String {
    let server = detail(&request.server_name);
    match (&request.message, &request.url) {
        (Some(message), _) => format!("{server} asks: {}", detail(message)),
        (None, Some(url)) => format!("{server} asks to visit {}", detail(url)),
        (None, None) => format!("{server} asks for input"),
    }
}

fn with_reason(line: String, reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.trim().is_empty() => format!("{line} ({})", detail(reason)),
        Some(_) | None => line,
    }
}

fn detail(text: &str) -> String {
    one_line(text, REQUEST_DETAIL_BYTES)
}

#[cfg(test)]
mod item_tests {
    use serde_json::{Value, json};

    use super::*;

    fn headline(value: Value) -> String {
        Item::from_value(&value).headline()
    }

    fn command(text: &str) -> String {
        headline(
            json!({"type": "commandExecution", "id": "x", "command": text, "cwd": "/",
                        "status": "inProgress"}),
        )
    }

    #[test]
    fn a_command_that_failed_says_how() {
        let ended = |code: i64| {
            headline(
                json!({"type": "commandExecution", "id": "x", "command": "false", "cwd": "/",
                        "status": "failed", "exitCode": code}),
            )
        };
        assert_eq!(ended(0), "running `false`");
        assert_eq!(ended(1), "running `false` (exit code 1)");
    }

    fn edit(paths: &[&str]) -> String {
        let changes: Vec<Value> = paths
            .iter()
            .map(|path| json!({"path": path, "kind": {"type": "add"}, "diff": ""}))
            .collect();
        headline(
            json!({"type": "fileChange", "id": "x", "changes": changes, "status": "completed"}),
        )
    }

    #[test]
    fn says_what_codex_is_doing() {
        assert_eq!(command("/bin/bash -lc 'ls -la'"), "running `ls -la`");
        assert_eq!(command("ls\n-la"), "running `ls -la`");
        assert_eq!(edit(&["src/a.rs"]), "editing src/a.rs");
        assert_eq!(edit(&["src/a.rs", "b", "c"]), "editing src/a.rs (+2 more)");
        assert_eq!(edit(&[]), "editing files");
        assert_eq!(
            headline(json!({"type": "reasoning", "id": "x"})),
            "thinking"
        );
        assert_eq!(
            headline(json!({"type": "webSearch", "id": "x", "query": "rust"})),
            "searching the web for rust"
        );
        assert_eq!(headline(json!({"type": "warp", "id": "x"})), "doing warp");
    }

    #[test]
    fn nested_quotes_are_shown_whole() {
        let nested = "/bin/bash -lc 'echo '\\''hi'\\'''";
        assert_eq!(command(nested), format!("running `{nested}`"));
    }

    #[test]
    fn whatever_comes_the_line_is_short() {
        let long = "é\n".repeat(50_000);
        for line in [
            command(&long),
            edit(&[&long, &long]),
            headline(json!({"type": long})),
        ] {
            assert!(line.len() <= MAX_HEADLINE_BYTES, "{}", line.len());
            assert!(!line.contains('\n'));
        }
    }
}

#[cfg(test)]
mod request_tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rpc::RawId;

    fn headline(method: &str, params: Value) -> String {
        ServerRequest::parse(RawId::Integer(0), method.to_owned(), params).headline()
    }

    fn command(more: Value) -> String {
        let mut params = json!({"threadId": "t", "turnId": "u", "itemId": "i",
                                "command": "/bin/bash -lc 'touch x'", "cwd": "/work"});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        headline("item/commandExecution/requestApproval", params)
    }

    #[test]
    fn says_what_is_to_be_decided() {
        assert_eq!(command(json!({})), "run `touch x` in /work");
        assert_eq!(
            command(json!({"reason": "needs the net"})),
            "run `touch x` in /work (needs the net)"
        );
        assert_eq!(
            command(json!({"networkApprovalContext": {"host": "a.io", "protocol": "https"}})),
            "let `touch x` reach a.io"
        );
        assert_eq!(
            command(json!({"kind": "writeStdin"})),
            "send input to `touch x`"
        );
        assert_eq!(
            headline(
                "item/tool/requestUserInput",
                json!({"threadId": "t", "turnId": "u", "itemId": "i", "isBlocking": true,
                       "questions": [{"id": "a", "question": "Which color?"},
                                     {"id": "b", "question": "Why?"}]})
            ),
            "Which color? (+1 more)"
        );
        assert_eq!(
            headline("brand/new", json!(null)),
            "something this bridge does not know (brand/new)"
        );
    }

    #[test]
    fn a_change_is_named_by_its_files() {
        let params = json!({"threadId": "t", "turnId": "u", "itemId": "i", "reason": null});
        let method = "item/fileChange/requestApproval".to_owned();
        let request = ServerRequest::parse(RawId::Integer(0), method, params);
        let file = json!({"path": "/w/a", "kind": {"type": "add"}, "diff": "x"});
        let changes = vec![serde_json::from_value(file).unwrap(); 2];
        let context = |changes| RequestContext {
            sandbox: "read-only",
            changes,
        };
        assert_eq!(
            request.headline_in(&context(Some(&changes))),
            "add /w/a (+1 more)"
        );
        assert_eq!(request.headline_in(&context(None)), "change files");
    }

    #[test]
    fn whatever_comes_the_line_is_short() {
        let long = "é ".repeat(50_000);
        for line in [
            command(json!({"command": long, "reason": long})),
            headline(&long, json!({})),
        ] {
            assert!(line.len() <= MAX_HEADLINE_BYTES, "{}", line.len());
        }
    }
}
