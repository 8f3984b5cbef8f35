//! `/v1/events`: changes of all messages as server-sent events, resumable across restarts.
//!
//! Event ids are ledger times, which never go back. A client that resumes gets everything that rows have since its id,
//! and some events twice: a row may be committed later than another with the same time. Only the last event of each pass
//! over the rows has an id, so a pass that is cut off is repeated.

use super::extract::Who;
use super::feed::{EventSource, last_event_id, respond, sse};
use super::requests::RequestView;
use super::{Context, ProblemResponse};
use crate::Time;
use crate::live::{AllChanges, polls};
use crate::{BridgeService, EventView};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::{Read, RowsError};
use bridge_core::value::{
    Conversation, ItemEvent, Message, MessageId, Request, RequestId, RequestState, Timestamp,
};
use futures_util::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Interval;

/// Interval at which rows are read in any case: not every change is announced.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Overlap of a resumed stream with the earlier one; longer than a commit takes.
const OVERLAP_MS: i64 = 10_000;
/// Changed messages that a resumed stream replays; a client that missed more gets `reset`.
const REPLAY_MAX: u32 = 200;
/// Maximum age of an id.
const REPLAY_MS: i64 = 24 * 3_600_000;
/// Messages whose published state is remembered; finished ones are forgotten first.
const REMEMBERED_MAX: usize = 4096;

/// `ready` and `reset` on `/v1/events`: where the stream stands. After `reset` something was missed: look at the
/// lists.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MarkView {
    /// When.
    pub at: Time,
}

/// `state` on `/v1/events`: a message is somewhere else in its life.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    /// Id of the message.
    pub message_id: String,
    /// The conversation's key.
    pub conversation: String,
    /// The channel.
    pub channel: String,
    /// Where it is.
    pub state: String,
    /// Ordinal of the newest attempt.
    pub attempt: u32,
    /// When.
    pub at: Time,
}

/// `item` on `/v1/events`: something happened in a turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ItemChange {
    /// Id of the message.
    pub message_id: String,
    /// The item.
    #[serde(flatten)]
    pub event: EventView,
}

/// `request` on `/v1/events`: Codex asked, or somebody decided.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestChange {
    /// Id of the message.
    pub message_id: String,
    /// The request.
    #[serde(flatten)]
    pub request: RequestView,
}

pub(super) async fn stream<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ProblemResponse> {
    let permit = context.shared.streams.acquire(&caller)?;
    let now = context.service.now();
    let last = last_event_id(&headers).and_then(|id| id.parse().ok());
    let last = last.map(Timestamp);
    let mut changes = ChangeStream {
        updates: context.service.hub().watch_all(),
        service: context.service,
        since: now,
        published: Published::since(now),
        polls: polls(POLL_EVERY),
        ahead: VecDeque::new(),
        queue: VecDeque::new(),
        ended: false,
    };
    changes.begin(last, now).await;
    Ok(respond(changes, permit))
}

struct ChangeStream<D> {
    service: D,
    updates: AllChanges,
    /// Everything before this time was published. Only a pass over all rows moves it: an update of one message says
    /// nothing about the updates still queued behind it.
    since: Timestamp,
    published: Published,
    polls: Interval,
    /// Messages still to be read in this pass.
    ahead: VecDeque<MessageId>,
    queue: VecDeque<(Event, Option<Timestamp>)>,
    ended: bool,
}

impl<D: BridgeService> ChangeStream<D> {
    /// Queues the first event: where the stream begins.
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
                self.published = Published::since(from);
                self.mark("ready", last);
                self.ahead = changed.into();
            }
            Some(_) | None => self.mark("reset", now),
        }
    }

    fn mark(&mut self, name: &str, at: Timestamp) {
        let event = sse(name, &MarkView { at: at.into() });
        self.queue.extend(event.map(|event| (event, Some(at))));
    }

    /// Starts a pass over everything that changed since the last one; also after updates were missed (N8).
    async fn read_changed(&mut self) {
        let from = self.since.plus_ms(-OVERLAP_MS).max(self.published.from);
        let now = self.service.now();
        match self.changed(from, REPLAY_MAX + 1).await {
            Some(changed) if changed.len() <= REPLAY_MAX as usize => {
                self.since = now;
                self.ahead = changed.into();
            }
            Some(_) => {
                self.since = now;
                self.published = Published::since(now);
                self.mark("reset", now);
            }
            // The client reconnects and resumes; nothing is lost by ending here.
            None => self.ended = true,
        }
    }

    async fn changed(&self, from: Timestamp, limit: u32) -> Option<Vec<MessageId>> {
        let changed = self
            .service
            .read(move |rows| rows.changed_since(from, limit));
        changed.await.ok()
    }

    /// Queues the changes of one message.
    async fn read_message(&mut self, message_id: MessageId) {
        let after = self.published.last_item(&message_id);
        let read = self
            .service
            .read(move |rows| load(rows, &message_id, after))
            .await;
        let Ok(rows) = read else {
            self.ended = true;
            return;
        };
        let events = rows.map_or_else(Vec::new, |rows| self.published.update(rows));
        self.queue
            .extend(events.into_iter().map(|event| (event, None)));
        if self.ahead.is_empty()
            && let Some((_, at)) = self.queue.back_mut()
        {
            *at = Some(self.since);
        }
    }
}

