//! Accepting with what a person gave beside the yes: answers to questions, the fields of a form, a part of the
//! permissions. An answer that does not fit is refused with a sentence, so that it can be tried again while Codex still asks.
//!
//! The bare shapes are in `outcome.rs`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::form;
use super::outcome::{Outcome, OutcomeError};
use super::server_request::{Elicitation, Question, RequestKind, ServerRequest, UserInputRequest};
use super::values::GrantScope;

impl ServerRequest {
    /// Yes, with what was given beside it. For questions `{"id": "text"}`, `{"id": ["a", "b"]}` or Codex's own
    /// `{"id": {"answers": ["a"]}}`, and the bare text where there is one question; for forms an object of their
    /// fields; for permissions the part that is granted.
    pub fn accept_with(
        &self,
        answers: Option<&Value>,
        scope: &GrantScope,
    ) -> Result<Outcome, String> {
        let bare = || match scope {
            GrantScope::Session => self.accept_for_session(),
            GrantScope::Turn | GrantScope::Other(_) => self.accept(),
        };
        let Some(answers) = answers else {
            return bare().map_err(|error| self.without_answers(&error));
        };
        match &self.kind {
            RequestKind::UserInput(asked) => {
                let given = by_question(asked, answers)?;
                self.answer(&given).map_err(|error| error.to_string())
            }
            RequestKind::Elicitation(asked) => self.fill_in_checked(asked, answers),
            RequestKind::Permissions(asked) if is_part(answers, &asked.permissions) => self
                .grant(answers, scope)
                .map_err(|error| error.to_string()),
            RequestKind::Permissions(_) => {
                Err("more was granted than Codex asks for; grant a part of it".to_owned())
            }
            RequestKind::ToolCall(_) => self.returned(answers),
            _ => Err("it takes no answers, only a decision".to_owned()),
        }
    }

    /// The result of a tool of ours: `{"text": "…", "success": true}`.
    fn returned(&self, answers: &Value) -> Result<Outcome, String> {
        let text = answers.get("text").and_then(Value::as_str);
        let success = answers.get("success").and_then(Value::as_bool);
        let (Some(text), Some(success)) = (text, success) else {
            return Err("a tool gives back `text` and `success`".to_owned());
        };
        self.tool_result(text, success)
            .map_err(|error| error.to_string())
    }

    fn without_answers(&self, error: &OutcomeError) -> String {
        if let RequestKind::UserInput(asked) = &self.kind {
            return format!("it asks {}", wanted(&asked.questions));
        }
        let RequestKind::Elicitation(asked) = &self.kind else {
            return error.to_string();
        };
        if asked.needs_device() {
            NO_DEVICE.to_owned()
        } else {
            "the form needs its fields as answers, and can't be accepted for a session".to_owned()
        }
    }

    fn fill_in_checked(&self, asked: &Elicitation, content: &Value) -> Result<Outcome, String> {
        if asked.needs_device() {
            return Err(NO_DEVICE.to_owned());
        }
        let schema = asked.requested_schema.as_ref().unwrap_or(&Value::Null);
        match form::mismatch(schema, content) {
            Some(why) => Err(why),
            None => self
                .fill_in(content.clone())
                .map_err(|error| error.to_string()),
        }
    }
}

const NO_DEVICE: &str = "it wants a proof of this device, which this bridge does not have; decline it, and do it in Codex's own app";

fn wanted(questions: &[Question]) -> String {
    let ids: Vec<String> = questions.iter().map(|q| format!("`{}`", q.id)).collect();
    format!("for answers by question: {}", ids.join(", "))
}

fn by_question(
    asked: &UserInputRequest,
    answers: &Value,
) -> Result<BTreeMap<String, Vec<String>>, String> {
    let questions = &asked.questions;
    let known = |id: &str| questions.iter().any(|question| question.id == id);
    let only;
    let given: &Map<String, Value> = match (answers, questions.as_slice()) {
        // Codex's whole answer, as its own clients write it.
        (Value::Object(whole), _)
            if whole.len() == 1 && !known("answers") && whole.contains_key("answers") =>
        {
            let inner = whole.get("answers").and_then(Value::as_object);
            inner.ok_or_else(|| format!("it asks {}", wanted(questions)))?
        }
        (Value::Object(given), _) => given,
        (Value::String(_) | Value::Array(_), [question]) => {
            only = Map::from_iter([(question.id.clone(), answers.clone())]);
            &only
        }
        (_, _) => return Err(format!("it asks {}", wanted(questions))),
    };
    if let Some(stray) = given.keys().find(|id| !known(id)) {
        return Err(format!(
            "there is no question `{stray}`; it asks {}",
            wanted(questions)
        ));
    }
    questions
        .iter()
        .map(|question| Ok((question.id.clone(), answer_of(question, given)?)))
        .collect()
}

fn answer_of(question: &Question, given: &Map<String, Value>) -> Result<Vec<String>, String> {
    let id = &question.id;
    let value = given
        .get(id)
        .ok_or_else(|| format!("question `{id}` has no answer"))?;
    let value = value.get("answers").unwrap_or(value);
    let texts: Option<Vec<String>> = match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(list) => list
            .iter()
            .map(|one| one.as_str().map(str::to_owned))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    let texts = texts.filter(|texts| !texts.is_empty());
    let texts = texts.ok_or_else(|| format!("question `{id}` takes a text or a list of texts"))?;
    let labels = || question.options.iter().flatten().map(|o| o.label.as_str());
    let free = question.is_other || labels().next().is_none();
    match texts
        .iter()
        .find(|text| !free && !labels().any(|label| label == *text))
    {
        None => Ok(texts),
        Some(_) => {
            let labels: Vec<String> = labels().map(|label| format!("`{label}`")).collect();
            Err(format!("question `{id}` takes {}", labels.join(", ")))
        }
    }
}

