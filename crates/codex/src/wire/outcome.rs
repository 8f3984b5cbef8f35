//! How a request of Codex is answered: one exact shape per kind and decision.
//!
//! A wrong shape is not refused by Codex, it is silently read as "denied" or leaves the turn
//! hanging, so every shape is built here and checked against the schema. Who may decide what
//! belongs elsewhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thiserror::Error;

use super::server_request::{RequestKind, ServerRequest};
use super::values::GrantScope;
use crate::rpc::{METHOD_NOT_FOUND, RpcError};

/// The answer to a request of Codex.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Result(Value),
    Error(RpcError),
}

/// The decision does not fit the kind of request; decide otherwise or decline.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{decision} does not fit a request of kind {method}; decline it or give what it asks for")]
pub struct OutcomeError {
    pub method: String,
    pub decision: &'static str,
}

/// Sent to the model when a legacy request is refused.
const REJECTION: &str = "rejected by user";

impl ServerRequest {
    /// The refusal: the turn goes on and the model gets to know. Exists for every kind; a kind we do
    /// not know gets a JSON-RPC error, which Codex takes as a refusal too.
    pub fn decline(&self) -> Outcome {
        match &self.kind {
            RequestKind::Command(_) | RequestKind::FileChange(_) => decision("decline"),
            RequestKind::Permissions(_) => permissions(&json!({}), &GrantScope::Turn),
            RequestKind::UserInput(_) => answers(&BTreeMap::new()),
            RequestKind::Elicitation(_) => elicitation("decline", Value::Null),
            RequestKind::ToolCall(_) => tool_output("this tool is not available", false),
            RequestKind::LegacyPatch(_) | RequestKind::LegacyExec(_) => {
                Outcome::Result(json!({"decision": {"denied": {"rejection": REJECTION}}}))
            }
            RequestKind::AuthRefresh(_)
            | RequestKind::Attestation
            | RequestKind::CurrentTime(_)
            | RequestKind::Unknown { .. } => Outcome::Error(RpcError::new(
                METHOD_NOT_FOUND,
                format!("{} is not offered by this client", self.method),
            )),
        }
    }

    /// Yes, this once. Permissions are granted as asked, until the turn ends.
    pub fn accept(&self) -> Result<Outcome, OutcomeError> {
        match &self.kind {
            RequestKind::Command(_) | RequestKind::FileChange(_) => Ok(decision("accept")),
            RequestKind::Permissions(asked) => {
                Ok(permissions(&asked.permissions, &GrantScope::Turn))
            }
            RequestKind::LegacyPatch(_) | RequestKind::LegacyExec(_) => Ok(decision("approved")),
            RequestKind::Elicitation(asked) if asked.takes_no_content() => {
                Ok(elicitation("accept", Value::Null))
            }
            RequestKind::Elicitation(asked) if asked.tool_approval().is_some() => {
                Ok(elicitation("accept", json!({})))
            }
            _ => Err(self.mismatch("a bare accept")),
        }
    }

    /// Yes, and the same thing need not be asked again in this session.
    pub fn accept_for_session(&self) -> Result<Outcome, OutcomeError> {
        match &self.kind {
            RequestKind::Command(_) | RequestKind::FileChange(_) => {
                Ok(decision("acceptForSession"))
            }
            RequestKind::Permissions(asked) => {
                Ok(permissions(&asked.permissions, &GrantScope::Session))
            }
            RequestKind::LegacyPatch(_) | RequestKind::LegacyExec(_) => {
                Ok(decision("approved_for_session"))
            }
            RequestKind::Elicitation(asked) if asked.tool_approval().is_some() => {
                Ok(Outcome::Result(json!({
                    "action": "accept", "content": {}, "_meta": {"persist": "session"},
                })))
            }
            _ => Err(self.mismatch("accept for session")),
        }
    }

    /// Whether Codex ends the turn by itself when this is cancelled. After the cancel of any other kind the model goes
    /// on, so the turn must be interrupted.
    pub fn cancel_ends_turn(&self) -> bool {
        matches!(
            self.kind,
            RequestKind::Command(_)
                | RequestKind::FileChange(_)
                | RequestKind::LegacyPatch(_)
                | RequestKind::LegacyExec(_)
        )
    }

    /// No, and stop: an approval ends the turn as interrupted. Kinds that know no such answer are
    /// declined; see [`ServerRequest::cancel_ends_turn`].
    pub fn cancel(&self) -> Outcome {
        match &self.kind {
            RequestKind::Command(_) | RequestKind::FileChange(_) => decision("cancel"),
            RequestKind::LegacyPatch(_) | RequestKind::LegacyExec(_) => decision("abort"),
            RequestKind::Elicitation(_) => elicitation("cancel", Value::Null),
            _ => self.decline(),
        }
    }

    /// Grants a part of the permissions asked for.
    pub fn grant(&self, granted: &Value, scope: &GrantScope) -> Result<Outcome, OutcomeError> {
        let RequestKind::Permissions(_) = &self.kind else {
            return Err(self.mismatch("a permission grant"));
        };
        Ok(permissions(granted, scope))
    }

    /// Answers Codex's questions, by question id.
    pub fn answer(&self, given: &BTreeMap<String, Vec<String>>) -> Result<Outcome, OutcomeError> {
        let RequestKind::UserInput(_) = &self.kind else {
            return Err(self.mismatch("an answer to questions"));
        };
        Ok(answers(given))
    }

