//! The three ways to say the same: JSON-RPC 1.0, HTTP+JSON 1.0, JSON-RPC 0.3. Requests only; what comes back is read by
//! `event`, whichever way it came.

use super::call::AgentQuestion;
use super::error::AgentCallError;
use super::{HOPS_KEY, IDEMPOTENCY};
use bridge_core::limits::clip;
use bridge_core::secrets::Secrets;
use reqwest::{Method, Url};
use serde_json::{Map, Value, json};

/// How much of an agent's complaint is quoted.
const COMPLAINT_MAX_CHARS: usize = 500;

/// How an interface wants to be spoken to; the best one is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dialect {
    Rpc1,
    Rest1,
    Rpc03,
}

/// Where and how an agent is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interface {
    pub(super) dialect: Dialect,
    pub(super) url: Url,
    pub(super) tenant: Option<String>,
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMode {
    /// The answers come as a stream.
    Stream,
    /// One answer comes at once; the task is asked about later.
    Once,
}

/// A call about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOperation {
    Get,
    Subscribe,
    Cancel,
}

/// One HTTP call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AgentRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
}

impl Interface {
    /// What the header `A2A-Version` says.
    pub(super) fn version(&self) -> &'static str {
        match self.dialect {
            Dialect::Rpc1 | Dialect::Rest1 => "1.0",
            Dialect::Rpc03 => "0.3",
        }
    }

    /// The media type of what is sent.
    pub(super) fn media_type(&self) -> &'static str {
        match self.dialect {
            Dialect::Rpc1 | Dialect::Rpc03 => "application/json",
            Dialect::Rest1 => "application/a2a+json",
        }
    }

    pub(super) fn say(&self, question: &AgentQuestion, mode: SendMode) -> AgentRequest {
        let message = self.message(question);
        let configuration = match (self.dialect, mode) {
            (_, SendMode::Stream) => json!({}),
            (Dialect::Rpc1 | Dialect::Rest1, SendMode::Once) => json!({"returnImmediately": true}),
            (Dialect::Rpc03, SendMode::Once) => json!({"blocking": false}),
        };
        let params = json!({"message": message, "configuration": configuration});
        let (method, verb) = match (self.dialect, mode) {
            (Dialect::Rpc1, SendMode::Stream) => ("SendStreamingMessage", ""),
            (Dialect::Rpc1, SendMode::Once) => ("SendMessage", ""),
            (Dialect::Rpc03, SendMode::Stream) => ("message/stream", ""),
            (Dialect::Rpc03, SendMode::Once) => ("message/send", ""),
            (Dialect::Rest1, SendMode::Stream) => ("", "message:stream"),
            (Dialect::Rest1, SendMode::Once) => ("", "message:send"),
        };
        match self.dialect {
            Dialect::Rpc1 | Dialect::Rpc03 => self.rpc(method, params),
            Dialect::Rest1 => AgentRequest {
                method: Method::POST,
                url: self.below(&[verb]),
                body: Some(params),
            },
        }
    }

    pub(super) fn about(&self, task: &str, about: TaskOperation) -> AgentRequest {
        let rpc = |method| self.rpc(method, json!({ "id": task }));
        let rest = |method, name: &str, body| AgentRequest {
            method,
            url: self.below(&["tasks", name]),
            body,
        };
        match (self.dialect, about) {
            (Dialect::Rpc1, TaskOperation::Get) => rpc("GetTask"),
            (Dialect::Rpc1, TaskOperation::Subscribe) => rpc("SubscribeToTask"),
            (Dialect::Rpc1, TaskOperation::Cancel) => rpc("CancelTask"),
            (Dialect::Rpc03, TaskOperation::Get) => rpc("tasks/get"),
            (Dialect::Rpc03, TaskOperation::Subscribe) => rpc("tasks/resubscribe"),
            (Dialect::Rpc03, TaskOperation::Cancel) => rpc("tasks/cancel"),
            (Dialect::Rest1, TaskOperation::Get) => rest(Method::GET, task, None),
            (Dialect::Rest1, TaskOperation::Subscribe) => {
                rest(Method::POST, &format!("{task}:subscribe"), Some(json!({})))
            }
            (Dialect::Rest1, TaskOperation::Cancel) => {
                rest(Method::POST, &format!("{task}:cancel"), Some(json!({})))
            }
        }
    }

    fn rpc(&self, method: &str, mut params: Value) -> AgentRequest {
        if let (Some(tenant), Some(params)) = (&self.tenant, params.as_object_mut()) {
            params.insert("tenant".to_owned(), json!(tenant));
        }
        AgentRequest {
            method: Method::POST,
            url: self.url.clone(),
            body: Some(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})),
        }
    }

    /// A path below the interface; names from outside are encoded, so they stay one segment each.
    fn below(&self, names: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend(self.tenant.as_deref());
            path.extend(names);
        }
        url
    }

    fn message(&self, question: &AgentQuestion) -> Value {
        let mut metadata = Map::new();
        metadata.insert(HOPS_KEY.to_owned(), json!(question.hops));
        if question.keyed {
            metadata.insert(IDEMPOTENCY.to_owned(), json!(question.message_id));
        }
        let mut message = match self.dialect {
            Dialect::Rpc1 | Dialect::Rest1 => {
                json!({"role": "ROLE_USER", "parts": [{"text": question.text}]})
            }
            Dialect::Rpc03 => json!({
                "kind": "message", "role": "user",
                "parts": [{"kind": "text", "text": question.text}],
            }),
        };
        if let Some(fields) = message.as_object_mut() {
            fields.insert("messageId".to_owned(), json!(question.message_id));
            fields.insert("metadata".to_owned(), Value::Object(metadata));
            if let Some(task) = &question.task {
                fields.insert("taskId".to_owned(), json!(task));
            }
            if let Some(context) = &question.context {
                fields.insert("contextId".to_owned(), json!(context));
            }
        }
        message
    }

    /// What an answer holds, without what is wrapped around it. A complaint is quoted without our secrets.
    pub(super) fn unwrap(
        &self,
        mut answer: Value,
        secrets: &Secrets,
    ) -> Result<Value, AgentCallError> {
        match self.dialect {
            Dialect::Rest1 => Ok(answer),
            Dialect::Rpc1 | Dialect::Rpc03 => match answer.get_mut("result").map(Value::take) {
                Some(result) => Ok(result),
                None => Err(complaint(&answer, secrets)),
            },
        }
    }
}