/// Whether all that is granted was asked for.
fn is_part(granted: &Value, asked: &Value) -> bool {
    match (granted, asked) {
        (Value::Object(granted), Value::Object(asked)) => granted
            .iter()
            .all(|(key, value)| asked.get(key).is_some_and(|asked| is_part(value, asked))),
        // A place that Codex asks to be kept out of belongs to whatever else is granted.
        (Value::Array(granted), Value::Array(asked)) => {
            granted.iter().all(|value| asked.contains(value))
                && asked
                    .iter()
                    .all(|value| !is_denial(value) || granted.contains(value))
        }
        (Value::Null | Value::Bool(false), _) => true,
        (granted, asked) => granted == asked,
    }
}

fn is_denial(entry: &Value) -> bool {
    entry.get("access").is_some_and(|access| access == "deny")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;
    use serde_json::json;

    fn request(method: &str, mut params: Value) -> ServerRequest {
        for key in ["threadId", "turnId", "itemId"] {
            params[key] = json!("x");
        }
        ServerRequest::parse(RawId::Integer(0), method.to_owned(), params)
    }

    fn questions(other: bool) -> ServerRequest {
        let options = json!([{"label": "Red"}, {"label": "Blue"}]);
        let asked = json!({"isBlocking": true, "questions": [
            {"id": "color", "question": "Which?", "isOther": other, "options": options},
        ]});
        request("item/tool/requestUserInput", asked)
    }

    fn given(request: &ServerRequest, answers: Value) -> Result<Value, String> {
        match request.accept_with(Some(&answers), &GrantScope::Turn)? {
            Outcome::Result(value) => Ok(value),
            Outcome::Error(error) => Err(error.message),
        }
    }

    #[test]
    fn answers_are_accepted_in_several_forms() {
        let expected = json!({"answers": {"color": {"answers": ["Red"]}}});
        for answers in [
            json!({"color": {"answers": ["Red"]}}),
            json!({"color": ["Red"]}),
            json!({"color": "Red"}),
            json!({"answers": {"color": "Red"}}),
            json!("Red"),
            json!(["Red"]),
        ] {
            assert_eq!(given(&questions(false), answers), Ok(expected.clone()));
        }
        let free = given(&questions(true), json!("Green")).unwrap();
        assert_eq!(free["answers"]["color"]["answers"], json!(["Green"]));
    }

    #[test]
    fn rejected_answer_explains_expected_form() {
        for (answers, why) in [
            (
                json!({"colour": "Red"}),
                "there is no question `colour`; it asks for answers by question: `color`",
            ),
            (json!({}), "question `color` has no answer"),
            (
                json!({"color": 7}),
                "question `color` takes a text or a list of texts",
            ),
            (
                json!({"color": []}),
                "question `color` takes a text or a list of texts",
            ),
            (json!("Green"), "question `color` takes `Red`, `Blue`"),
            (json!(7), "it asks for answers by question: `color`"),
        ] {
            assert_eq!(given(&questions(false), answers), Err(why.to_owned()));
        }
        let bare = questions(false).accept_with(None, &GrantScope::Turn);
        assert_eq!(
            bare,
            Err("it asks for answers by question: `color`".to_owned())
        );
        let command = request("item/commandExecution/requestApproval", json!({}));
        assert!(given(&command, json!({"x": 1})).is_err());
    }

    #[test]
    fn form_answers_are_validated() {
        let form = |meta: Value| {
            let schema = json!({"type": "object", "required": ["name"],
                                "properties": {"name": {"type": "string"}}});
            request(
                "mcpServer/elicitation/request",
                json!({"serverName": "s", "mode": "form", "message": "m", "requestedSchema": schema,
                       "_meta": meta}),
            )
        };
        let asked = form(Value::Null);
        assert_eq!(
            given(&asked, json!({})),
            Err("the form needs `name`".to_owned())
        );
        assert_eq!(
            given(&asked, json!({"name": "x"})).unwrap()["content"],
            json!({"name": "x"})
        );
        assert!(asked.accept_with(None, &GrantScope::Turn).is_err());
        let tool = form(json!({"codex_approval_kind": "mcp_tool_call"}));
        let accepted =
            |meta| Outcome::Result(json!({"action": "accept", "content": {}, "_meta": meta}));
        assert_eq!(
            tool.accept_with(None, &GrantScope::Turn),
            Ok(accepted(Value::Null))
        );
        assert_eq!(
            tool.accept_with(None, &GrantScope::Session),
            Ok(accepted(json!({"persist": "session"})))
        );
    }

    #[test]
    fn no_more_is_granted_than_was_asked() {
        let asked = json!({"network": {"enabled": true}, "fileSystem": {"write": ["/a", "/b"]}});
        let request = request(
            "item/permissions/requestApproval",
            json!({"permissions": asked}),
        );
        let part = json!({"fileSystem": {"write": ["/a"]}});
        assert_eq!(given(&request, part.clone()).unwrap()["permissions"], part);
        let (write, deny) = (json!({"access": "write"}), json!({"access": "deny"}));
        let entries = |list: Value| json!({"fileSystem": {"entries": list}});
        assert!(!is_part(
            &entries(json!([write])),
            &entries(json!([write, deny]))
        ));
        assert!(is_part(
            &entries(json!([deny])),
            &entries(json!([write, deny]))
        ));
        for more in [
            json!({"fileSystem": {"write": ["/"]}}),
            json!({"fileSystem": {"read": ["/a"]}}),
            json!({"other": true}),
        ] {
            assert!(given(&request, more.clone()).is_err(), "{more}");
        }
    }
}
