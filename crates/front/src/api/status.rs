//! How the daemon is: alive, ready, and how much is where. Nothing of a message's content.

use super::{Context, ProblemResponse};
use crate::{BridgeService, Health, HealthView, StatusView};
use axum::Json;
use axum::extract::State;
use bridge_core::port::Ledger;

/// A day in milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Everybody may ask, so that it says only whether.
pub(super) async fn readyz<D: BridgeService>(
    State(context): State<Context<D>>,
) -> Result<&'static str, ProblemResponse> {
    if context.service.health().await.ready {
        Ok("ready\n")
    } else {
        Err(ProblemResponse::unavailable(
            "not ready: `codex-bridge status` says why",
        ))
    }
}

pub(super) async fn status<D: BridgeService>(
    State(context): State<Context<D>>,
) -> Result<Json<StatusView>, ProblemResponse> {
    let now = context.service.now();
    let since = now.plus_ms(-DAY_MS);
    let read = context
        .service
        .ledger()
        .read(move |rows| Ok((rows.counts()?, rows.figures(since)?)))
        .await;
    let health = context.service.health().await;
    // A damaged ledger may have no counts; that it is damaged must be told all the same.
    let (counts, figures) = match read {
        Err(_) if !health.ready => Default::default(),
        read => read?,
    };
    let health = view(health);
    let bytes = context.service.ledger_bytes();
    Ok(Json(StatusView::new(health, &counts, figures, bytes, now)))
}

fn view(health: Health) -> HealthView {
    HealthView {
        ready: health.ready,
        detail: health.detail,
        pid: health.pid,
        version: health.version,
        codex: health.codex,
        ledger: health.ledger,
        reload: health.reload,
        channels: health.channels,
    }
}
