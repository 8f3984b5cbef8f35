//! What an accept of a question must say, read from what Codex sent. Whether a given answer fits is in `questions`.

use bridge_codex::rpc::RawId;
use bridge_codex::wire::ServerRequest;
use bridge_codex::wire::server_request::RequestKind as Asked;
use bridge_core::value::{RequestKind, Wants};
use serde_json::Value;

/// What can't be read wants more than a word: it is answered where all of it is seen.
pub(crate) fn wants(kind: &RequestKind, method: &str, payload: &str) -> Wants {
    match kind {
        RequestKind::Command
        | RequestKind::FileChange
        | RequestKind::Permissions
        | RequestKind::ToolCall
        | RequestKind::Other(_) => Wants::Approval,
        RequestKind::UserInput | RequestKind::Elicitation => {
            let params: Option<Value> = serde_json::from_str(payload).ok();
            params.map_or(Wants::Form, |params| of_form(method, params))
        }
    }
}

fn of_form(method: &str, params: Value) -> Wants {
    let asked = ServerRequest::parse(RawId::Integer(0), method.to_owned(), params);
    match &asked.kind {
        Asked::Elicitation(form) if form.tool_approval().is_some() => Wants::Approval,
        Asked::Elicitation(form) if form.takes_no_content() => Wants::Visit,
        Asked::UserInput(asked) if asked.questions.len() == 1 => Wants::Text,
        _ => Wants::Form,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classifies_approval_text_and_form_requests() {
        let ask = "item/tool/requestUserInput";
        let form = "mcpServer/elicitation/request";
        let question = |id: &str| json!({"id": id, "question": "?"});
        let asks = |questions: Value| json!({"threadId": "t", "turnId": "u", "itemId": "i", "isBlocking": true, "questions": questions});
        let elicits = |mode: &str, meta: Value| {
            json!({"threadId": "t", "turnId": "u", "serverName": "s", "mode": mode, "message": "m",
                "url": "https://example.org", "requestedSchema": {"type": "object", "properties": {}}, "_meta": meta})
        };
        let tool = json!({"codex_approval_kind": "mcp_tool_call"});
        for (method, payload, expected) in [
            (ask, asks(json!([question("a")])), Wants::Text),
            (
                ask,
                asks(json!([question("a"), question("b")])),
                Wants::Form,
            ),
            (ask, json!({"unread": true}), Wants::Form),
            (form, elicits("form", tool), Wants::Approval),
            (form, elicits("form", Value::Null), Wants::Form),
            (form, elicits("url", Value::Null), Wants::Visit),
        ] {
            let kind = if method == ask {
                RequestKind::UserInput
            } else {
                RequestKind::Elicitation
            };
            let found = wants(&kind, method, &payload.to_string());
            assert_eq!(found, expected, "{payload}");
        }
        assert_eq!(
            wants(&RequestKind::Elicitation, form, "{\"cut"),
            Wants::Form
        );
        assert_eq!(wants(&RequestKind::Command, "x", "{\"cut"), Wants::Approval);
    }
}
