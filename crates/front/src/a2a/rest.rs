//! The HTTP+JSON binding: maps paths and methods to operations, and errors to statuses (AIP-193).

use super::call::{self, A2aCall, ProtocolVersion};
use super::card;
use super::error::A2aError;
use super::ops::{self, Op, OperationResult};
use crate::api::{Context, ProblemResponse, Who};
use crate::{BridgeService, Caller};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::DateTime;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

type Answering = BoxFuture<'static, Response>;

/// The handler of an operation that its route names. Its path may have the id of a task, and of a push configuration.
pub(crate) fn operation<D: BridgeService>(
    op: Op,
) -> impl Fn(State<Context<D>>, Who, Path<Vec<String>>, Request) -> Answering + Clone + Send + Sync
{
    move |State(context), Who(caller), Path(ids), request| {
        Box::pin(async move {
            let ids = ids.iter().map(String::as_str);
            let named: Vec<_> = ["taskId", "id"].into_iter().zip(ids).collect();
            answer(context, caller, request, op, &named).await
        })
    }
}

/// `GET /tasks/{id}`; the proto subscribes by GET as well.
pub(crate) async fn get_task<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (id, op) = match id.rsplit_once(':') {
        Some((id, "subscribe")) => (id, Op::Subscribe),
        Some(_) | None => (id.as_str(), Op::Get),
    };
    answer(context, caller, request, op, &[("id", id)]).await
}

/// `POST /tasks/{id}:cancel` and `POST /tasks/{id}:subscribe`.
pub(crate) async fn post_task<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (id, op) = match id.rsplit_once(':') {
        Some((id, "cancel")) => (id, Op::Cancel),
        Some((id, "subscribe")) => (id, Op::Subscribe),
        Some(_) | None => {
            let media = call::media(request.headers());
            return refuse(media, &A2aError::method_not_found("POST of a task"));
        }
    };
    answer(context, caller, request, op, &[("id", id)]).await
}

/// A file of an answer, with headers that keep browsers from rendering it.
pub(crate) async fn file<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path((id, message, n)): Path<(String, String, usize)>,
    headers: HeaderMap,
) -> Response {
    let media = call::media(&headers);
    if !context.service.a2a().enabled {
        return refuse(media, &off());
    }
    let found = ops::file(&context.service, &caller, (&id, &message, n)).await;
    let (file, bytes) = match found {
        Ok(found) => found,
        Err(error) => return refuse(media, &error),
    };
    let kind = HeaderValue::from_str(&file.media_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, bytes).into_response()
}

/// The public card.
pub(crate) async fn public_card<D: BridgeService>(
    State(context): State<Context<D>>,
    request: Request,
) -> Response {
    let profile = context.service.a2a();
    if !profile.enabled {
        return ProblemResponse::not_found("there is no such route").into_response();
    }
    let base = call::base(&profile, request.headers(), request.uri());
    let version = call::version(request.headers(), request.uri()).unwrap_or(ProtocolVersion::V03);
    let content = card::public(&profile, &base, version).to_string();
    let etag = card::etag(&content);
    let which = format!("{base} {}", version.as_str());
    let since = context.ages.since(&which, &etag, context.service.now());
    let asked = request.headers().get_all(header::IF_NONE_MATCH).iter();
    let known = asked
        .filter_map(|tags| tags.to_str().ok())
        .any(|tags| tags.trim() == "*" || tags.contains(etag.as_str()));
    let modified = DateTime::from_timestamp_millis(since.0).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::VARY, "A2A-Version".to_owned()),
        (
            header::CACHE_CONTROL,
            format!("public, max-age={}", card::MAX_AGE_SECONDS),
        ),
        (header::ETAG, etag),
        (
            header::LAST_MODIFIED,
            modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        ),
    ];
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else {
        (headers, content).into_response()
    }
}

async fn answer<D: BridgeService>(
    context: Context<D>,
    caller: Caller,
    request: Request,
    op: Op,
    named: &[(&str, &str)],
) -> Response {
    let (head, body) = request.into_parts();
    let media = call::media(&head.headers);
    match run(context, caller, head, body, op, named).await {
        Ok(OperationResult::Value(value)) => json(media, StatusCode::OK, &value),
        Ok(OperationResult::Events(events)) => events.respond(|event| event),
        Err(error) => refuse(media, &error),
    }
}

async fn run<D: BridgeService>(
    context: Context<D>,
    caller: Caller,
    head: Parts,
    body: Body,
    op: Op,
    named: &[(&str, &str)],
) -> Result<OperationResult, A2aError> {
    let bytes = call::body(&head, body).await?;
    let call = A2aCall::new(context, caller, &head)?;
    match call.version {
        ProtocolVersion::V1 => {}
        ProtocolVersion::V03 => {
            let why = "0.3, which is meant where the header A2A-Version is missing, over HTTP+JSON";
            return Err(A2aError::version(why));
        }
    }
    let mut params = if bytes.is_empty() {
        query(&head)
    } else {
        object(&bytes)?
    };
    drop(bytes);
    for (name, value) in named {
        name_it(&mut params, name, value)?;
    }
    ops::run(&call, op, Value::Object(params)).await
}

/// Query parameters without the version.
fn query(head: &Parts) -> Map<String, Value> {
    let pairs = call::query(&head.uri).into_iter();
    pairs
        .filter(|(name, _)| !name.to_ascii_lowercase().starts_with("a2a-"))
        .map(|(name, value)| (name, Value::String(value)))
        .collect()
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, A2aError> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(params)) => Ok(params),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(A2aError::invalid_request("the body must be a JSON object")),
        Err(error) => Err(A2aError::parse(&error.to_string())),
    }
}

/// Checks that a body names the same id as the path.
fn name_it(params: &mut Map<String, Value>, name: &str, value: &str) -> Result<(), A2aError> {
    let other = params
        .insert(name.to_owned(), Value::from(value))
        .filter(|other| !other.is_null() && other != "" && other != value);
    match other {
        None => Ok(()),
        Some(_) => Err(A2aError::invalid(
            name,
            "is another one than the path names",
        )),
    }
}

fn json(media: &'static str, status: StatusCode, value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(media))];
    (status, kind, value.to_string()).into_response()
}

fn refuse(media: &'static str, error: &A2aError) -> Response {
    error.with_retry_after(json(media, error.kind().status(), &error.to_rest()))
}

pub(super) fn off() -> A2aError {
    A2aError::unsupported(
        "this agent does not speak A2A now: `a2a.enabled` is false in its configuration",
    )
}
