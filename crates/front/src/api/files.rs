//! Files of messages and of their answers, for those who can't open the daemon's copies by their paths.

use super::extract::Who;
use super::messages::{find_seen, load};
use super::{Context, ProblemResponse};
use crate::{BridgeService, Caller};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bridge_core::value::Attachment;

pub(super) async fn of_message<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path((id, n)): Path<(String, usize)>,
) -> Result<Response, ProblemResponse> {
    let file = find(&service, &caller, id, Part::Message, n).await?;
    send(&service, &file).await
}

pub(super) async fn of_answer<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path((id, n)): Path<(String, usize)>,
) -> Result<Response, ProblemResponse> {
    let file = find(&service, &caller, id, Part::Answer, n).await?;
    send(&service, &file).await
}

enum Part {
    Message,
    Answer,
}

async fn find<D: BridgeService>(
    service: &D,
    caller: &Caller,
    id: String,
    part: Part,
    n: usize,
) -> Result<Attachment, ProblemResponse> {
    let message_id = find_seen(service, caller, id).await?;
    let rows = load(service, message_id).await?;
    let file = match part {
        Part::Message => rows.own_files().nth(n).cloned(),
        Part::Answer => rows.answer_files().nth(n).cloned(),
    };
    file.ok_or_else(|| ProblemResponse::not_found(format!("it has no file {n}; they count from 0")))
}

/// As it is, to be saved: no browser shows it as a page.
async fn send<D: BridgeService>(
    service: &D,
    file: &Attachment,
) -> Result<Response, ProblemResponse> {
    let bytes = service.read_file(file).await.map_err(|why| {
        tracing::warn!(digest = %file.digest, why, "a file of a message can't be read");
        ProblemResponse::not_found(
            "the daemon has no copy of this file any more; it is kept as long as a row names it, so look into the log",
        )
    })?;
    let media = HeaderValue::from_str(&file.media_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let text = HeaderValue::from_static;
    let headers = [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_DISPOSITION, text("attachment")),
        (header::X_CONTENT_TYPE_OPTIONS, text("nosniff")),
        (header::CONTENT_SECURITY_POLICY, text("sandbox")),
        (header::CACHE_CONTROL, text("no-store")),
    ];
    Ok((headers, bytes).into_response())
}
