//! The news of one message as server-sent events, resumable by `Last-Event-ID`.
//!
//! `item` events are rows and carry their ordinal as id; `state` says where the message is; `text` is what
//! Codex is writing and `diff` what it changed in files, both lossy; `end` is the last one, with the whole message.

use super::messages::{find, view};
use super::read::Who;
use super::streams::StreamPermit;
use super::{Context, ProblemResponse};
use crate::{BridgeService, EventView, Live, MessageView, Subscription, TextView};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::Ledger;
use bridge_core::value::MessageId;
use futures_util::Stream;
use futures_util::stream;
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the rows are looked at without news: what happens to the message ahead is announced to its own
/// watchers only.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) async fn stream<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ProblemResponse> {
    let permit = context.shared.streams.acquire(&caller)?;
    let message_id = find(&context.service, id).await?;
    let after = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok())
        .unwrap_or(0);
    let news = context.service.hub().watch(&message_id).ok_or_else(|| {
        ProblemResponse::unavailable("too many messages are being watched; ask again later")
    })?;
    let watch = Watch {
        service: context.service,
        stop: permit.stop(),
        message_id,
        news,
        after,
        last_state: String::new(),
        queue: VecDeque::new(),
        first: true,
        ended: false,
        _permit: permit,
    };
    let events = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((Ok(event), watch))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

struct Watch<D> {
    service: D,
    stop: CancellationToken,
    message_id: MessageId,
    news: Subscription,
    after: u32,
    last_state: String,
    queue: VecDeque<Event>,
    first: bool,
    ended: bool,
    _permit: StreamPermit,
}

impl<D: BridgeService> Watch<D> {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            if std::mem::take(&mut self.first) {
                self.look().await;
                continue;
            }
            let stop = self.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(LOOK_EVERY) => self.look().await,
                live = self.news.next() => match live {
                    Live::Changed => self.look().await,
                    Live::Text(said) => self.push("text", None, &TextView::from(&*said)),
                    Live::Diff(text) => {
                        self.push("diff", None, &TextView { text: text.to_string() });
                    }
                },
            }
        }
    }

    /// Queues whatever the rows have that was not told yet.
    async fn look(&mut self) {
        let (message_id, after) = (self.message_id.clone(), self.after);
        let events = self
            .service
            .ledger()
            .read(move |rows| rows.events(&message_id, after, EVENTS_PER_MESSAGE_MAX))
            .await;
        let shown = view(&self.service, self.message_id.clone()).await;
        let (Ok(events), Ok(shown)) = (events, shown) else {
            // The client asks again and resumes; nothing is lost by ending here.
            self.ended = true;
            return;
        };
        for event in &events {
            self.after = event.ordinal;
            self.push("item", Some(event.ordinal), &EventView::from(event));
        }
        self.tell_state(&shown);
    }

    fn tell_state(&mut self, shown: &MessageView) {
        let now = shown.standing();
        if shown.is_over() {
            self.push("end", None, shown);
            self.ended = true;
        } else if now != self.last_state {
            self.push("state", None, shown);
            self.last_state = now;
        }
    }

    fn push(&mut self, name: &str, id: Option<u32>, data: &impl Serialize) {
        let Ok(json) = serde_json::to_string(data) else {
            return;
        };
        let event = Event::default().event(name).data(json);
        self.queue.push_back(match id {
            Some(id) => event.id(id.to_string()),
            None => event,
        });
    }
}
