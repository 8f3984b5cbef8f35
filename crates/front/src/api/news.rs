//! Everything that changes as server-sent events, resumable across restarts.
//!
//! Ids are the ledger's time, which never goes back: rows are the truth, so whoever comes back with an id is told
//! all that rows have since then, and a little of what was told already, because a row may be committed later than
//! another of the same time. Only the last event of what one look found has an id: a look that is cut is repeated.

mod told;

use super::read::Who;
use super::streams::StreamPermit;
use super::{Context, ProblemResponse};
use crate::hub::AllChanges;
use crate::{BridgeService, MarkView};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use bridge_core::deadline::after;
use bridge_core::port::Ledger;
use bridge_core::value::{MessageId, Timestamp};
use futures_util::{Stream, stream};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use told::Told;

/// How often the rows are looked at, whatever the news: not every change is announced.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How much of what was told before is told again after an id: longer than a commit takes.
const OVERLAP_MS: i64 = 10_000;
/// Messages whose changes are told to somebody who comes back; who missed more must look at the lists.
const REPLAY_MAX: u32 = 200;
/// How long ago an id may be.
const REPLAY_MS: i64 = 24 * 3_600_000;

pub(super) async fn stream<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ProblemResponse> {
    let permit = context.shared.streams.acquire(&caller)?;
    let now = context.service.now();
    let last = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok())
        .map(Timestamp);
    let mut feed = Feed {
        news: context.service.hub().watch_all(),
        service: context.service,
        stop: permit.stop(),
        since: now,
        told: Told::since(now),
        looks: looks(),
        ahead: VecDeque::new(),
        queue: VecDeque::new(),
        ended: false,
        _permit: permit,
    };
    feed.begin(last, now).await;
    let events = stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((Ok(event), feed))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// One look after another, however much news comes between them.
fn looks() -> Interval {
    let mut looks = interval_at(after(Instant::now(), LOOK_EVERY), LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

struct Feed<D> {
    service: D,
    stop: CancellationToken,
    news: AllChanges,
    /// Everything before it was told. Only a look at all rows moves it: one piece of news says nothing of the others
    /// that wait behind it.
    since: Timestamp,
    told: Told,
    looks: Interval,
    /// Messages to look at, and the time from which the whole look is.
    ahead: VecDeque<MessageId>,
    queue: VecDeque<(Event, Option<Timestamp>)>,
    ended: bool,
    _permit: StreamPermit,
}

impl<D: BridgeService> Feed<D> {
    /// Says where the stream begins: at an id that was given, or now.
    async fn begin(&mut self, last: Option<Timestamp>, now: Timestamp) {
        let Some(last) = last else {
            return self.mark("ready", now);
        };
        let from = last.plus_ms(-OVERLAP_MS);
        if last > now || now.since_ms(last) > REPLAY_MS {
            return self.mark("reset", now);
        }
        match self.changed(from, REPLAY_MAX + 1).await {
            Some(changed) if changed.len() <= REPLAY_MAX as usize => {
                self.told = Told::since(from);
                self.mark("ready", last);
                self.ahead = changed.into();
            }
            Some(_) | None => self.mark("reset", now),
        }
    }

    fn mark(&mut self, name: &str, at: Timestamp) {
        let data = serde_json::to_string(&MarkView { at: at.0 });
        let event = Event::default().event(name).data(data.unwrap_or_default());
        self.queue.push_back((event, Some(at)));
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, at)) = self.queue.pop_front() {
                return Some(match at {
                    Some(at) => event.id(at.0.to_string()),
                    None => event,
                });
            }
            if self.ended {
                return None;
            }
            if let Some(message_id) = self.ahead.pop_front() {
                self.look(message_id).await;
                continue;
            }
            let stop = self.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                _ = self.looks.tick() => self.look_around().await,
                news = self.news.next() => match news {
                    Some(message_id) => self.ahead.push_back(message_id),
                    None => {
                        // What is still on its way here is older than what the rows say now.
                        self.news = self.service.hub().watch_all();
                        self.look_around().await;
                    }
                },
            }
        }
    }

    /// Everything that changed since the last look; also for whoever fell behind the news (N8).
    async fn look_around(&mut self) {
        let from = self.since.plus_ms(-OVERLAP_MS).max(self.told.from());
        let now = self.service.now();
        match self.changed(from, REPLAY_MAX + 1).await {
            Some(changed) if changed.len() <= REPLAY_MAX as usize => {
                self.since = now;
                self.ahead = changed.into();
            }
            Some(_) => {
                self.since = now;
                self.told = Told::since(now);
                self.mark("reset", now);
            }
            // The client asks again and resumes; nothing is lost by ending here.
            None => self.ended = true,
        }
    }

    async fn changed(&self, from: Timestamp, limit: u32) -> Option<Vec<MessageId>> {
        let ledger = self.service.ledger();
        let changed = ledger.read(move |rows| rows.changed_since(from, limit));
        changed.await.ok()
    }

    /// Queues what is new about one message.
    async fn look(&mut self, message_id: MessageId) {
        let after = self.told.last_event(&message_id);
        let read = self
            .service
            .ledger()
            .read(move |rows| told::load(rows, &message_id, after))
            .await;
        let Ok(found) = read else {
            self.ended = true;
            return;
        };
        let events = found.map_or_else(Vec::new, |found| self.told.tell(found));
        self.queue
            .extend(events.into_iter().map(|event| (event, None)));
        if self.ahead.is_empty()
            && let Some((_, at)) = self.queue.back_mut()
        {
            *at = Some(self.since);
        }
    }
}
