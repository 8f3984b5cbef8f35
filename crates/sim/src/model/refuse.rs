//! HTTP errors in place of an answer, shaped as the OpenAI API shapes them, because Codex
//! reads their bodies and headers to tell one failure from another. Pure.
//! When to refuse is the script's business and `server`'s.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::step::Refusal;

/// What a 429 asks for, in seconds.
const RETRY_AFTER: u64 = 1;

/// The window of the scripted usage limit, in minutes.
const LIMIT_WINDOW_MINUTES: u64 = 300;

/// The answer of a scripted refusal, at `now` in seconds of the Unix epoch.
pub(super) fn scripted(refusal: &Refusal, now: u64) -> Response {
    match refusal {
        Refusal::Status { code, .. } => status(*code),
        Refusal::UsageLimit { resets_in, .. } => usage_limit(*resets_in, now),
    }
}

/// A refusal that no script asked for.
pub(super) fn plain(code: StatusCode, message: &str) -> Response {
    error(
        code,
        json!({"message": message, "type": "invalid_request_error", "code": null, "param": null}),
    )
}

fn status(code: u16) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (kind, name) = match code {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        500.. => ("server_error", None),
        _ => ("invalid_request_error", None),
    };
    let body =
        json!({"message": format!("mock error {code}"), "type": kind, "code": name, "param": null});
    let mut response = error(status, body);
    if code == 429 {
        set(&mut response, header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

/// The answer to a request for which the account has no room before `resets_at`.
pub(super) fn usage_limit_until(resets_at: u64, now: u64) -> Response {
    usage_limit(resets_at.saturating_sub(now), now)
}

/// What makes Codex say `usageLimitExceeded`. It takes the time of the reset from the body
/// into the text of its error, and from the headers into `account/rateLimits/updated`.
fn usage_limit(resets_in: u64, now: u64) -> Response {
    let resets_at = now.saturating_add(resets_in);
    let mut response = error(
        StatusCode::TOO_MANY_REQUESTS,
        json!({
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_at": resets_at,
            "resets_in_seconds": resets_in,
        }),
    );
    let named = HeaderName::from_static;
    set(&mut response, named("x-codex-primary-used-percent"), 100);
    set(
        &mut response,
        named("x-codex-primary-window-minutes"),
        LIMIT_WINDOW_MINUTES,
    );
    set(&mut response, named("x-codex-primary-reset-at"), resets_at);
    response
}

fn error(code: StatusCode, error: Value) -> Response {
    (code, Json(json!({ "error": error }))).into_response()
}

fn set(response: &mut Response, name: HeaderName, value: u64) {
    response
        .headers_mut()
        .insert(name, HeaderValue::from(value));
}