impl<D: BridgeService> EventSource for ChangeStream<D> {
    async fn next_event(&mut self) -> Option<Event> {
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
                self.read_message(message_id).await;
                continue;
            }
            tokio::select! {
                _ = self.polls.tick() => self.read_changed().await,
                update = self.updates.next() => match update {
                    Some(message_id) => self.ahead.push_back(message_id),
                    None => {
                        // Updates still buffered here are older than the rows that are read next.
                        self.updates = self.service.hub().watch_all();
                        self.read_changed().await;
                    }
                },
            }
        }
    }
}

/// The rows of one message.
struct ChangedRows {
    message: Message,
    conversation: Option<Conversation>,
    items: Vec<ItemEvent>,
    requests: Vec<Request>,
}

fn load(
    rows: &dyn Read,
    message_id: &MessageId,
    after: u32,
) -> Result<Option<ChangedRows>, RowsError> {
    let Some(message) = rows.message(message_id)? else {
        return Ok(None);
    };
    Ok(Some(ChangedRows {
        conversation: rows.conversation(&message.conversation_id)?,
        items: rows.events(message_id, after, EVENTS_PER_MESSAGE_MAX)?,
        requests: rows.requests(message_id)?,
        message,
    }))
}

/// What a stream has published, so that it publishes each change once.
struct Published {
    /// Changes before this time are not published.
    from: Timestamp,
    messages: HashMap<MessageId, PublishedMessage>,
}

#[derive(Default)]
struct PublishedMessage {
    last_item: u32,
    state: Option<(&'static str, u32)>,
    requests: BTreeMap<RequestId, &'static str>,
    finished: bool,
}

impl Published {
    fn since(from: Timestamp) -> Self {
        Self {
            from,
            messages: HashMap::new(),
        }
    }

    fn last_item(&self, message_id: &MessageId) -> u32 {
        let published = self.messages.get(message_id);
        published.map_or(0, |published| published.last_item)
    }

    /// Returns the events for what is new about a message: items, then requests, then its state.
    fn update(&mut self, rows: ChangedRows) -> Vec<Event> {
        self.make_room();
        let ChangedRows {
            message,
            conversation,
            items,
            requests,
        } = rows;
        let from = self.from;
        let id = message.message_id.to_string();
        let published = self.messages.entry(message.message_id.clone()).or_default();
        let mut events = Vec::new();
        for item in &items {
            published.last_item = published.last_item.max(item.ordinal);
            if item.at >= from {
                let item = ItemChange {
                    message_id: id.clone(),
                    event: EventView::from(item),
                };
                events.extend(sse("item", &item));
            }
        }
        for request in &requests {
            let state = state_name(&request.state);
            let before = published.requests.insert(request.request_id.clone(), state);
            if before != Some(state) && changed_at(request) >= from {
                let request = RequestChange {
                    message_id: id.clone(),
                    request: RequestView::new(request, Some(&message)),
                };
                events.extend(sse("request", &request));
            }
        }
        let state = (message.life.state.name().as_str(), message.life.attempt);
        let before = published.state.replace(state);
        published.finished = message.life.state.name().finished();
        if before != Some(state) && message.life.updated_at >= from {
            let state = StateChange {
                message_id: id,
                conversation: conversation.map_or_else(String::new, |c| c.external_key),
                channel: message.channel.to_string(),
                state: state.0.to_owned(),
                attempt: state.1,
                at: message.life.updated_at.into(),
            };
            events.extend(sse("state", &state));
        }
        events
    }

    /// A forgotten message may be published twice, but is never missed.
    fn make_room(&mut self) {
        if self.messages.len() >= REMEMBERED_MAX {
            self.messages.retain(|_, published| !published.finished);
        }
        if self.messages.len() >= REMEMBERED_MAX {
            self.messages.clear();
        }
    }
}

fn state_name(state: &RequestState) -> &'static str {
    match state {
        RequestState::Open => "open",
        RequestState::Orphaned => "orphaned",
        RequestState::Decided(_) => "decided",
        RequestState::Granted(_) => "granted",
        RequestState::Withdrawn { .. } => "withdrawn",
    }
}

/// The newest time in the row. A withdrawn or orphaned request has none of its own, and counts as new.
fn changed_at(request: &Request) -> Timestamp {
    match &request.state {
        RequestState::Open => request.created_at,
        RequestState::Decided(verdict) | RequestState::Granted(verdict) => verdict.at,
        RequestState::Orphaned | RequestState::Withdrawn { .. } => Timestamp(i64::MAX),
    }
}
