//! One short sentence per request: what a person is asked to decide.
//!
//! Raw and bounded, as in `headline.rs`. The whole payload is in [`ServerRequest::params`]; a
//! surface that lets a person decide shows that too.

use super::headline::unwrap_shell;
use super::server_request::{
    CommandApproval, Elicitation, RequestKind, ServerRequest, UserInputRequest,
};
use super::shown::RequestScene;
use super::values::CommandApprovalKind;
use crate::text::{MAX_HEADLINE_BYTES, one_line};

/// Room for the variable part of a headline, leaving some for the words around it.
const MAX_DETAIL_BYTES: usize = 110;

impl ServerRequest {
    /// The same, with the names of the files where they are known.
    pub fn headline_in(&self, scene: &RequestScene<'_>) -> String {
        let changes = scene.changes.unwrap_or_default();
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
    one_line(text, MAX_DETAIL_BYTES)
}

#[cfg(test)]
mod tests {
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
        let scene = |changes| RequestScene {
            sandbox: "read-only",
            changes,
        };
        assert_eq!(
            request.headline_in(&scene(Some(&changes))),
            "add /w/a (+1 more)"
        );
        assert_eq!(request.headline_in(&scene(None)), "change files");
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
