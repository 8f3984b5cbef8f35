//! Acts as calls to the daemon's API, and its problems as refusals that a model can act on.

use super::house::House;
use super::news::ApiNews;
use crate::client::{ClientError, RETRY_MAX, RETRY_MIN, SUBMIT_PATIENCE};
use bridge_core::deadline::after;
use bridge_core::limits::PAGE_MAX;
use bridge_front::{Act, Caller, Control, ControlError, ControlErrorKind};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// Control over `api.sock`.
#[derive(Clone, Debug)]
pub(super) struct ApiControl {
    house: Arc<House>,
}

impl ApiControl {
    pub(super) fn new(house: Arc<House>) -> Self {
        Self { house }
    }
}

impl Control for ApiControl {
    type News = ApiNews;

    fn news(&self, task_id: &str) -> ApiNews {
        let path = task(task_id).ok().map(|path| format!("{path}/events"));
        ApiNews::new(Arc::clone(&self.house), path)
    }

    async fn act(&self, caller: &Caller, act: Act) -> Result<Value, ControlError> {
        let call = Call::of(act)?;
        let give_up = after(Instant::now(), SUBMIT_PATIENCE);
        let mut pause = RETRY_MIN;
        loop {
            match self.ask(caller, &call).await? {
                Ok(envelope) => return Ok(envelope),
                Err(error)
                    if !call.again_after(&error) || after(Instant::now(), pause) >= give_up =>
                {
                    return Err(refusal(&error));
                }
                Err(_not_yet) => {}
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(RETRY_MAX);
        }
    }
}

impl ApiControl {
    /// Asks whichever daemon serves now.
    async fn ask(
        &self,
        caller: &Caller,
        call: &Call,
    ) -> Result<Result<Value, ClientError>, ControlError> {
        let Call {
            method,
            path,
            body,
            key,
        } = call;
        let client = self.house.client().await?;
        tracing::debug!(path, "asking the daemon");
        let (body, key) = (body.as_ref(), key.as_deref());
        let told = client
            .call(method.clone(), path, body, key, caller.via)
            .await;
        if let Err(ClientError::Unreachable { .. }) = &told {
            self.house.forget().await;
        }
        Ok(told)
    }
}

/// One call to the API.
#[derive(Debug, PartialEq)]
struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
    /// Makes a repetition the same act. A model that does not hear whether its task began starts it once more.
    key: Option<String>,
}

impl Call {
    /// Whether it is safe, and may help, to call again.
    fn again_after(&self, error: &ClientError) -> bool {
        let safe = self.key.is_some() || self.method == Method::GET;
        safe && error.may_pass()
    }

    fn of(act: Act) -> Result<Self, ControlError> {
        Ok(match act {
            Act::Start(args) => {
                let body = serde_json::to_value(&args);
                let body = body.map_err(|error| invalid(&error.to_string()))?;
                let key = args.key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
                Self {
                    key: Some(key),
                    ..Self::post("/v1/tasks".to_owned(), body)
                }
            }
            Act::Status { task_id } => Self::get(task(&task_id)?),
            Act::List { limit: None } => Self::get("/v1/tasks".to_owned()),
            Act::List { limit: Some(limit) } => Self::get(format!("/v1/tasks?limit={limit}")),
            Act::Requests => Self::get(format!("/v1/requests?limit={PAGE_MAX}")),
            Act::Steer {
                task_id,
                instruction,
            } => Self::post(
                format!("{}/steer", task(&task_id)?),
                json!({"instruction": instruction}),
            ),
            Act::Interrupt { task_id } => Self {
                method: Method::POST,
                path: format!("{}/interrupt", task(&task_id)?),
                body: None,
                key: None,
            },
            Act::Respond {
                task_id,
                request_id,
                decision,
                answers,
            } => Self::post(
                format!("{}/respond", task(&task_id)?),
                given(json!({"request_id": request_id, "decision": decision, "answers": answers})),
            ),
            Act::NotifyCompleted { limit, dry_run } => Self::post(
                "/v1/tasks/notify-completed".to_owned(),
                given(json!({"limit": limit, "dry_run": dry_run})),
            ),
        })
    }

    fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            body: None,
            key: None,
        }
    }

    fn post(path: String, body: Value) -> Self {
        Self {
            method: Method::POST,
            path,
            body: Some(body),
            key: None,
        }
    }
}

/// Without what was not given.
fn given(mut body: Value) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.retain(|_, value| !value.is_null());
    }
    body
}

/// Ids are letters, digits and dashes; anything else could name another route.
fn task(task_id: &str) -> Result<String, ControlError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !task_id.is_empty() && task_id.chars().all(fits) {
        Ok(format!("/v1/tasks/{task_id}"))
    } else {
        Err(ControlError::new(
            ControlErrorKind::Unknown,
            format!("Unknown Codex bridge task: {task_id}"),
        ))
    }
}

fn invalid(message: &str) -> ControlError {
    ControlError::new(ControlErrorKind::Invalid, message)
}

fn refusal(error: &ClientError) -> ControlError {
    match error {
        ClientError::Refused(problem) => {
            ControlError::new(fault(problem.status), problem.detail.clone())
        }
        ClientError::NotNow(problem) => {
            ControlError::new(ControlErrorKind::Unavailable, problem.detail.clone())
        }
        ClientError::Unreachable { why, .. } => ControlError::new(
            ControlErrorKind::Unavailable,
            format!(
                "The codex-bridge daemon went away during this call ({why}). What the call asked for may or may \
                 not have been done: look with action=list or codex_list. Tasks are kept and go on when a daemon \
                 is back; the next call finds it, or runs one."
            ),
        ),
        ClientError::State(_)
        | ClientError::NotAnId(_)
        | ClientError::NotAName(_)
        | ClientError::NoPeer(_)
        | ClientError::Unreadable(_) => {
            ControlError::new(ControlErrorKind::Unavailable, error.to_string())
        }
    }
}

fn fault(status: u16) -> ControlErrorKind {
    match status {
        401 | 403 => ControlErrorKind::Forbidden,
        404 => ControlErrorKind::Unknown,
        409 => ControlErrorKind::Refused,
        500.. => ControlErrorKind::Unavailable,
        _ => ControlErrorKind::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_path_characters_are_unknown() {
        for id in ["", "a/b", "../tokens", "codex-1?x", "codex 1", "%2e"] {
            let refused = Call::of(Act::Status {
                task_id: id.to_owned(),
            });
            let refused = refused.unwrap_err();
            assert_eq!(refused.message, format!("Unknown Codex bridge task: {id}"));
        }
    }

    #[test]
    fn retries_only_starts_and_reads() {
        let gone = ClientError::Unreachable {
            socket: "api.sock".to_owned(),
            why: "reset".to_owned(),
        };
        let start = || {
            let args = bridge_front::StartArgs {
                prompt: "x".to_owned(),
                ..bridge_front::StartArgs::default()
            };
            Call::of(Act::Start(args)).unwrap()
        };
        assert!(start().again_after(&gone));
        assert_ne!(start().key, start().key, "another start is another task");
        let no = ClientError::NotAnId(String::new());
        assert!(!start().again_after(&no));
        let steer = Call::of(Act::Steer {
            task_id: "codex-1".to_owned(),
            instruction: "left".to_owned(),
        });
        assert!(!steer.unwrap().again_after(&gone));
        assert!(Call::of(Act::Requests).unwrap().again_after(&gone));
    }

    #[test]
    fn only_what_was_given_is_sent() {
        let call = Call::of(Act::Respond {
            task_id: "codex-1".to_owned(),
            request_id: "r1".to_owned(),
            decision: None,
            answers: None,
        });
        let call = call.unwrap();
        assert_eq!(call.path, "/v1/tasks/codex-1/respond");
        assert_eq!(call.body, Some(json!({"request_id": "r1"})));
    }
}
