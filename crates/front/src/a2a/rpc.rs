//! The JSON-RPC 2.0 binding of 1.0 and 0.3.

use super::call::{self, A2aCall, ProtocolVersion};
use super::error::A2aError;
use super::legacy;
use super::ops::{self, Op, OperationResult};
use crate::BridgeService;
use crate::api::{Context, Who};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// A parsed request.
struct RpcRequest {
    id: Value,
    method: String,
    params: Option<Value>,
}

/// An error with the id of its request.
type RpcFailure = (Value, Box<A2aError>);

pub(crate) async fn call<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let bytes = match call::body(&head, body).await {
        Ok(bytes) => bytes,
        Err(error) => return refuse(Value::Null, &error),
    };
    let asked = match read(&bytes) {
        Ok(asked) => asked,
        Err((id, error)) => return refuse(id, &error),
    };
    drop(bytes);
    let id = asked.id.clone();
    let call = match A2aCall::new(context, caller, &head) {
        Ok(call) => call,
        Err(error) => return refuse(id, &error),
    };
    match answer(call, asked).await {
        Ok(response) => response,
        Err(error) => refuse(id, &error),
    }
}

/// Parses a request. An unreadable one has no id.
fn read(bytes: &[u8]) -> Result<RpcRequest, RpcFailure> {
    let invalid = |id, why: &str| (id, Box::new(A2aError::invalid_request(why)));
    let body: Value = serde_json::from_slice(bytes)
        .map_err(|error| (Value::Null, Box::new(A2aError::parse(&error.to_string()))))?;
    let Value::Object(mut body) = body else {
        let why = "the body must be one JSON-RPC request; batches are not taken";
        return Err(invalid(Value::Null, why));
    };
    // A2A has no notifications: a request without an id is answered with a null id.
    let id = body.remove("id").unwrap_or_default();
    if !matches!(id, Value::String(_) | Value::Number(_) | Value::Null) {
        return Err(invalid(Value::Null, "id must be a string or a number"));
    }
    if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(id, "jsonrpc must be \"2.0\""));
    }
    let Some(Value::String(method)) = body.remove("method") else {
        return Err(invalid(id, "method must be a string"));
    };
    Ok(RpcRequest {
        id,
        method,
        params: body.remove("params"),
    })
}

async fn answer<D: BridgeService>(
    mut call: A2aCall<D>,
    asked: RpcRequest,
) -> Result<Response, A2aError> {
    if let Some(op) = legacy::LegacyMethod::named(&asked.method) {
        call.version = ProtocolVersion::V03;
        return old(&call, op, asked).await;
    }
    let op = Op::named(&asked.method).ok_or_else(|| A2aError::method_not_found(&asked.method))?;
    match call.version {
        ProtocolVersion::V1 => {}
        ProtocolVersion::V03 => {
            let method = format!(
                "{} in A2A 0.3, which is spoken where the header A2A-Version is missing",
                asked.method
            );
            return Err(A2aError::method_not_found(&method));
        }
    }
    let params = asked.params.filter(|params| !params.is_null());
    let params = params.unwrap_or_else(|| Value::Object(Map::new()));
    let id = asked.id;
    Ok(match ops::run(&call, op, params).await? {
        OperationResult::Value(value) => result(id, value),
        OperationResult::Events(events) => events.respond(move |event| envelope(&id, event)),
    })
}

/// Calls an operation of 0.3.
async fn old<D: BridgeService>(
    call: &A2aCall<D>,
    op: legacy::LegacyMethod,
    asked: RpcRequest,
) -> Result<Response, A2aError> {
    let (op, params) = legacy::params(op, asked.params).map_err(|why| wrong(why, ""))?;
    let task_id = params.get("taskId").and_then(Value::as_str);
    let task_id = task_id.unwrap_or_default().to_owned();
    let method = op.method();
    let now = Op::named(method).ok_or_else(|| A2aError::method_not_found(method))?;
    let id = asked.id;
    Ok(match ops::run(call, now, params).await? {
        OperationResult::Value(value) => result(id, in_0_3(op, value, &task_id)?),
        OperationResult::Events(events) => {
            events.respond(move |event| envelope(&id, legacy::streamed(op, event)))
        }
    })
}

fn in_0_3(op: legacy::LegacyMethod, value: Value, task_id: &str) -> Result<Value, A2aError> {
    legacy::result(op, value).map_err(|why| wrong(why, task_id))
}

/// `task_id` is that of the request.
fn wrong(wrong: legacy::Wrong, task_id: &str) -> A2aError {
    match wrong {
        legacy::Wrong::Params(why) => A2aError::invalid("params", why),
        legacy::Wrong::NoPush => A2aError::push_not_found(task_id, ""),
    }
}

fn envelope(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn result(id: Value, result: Value) -> Response {
    Json(envelope(&id, result)).into_response()
}

/// Errors have status 200, so that clients read the body.
fn refuse(id: Value, error: &A2aError) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": error.to_rpc()});
    error.with_retry_after(Json(body).into_response())
}
