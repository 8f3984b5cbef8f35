//! One short sentence per item: what Codex is doing, in a person's words.
//!
//! The text is raw (commands and paths come from the model); escaping is done where it is shown.
//! Length is bounded here, so nobody else has to care.

use super::item::{CommandExecution, FileChange, Item};
use crate::text::{MAX_HEADLINE_BYTES, one_line};

/// Room for the variable part of a headline, leaving some for the words around it.
const MAX_DETAIL_BYTES: usize = 120;

impl Item {
    /// A short sentence without a final stop: "running `ls -la`", "editing src/a.rs (+2 more)".
    pub fn headline(&self) -> String {
        let line = match self {
            Self::UserMessage(item) => format!("asked: {}", detail(&item.text())),
            Self::AgentMessage(item) => format!("says: {}", detail(&item.text)),
            Self::Reasoning(_) => "thinking".to_owned(),
            Self::Plan(_) => "planning".to_owned(),
            Self::CommandExecution(item) => format!("running {}", command_words(item)),
            Self::FileChange(item) => format!("editing {}", file_words(item)),
            Self::McpToolCall(item) => {
                format!("using {} of {}", detail(&item.tool), detail(&item.server))
            }
            Self::DynamicToolCall(item) => format!("using {}", detail(&item.tool)),
            Self::CollabAgentToolCall(item) => {
                format!("working with another agent ({})", detail(&item.tool))
            }
            Self::SubAgentActivity(item) => format!("another agent: {}", detail(&item.kind)),
            Self::FunctionCallOutput(item) => {
                format!("reading the result of {}", detail(&item.name))
            }
            Self::WebSearch(item) if item.query.trim().is_empty() => "searching the web".to_owned(),
            Self::WebSearch(item) => format!("searching the web for {}", detail(&item.query)),
            Self::ImageView(item) => format!("looking at {}", detail(&item.path)),
            Self::ImageGeneration(_) => "making an image".to_owned(),
            Self::Sleep(_) => "waiting".to_owned(),
            Self::HookPrompt(_) => "reading what a hook says".to_owned(),
            Self::ContextCompaction(_) => "summarising the conversation so far".to_owned(),
            Self::EnteredReviewMode(_) => "reviewing".to_owned(),
            Self::ExitedReviewMode(_) => "finished reviewing".to_owned(),
            Self::Other(item) if item.kind.is_empty() => "doing something unnamed".to_owned(),
            Self::Other(item) => format!("doing {}", detail(&item.kind)),
        };
        one_line(&line, MAX_HEADLINE_BYTES)
    }
}

fn detail(text: &str) -> String {
    one_line(text, MAX_DETAIL_BYTES)
}

fn command_words(item: &CommandExecution) -> String {
    let command = detail(unwrap_shell(&item.command));
    match item.exit_code {
        Some(code) if code != 0 => format!("`{command}` (exit code {code})"),
        Some(_) | None => format!("`{command}`"),
    }
}

fn file_words(item: &FileChange) -> String {
    match item.changes.as_slice() {
        [] => "files".to_owned(),
        [only] => detail(&only.path),
        [first, rest @ ..] => format!("{} (+{} more)", detail(&first.path), rest.len()),
    }
}

/// Codex runs every command as `/bin/bash -lc '…'`; people care for what is inside. A command with
/// quotes of its own is left as it is: showing something that did not run would be worse.
pub(super) fn unwrap_shell(command: &str) -> &str {
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

#[cfg(test)]
mod tests {
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