    /// Fills in the form of an MCP server.
    pub fn fill_in(&self, content: Value) -> Result<Outcome, OutcomeError> {
        let RequestKind::Elicitation(_) = &self.kind else {
            return Err(self.mismatch("form content"));
        };
        Ok(elicitation("accept", content))
    }

    /// Gives back what a tool of ours returned.
    pub fn tool_result(&self, text: &str, success: bool) -> Result<Outcome, OutcomeError> {
        let RequestKind::ToolCall(_) = &self.kind else {
            return Err(self.mismatch("a tool result"));
        };
        Ok(tool_output(text, success))
    }

    /// Tells the time, in unix seconds.
    pub fn tell_time(&self, now_s: i64) -> Result<Outcome, OutcomeError> {
        let RequestKind::CurrentTime(_) = &self.kind else {
            return Err(self.mismatch("the time"));
        };
        Ok(Outcome::Result(json!({"currentTimeAt": now_s})))
    }

    fn mismatch(&self, decision: &'static str) -> OutcomeError {
        OutcomeError {
            method: self.method.clone(),
            decision,
        }
    }
}

fn decision(word: &str) -> Outcome {
    Outcome::Result(json!({"decision": word}))
}

fn permissions(granted: &Value, scope: &GrantScope) -> Outcome {
    Outcome::Result(json!({"permissions": granted, "scope": scope}))
}

fn answers(given: &BTreeMap<String, Vec<String>>) -> Outcome {
    let answers: BTreeMap<&String, Value> = given
        .iter()
        .map(|(question, answers)| (question, json!({"answers": answers})))
        .collect();
    Outcome::Result(json!({"answers": answers}))
}

fn elicitation(action: &str, content: Value) -> Outcome {
    Outcome::Result(json!({"action": action, "content": content, "_meta": null}))
}

fn tool_output(text: &str, success: bool) -> Outcome {
    Outcome::Result(json!({
        "contentItems": [{"type": "inputText", "text": text}],
        "success": success,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;

    fn request(method: &str, params: Value) -> ServerRequest {
        ServerRequest::parse(RawId::Integer(0), method.to_owned(), params)
    }

    fn about(mut more: Value) -> Value {
        let ids = json!({"threadId": "t", "turnId": "u", "itemId": "i"});
        for (key, value) in ids.as_object().unwrap() {
            more[key] = value.clone();
        }
        more
    }

    #[test]
    fn approvals_take_the_four_words() {
        for method in [
            "item/commandExecution/requestApproval",
            "item/fileChange/requestApproval",
        ] {
            let request = request(method, about(json!({})));
            assert_eq!(request.accept(), Ok(decision("accept")));
            assert_eq!(
                request.accept_for_session(),
                Ok(decision("acceptForSession"))
            );
            assert_eq!(request.decline(), decision("decline"));
            assert_eq!(request.cancel(), decision("cancel"));
            assert!(request.answer(&BTreeMap::new()).is_err());
        }
    }

    #[test]
    fn permissions_are_granted_exactly_as_requested() {
        let asked = json!({"network": {"enabled": true}, "fileSystem": null});
        let request = request(
            "item/permissions/requestApproval",
            about(json!({"permissions": asked})),
        );
        let granted = |scope| Outcome::Result(json!({"permissions": asked, "scope": scope}));
        assert_eq!(request.accept(), Ok(granted("turn")));
        assert_eq!(request.accept_for_session(), Ok(granted("session")));
        let nothing = Outcome::Result(json!({"permissions": {}, "scope": "turn"}));
        assert_eq!(request.decline(), nothing);
        assert_eq!(request.cancel(), nothing);
        assert_eq!(
            request.grant(&json!({}), &GrantScope::Session),
            Ok(Outcome::Result(
                json!({"permissions": {}, "scope": "session"})
            ))
        );
    }

    #[test]
    fn questions_are_answered_by_their_ids() {
        let request = request(
            "item/tool/requestUserInput",
            about(json!({"questions": []})),
        );
        let given = BTreeMap::from([("color".to_owned(), vec!["Red".to_owned()])]);
        assert_eq!(
            request.answer(&given),
            Ok(Outcome::Result(
                json!({"answers": {"color": {"answers": ["Red"]}}})
            ))
        );
        assert_eq!(request.decline(), Outcome::Result(json!({"answers": {}})));
        assert!(request.accept().is_err());
    }

    #[test]
    fn forms_need_content_and_pages_do_not() {
        let asked = |mode: &str| {
            request(
                "mcpServer/elicitation/request",
                json!({"threadId": "t", "turnId": null, "serverName": "s", "mode": mode}),
            )
        };
        assert!(asked("form").accept().is_err());
        assert_eq!(
            asked("url").accept(),
            Ok(elicitation("accept", Value::Null))
        );
        assert_eq!(
            asked("form").fill_in(json!({"name": "x"})),
            Ok(Outcome::Result(
                json!({"action": "accept", "content": {"name": "x"}, "_meta": null})
            ))
        );
        assert_eq!(asked("form").decline(), elicitation("decline", Value::Null));
        assert_eq!(asked("form").cancel(), elicitation("cancel", Value::Null));
    }

    #[test]
    fn unreadable_request_is_refused_with_error() {
        for request in [
            request("brand/new", json!({})),
            request("item/commandExecution/requestApproval", json!([])),
            request("attestation/generate", json!({})),
        ] {
            assert!(
                matches!(request.decline(), Outcome::Error(_)),
                "{request:?}"
            );
            assert_eq!(request.cancel(), request.decline());
            assert!(request.accept().is_err() && request.accept_for_session().is_err());
        }
    }
}
