//! Accepts a request with data: answers to questions, the fields of a form, a part of the permissions.
//!
//! An answer that does not fit is refused with a sentence that names the field, so that it can be corrected while Codex
//! still asks; Codex would pass it on, and the MCP server would fail the tool. Forms are checked against as much of JSON
//! schema as they may use. The bare shapes of answers are in `outcome.rs`.

use super::outcome::{OutcomeError, RequestOutcome};
use super::server_request::{
    Elicitation, RequestKind, ServerRequest, UserInputRequest, UserQuestion,
};
use super::values::GrantScope;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

impl ServerRequest {
    /// Yes, with what was given beside it. For questions `{"id": "text"}`, `{"id": ["a", "b"]}` or Codex's own
    /// `{"id": {"answers": ["a"]}}`, and the bare text where there is one question; for forms an object of their
    /// fields; for permissions the part that is granted.
    pub fn accept_with(
        &self,
        answers: Option<&Value>,
        scope: &GrantScope,
    ) -> Result<RequestOutcome, String> {
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
    fn returned(&self, answers: &Value) -> Result<RequestOutcome, String> {
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

    fn fill_in_checked(
        &self,
        asked: &Elicitation,
        content: &Value,
    ) -> Result<RequestOutcome, String> {
        if asked.needs_device() {
            return Err(NO_DEVICE.to_owned());
        }
        let schema = asked.requested_schema.as_ref().unwrap_or(&Value::Null);
        match form_mismatch(schema, content) {
            Some(why) => Err(why),
            None => self
                .fill_in(content.clone())
                .map_err(|error| error.to_string()),
        }
    }
}

const NO_DEVICE: &str = "it wants a proof of this device, which this bridge does not have; decline it, and do it in Codex's own app";

fn wanted(questions: &[UserQuestion]) -> String {
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

fn answer_of(question: &UserQuestion, given: &Map<String, Value>) -> Result<Vec<String>, String> {
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

/// Why `content` does not fit `schema`; `None` when it does. A schema that says nothing takes any object.
fn form_mismatch(schema: &Value, content: &Value) -> Option<String> {
    let Some(given) = content.as_object() else {
        return Some("the form takes an object of its fields".to_owned());
    };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties.unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|name| given.get(*name).is_none_or(Value::is_null));
    if let Some(name) = missing {
        return Some(format!("the form needs `{name}`"));
    }
    given
        .iter()
        .find_map(|(name, value)| match fields.get(name) {
            Some(field) => field_mismatch(field, value).map(|why| format!("`{name}` {why}")),
            None if properties.is_none() => None,
            None => Some(format!(
                "the form has no `{name}`, only {}",
                names(fields.keys().map(String::as_str))
            )),
        })
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() {
        "no field at all".to_owned()
    } else {
        quoted.join(", ")
    }
}

fn field_mismatch(field: &Value, value: &Value) -> Option<String> {
    let kind = field.get("type").and_then(Value::as_str);
    let fits = match kind {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some(_) | None => true,
    };
    if !fits {
        return Some(format!("takes {}", kind.unwrap_or("something else")));
    }
    choice_mismatch(field, value)
        .or_else(|| size_mismatch(field, value))
        .or_else(|| items_mismatch(field, value))
}

fn items_mismatch(field: &Value, value: &Value) -> Option<String> {
    let items = field.get("items")?;
    value
        .as_array()?
        .iter()
        .find_map(|item| field_mismatch(items, item))
}

/// `enum`, or titled choices under `oneOf` and `anyOf`.
fn choice_mismatch(field: &Value, value: &Value) -> Option<String> {
    let plain = field.get("enum").and_then(Value::as_array);
    let titled = ["oneOf", "anyOf"]
        .into_iter()
        .find_map(|key| field.get(key).and_then(Value::as_array));
    let choices: Vec<&Value> = match (plain, titled) {
        (Some(plain), _) => plain.iter().collect(),
        (None, Some(titled)) => titled.iter().filter_map(|one| one.get("const")).collect(),
        (None, None) => return None,
    };
    let fits = choices.is_empty() || choices.contains(&value);
    (!fits).then(|| format!("takes {}", names(choices.iter().filter_map(|v| v.as_str()))))
}

fn size_mismatch(field: &Value, value: &Value) -> Option<String> {
    let number = |key: &str| field.get(key).and_then(Value::as_f64);
    let count = |key: &str| {
        let count = field.get(key).and_then(Value::as_u64);
        count.and_then(|count| usize::try_from(count).ok())
    };
    let (size, least, most, what) = match value {
        Value::String(text) => (text.chars().count(), "minLength", "maxLength", "characters"),
        Value::Array(items) => (items.len(), "minItems", "maxItems", "choices"),
        Value::Number(given) => {
            let given = given.as_f64()?;
            return match (number("minimum"), number("maximum")) {
                (Some(least), _) if given < least => Some(format!("must be at least {least}")),
                (_, Some(most)) if given > most => Some(format!("must be at most {most}")),
                (Some(_) | None, Some(_) | None) => None,
            };
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => return None,
    };
    match (count(least), count(most)) {
        (Some(least), _) if size < least => Some(format!("needs at least {least} {what}")),
        (_, Some(most)) if size > most => Some(format!("takes at most {most} {what}")),
        (Some(_) | None, Some(_) | None) => None,
    }
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
            RequestOutcome::Result(value) => Ok(value),
            RequestOutcome::Error(error) => Err(error.message),
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
        let accepted = |meta| {
            RequestOutcome::Result(json!({"action": "accept", "content": {}, "_meta": meta}))
        };
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

    fn schema() -> Value {
        json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 4},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "size": {"type": "number"},
            "sure": {"type": "boolean"},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "pet": {"type": "string", "oneOf": [{"const": "cat", "title": "Cat"}]},
            "tags": {"type": "array", "maxItems": 2, "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        }})
    }

    #[test]
    fn what_fits_is_taken() {
        let all = json!({"name": "Ann", "count": 3, "size": 1.5, "sure": true, "color": "red",
                         "pet": "cat", "tags": ["a"]});
        assert_eq!(form_mismatch(&schema(), &all), None);
        assert_eq!(form_mismatch(&json!({}), &json!({"any": "thing"})), None);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (content, why) in [
            (json!("Ann"), "the form takes an object of its fields"),
            (json!({}), "the form needs `name`"),
            (json!({"name": null}), "the form needs `name`"),
            (json!({"name": 7}), "`name` takes string"),
            (json!({"name": "A"}), "`name` needs at least 2 characters"),
            (
                json!({"name": "Annabel"}),
                "`name` takes at most 4 characters",
            ),
            (
                json!({"name": "Ann", "count": 1.5}),
                "`count` takes integer",
            ),
            (
                json!({"name": "Ann", "count": 0}),
                "`count` must be at least 1",
            ),
            (
                json!({"name": "Ann", "count": 10}),
                "`count` must be at most 9",
            ),
            (
                json!({"name": "Ann", "sure": "yes"}),
                "`sure` takes boolean",
            ),
            (
                json!({"name": "Ann", "color": "green"}),
                "`color` takes `red`, `blue`",
            ),
            (json!({"name": "Ann", "pet": "dog"}), "`pet` takes `cat`"),
            (
                json!({"name": "Ann", "tags": ["a", "a", "a"]}),
                "`tags` takes at most 2 choices",
            ),
            (json!({"name": "Ann", "tags": ["b"]}), "`tags` takes `a`"),
        ] {
            assert_eq!(
                form_mismatch(&schema(), &content).as_deref(),
                Some(why),
                "{content}"
            );
        }
        let unknown = form_mismatch(&schema(), &json!({"name": "Ann", "nmae": "x"})).unwrap();
        assert!(
            unknown.starts_with("the form has no `nmae`, only `"),
            "{unknown}"
        );
    }
}