/// Whatever is quoted here ends up in logs and with the model, and some agents quote the call that they refuse.
fn complaint(answer: &Value, secrets: &Secrets) -> AgentCallError {
    let error = answer.get("error").unwrap_or(&Value::Null);
    match error.get("message").and_then(Value::as_str) {
        Some(said) => {
            let code = error
                .get("code")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            let said = clip(&secrets.redact(said).text, COMPLAINT_MAX_CHARS);
            AgentCallError::refused(format!("{said} ({code})"))
        }
        None => AgentCallError::Unreadable("it holds neither a result nor an error".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(dialect: Dialect) -> Interface {
        Interface {
            dialect,
            url: Url::parse("https://a.example/a2a/").unwrap(),
            tenant: None,
        }
    }

    #[test]
    fn task_id_is_escaped_in_path() {
        let get = interface(Dialect::Rest1).about("../x/y?z#w", TaskOperation::Cancel);
        assert_eq!(
            get.url.as_str(),
            "https://a.example/a2a/tasks/..%2Fx%2Fy%3Fz%23w:cancel"
        );
        let get = interface(Dialect::Rest1).about("t1", TaskOperation::Get);
        assert_eq!(get.url.as_str(), "https://a.example/a2a/tasks/t1");
        assert_eq!((get.method, get.body), (Method::GET, None));
    }

    #[test]
    fn each_version_hears_its_own_words() {
        let question = AgentQuestion {
            context: Some("c1".to_owned()),
            hops: 3,
            keyed: true,
            ..AgentQuestion::new("hi", "m1")
        };
        let old = interface(Dialect::Rpc03).say(&question, SendMode::Once);
        let params = &old.body.unwrap()["params"];
        assert_eq!(params["configuration"]["blocking"], false);
        assert_eq!(params["message"]["role"], "user");
        assert_eq!(params["message"]["parts"][0]["kind"], "text");
        let new = interface(Dialect::Rest1).say(&question, SendMode::Once);
        assert_eq!(new.url.path(), "/a2a/message:send");
        let message = &new.body.unwrap()["message"];
        assert_eq!(message["role"], "ROLE_USER");
        assert_eq!(message["contextId"], "c1");
        assert_eq!(message["metadata"][HOPS_KEY], 3);
        assert_eq!(message["metadata"][IDEMPOTENCY], "m1");
    }

    #[test]
    fn an_error_is_a_clear_no() {
        let said = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no such task"}});
        let none = Secrets::default();
        let error = interface(Dialect::Rpc1).unwrap(said, &none).unwrap_err();
        assert_eq!(error, AgentCallError::refused("no such task (-32001)"));
        let odd = interface(Dialect::Rpc1).unwrap(json!({"x": 1}), &none);
        assert!(matches!(odd, Err(AgentCallError::Unreadable(_))));
    }
}
