//! The feed of a task or a message: committed rows and live Codex output in one order, resumable at a cursor.
//!
//! `/v1/messages/{id}/events` and `/v1/tasks/{id}/events` are projections of it as server-sent events. `item` events are
//! rows and carry a cursor as id; `state` says where a message is; `text` is what Codex is writing and `diff` what it
//! changed in files and `output` what its commands wrote, all lossy; `end` is the last one, with the whole message.

use super::extract::Who;
use super::messages::{self, find_seen};
use super::permits::StreamPermit;
use super::{Context, ProblemResponse};
use crate::control::{Caller, TaskSubject};
use crate::live::{MessageUpdates, polls};
use crate::{BridgeService, EventView, LiveUpdate, MessageView, TextView};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::{Read, RowsError, TextUpdate};
use bridge_core::value::{ItemEvent, Message, MessageId, StateName};
use futures_util::{Stream, stream};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Interval;

/// Interval at which the rows of a message are read without an update: changes of the message ahead of it are announced
/// to that one's subscribers only.
const MESSAGE_POLL: Duration = Duration::from_secs(5);
/// The same for a task: a new message of it notifies no subscription.
const TASK_POLL: Duration = Duration::from_secs(1);
/// Longest `Last-Event-ID` that is parsed.
const CURSOR_MAX_BYTES: usize = 2_048;

/// The ordinal of the newest published item of each message, by the message's sequence number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FeedCursor(BTreeMap<i64, u32>);

impl FeedCursor {
    fn parse(text: &str) -> Self {
        if text.len() > CURSOR_MAX_BYTES {
            return Self::default();
        }
        let one = |part: &str| {
            let (seq, ordinal) = part.split_once(':')?;
            Some((seq.parse().ok()?, ordinal.parse().ok()?))
        };
        Self(text.split(',').filter_map(one).collect())
    }

    fn text(&self) -> String {
        let one = |(seq, ordinal): (&i64, &u32)| format!("{seq}:{ordinal}");
        self.0.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

/// One event of a feed.
enum FeedEvent {
    Item {
        item: ItemEvent,
        /// The position after this item.
        cursor: FeedCursor,
    },
    Text(MessageId, Arc<TextUpdate>),
    Diff(MessageId, Arc<str>),
    Output(MessageId, Arc<str>),
    /// Another state than the one published before.
    State(Box<MessageView>),
    /// Every message is over; the newest one.
    End(Box<MessageView>),
}

/// Follows one task or message.
struct EventFeed<D> {
    service: D,
    subject: TaskSubject,
    /// Whether the end promises copies of files on this machine.
    is_here: bool,
    cursor: FeedCursor,
    /// Ordinal after which a message is read that has no entry in the cursor.
    start: u32,
    updates: MessageUpdates,
    polls: Interval,
    /// The state last published of each message.
    states: HashMap<MessageId, String>,
    queue: VecDeque<FeedEvent>,
    /// Rows must be read before the next update is awaited.
    stale: bool,
    ended: bool,
}

impl<D: BridgeService> EventFeed<D> {
    fn new(
        service: D,
        caller: &Caller,
        subject: TaskSubject,
        cursor: FeedCursor,
        start: u32,
    ) -> Self {
        let every = match &subject {
            TaskSubject::Task(_) => TASK_POLL,
            TaskSubject::Message(_) => MESSAGE_POLL,
        };
        Self {
            updates: MessageUpdates::new(service.hub()),
            service,
            subject,
            is_here: caller.is_here(),
            cursor,
            start,
            polls: polls(every),
            states: HashMap::new(),
            queue: VecDeque::new(),
            stale: true,
            ended: false,
        }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<FeedEvent> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            if std::mem::take(&mut self.stale) {
                // If rows can't be read, the client reconnects and resumes: nothing is lost by ending here.
                self.ended |= self.read_rows().await.is_err();
                continue;
            }
            tokio::select! {
                _ = self.polls.tick() => self.stale = true,
                (message_id, live) = self.updates.next() => match live {
                    LiveUpdate::Changed => self.stale = true,
                    LiveUpdate::Text(text) => return Some(FeedEvent::Text(message_id, text)),
                    LiveUpdate::Diff(diff) => return Some(FeedEvent::Diff(message_id, diff)),
                    LiveUpdate::Output(output) => {
                        return Some(FeedEvent::Output(message_id, output));
                    }
                },
            }
        }
    }

    /// Queues whatever rows have that was not published yet.
    async fn read_rows(&mut self) -> Result<(), ProblemResponse> {
        let (subject, cursor, start) = (self.subject.clone(), self.cursor.clone(), self.start);
        let read = self
            .service
            .read(move |rows| load(rows, &subject, &cursor, start));
        let (messages, items) = read.await?;
        for (seq, item) in items {
            self.cursor.0.insert(seq, item.ordinal);
            let cursor = self.cursor.clone();
            self.queue.push_back(FeedEvent::Item { item, cursor });
        }
        let newest = messages.last().map(|message| message.message_id.clone());
        // A message that is done stays as it was published. The newest one is part of the end.
        let open: Vec<MessageId> = messages
            .into_iter()
            .filter(|message| {
                newest.as_ref() == Some(&message.message_id)
                    || message.life.state.name() != StateName::Done
                    || !self.states.contains_key(&message.message_id)
            })
            .map(|message| message.message_id)
            .collect();
        // A change between the read and a new subscription notified nobody: read again.
        self.stale = self.updates.follow(&open);
        let mut over = true;
        let mut last = None;
        for message_id in open {
            let rows = messages::load(&self.service, message_id.clone()).await?;
            let files = rows.files();
            let shown = rows.view(self.service.now(), &self.service);
            over &= shown.is_over();
            let state = shown.fingerprint();
            if self.states.get(&message_id) != Some(&state) {
                self.states.insert(message_id, state);
                self.queue
                    .push_back(FeedEvent::State(Box::new(shown.clone())));
            }
            last = Some((shown, files));
        }
        if over {
            // Without a message, retention has removed it meanwhile.
            if let Some((shown, files)) = last {
                if self.is_here {
                    self.service.bring_files(files).await;
                }
                self.queue.push_back(FeedEvent::End(Box::new(shown)));
            }
            self.ended = true;
        }
        Ok(())
    }
}

type FeedRows = (Vec<Message>, Vec<(i64, ItemEvent)>);

/// Loads the messages, oldest first, and their unpublished items in the order they happened.
fn load(
    rows: &dyn Read,
    subject: &TaskSubject,
    cursor: &FeedCursor,
    start: u32,
) -> Result<FeedRows, RowsError> {
    let messages = subject.messages(rows)?;
    let mut items = Vec::new();
    for message in &messages {
        let seq = message.seq.0;
        let after = cursor.0.get(&seq).copied().unwrap_or(start);
        let new = rows.events(&message.message_id, after, EVENTS_PER_MESSAGE_MAX)?;
        items.extend(new.into_iter().map(|item| (seq, item)));
    }
    items.sort_by_key(|(seq, item)| (item.at, *seq, item.ordinal));
    Ok((messages, items))
}

/// Handles `/v1/messages/{id}/events`.
pub(super) async fn message_events<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ProblemResponse> {
    let permit = context.shared.streams.acquire(&caller)?;
    let message_id = find_seen(&context.service, &caller, id).await?;
    let start = last_event_id(&headers)
        .and_then(|id| id.parse().ok())
        .unwrap_or(0);
    let subject = TaskSubject::Message(message_id.clone());
    let mut feed = EventFeed::new(
        context.service,
        &caller,
        subject,
        FeedCursor::default(),
        start,
    );
    if !feed.updates.follow(&[message_id]) {
        return Err(ProblemResponse::unavailable(
            "too many messages are being watched; ask again later",
        ));
    }
    let project = |event| match event {
        FeedEvent::Item { item, .. } => {
            let id = item.ordinal.to_string();
            Some(sse("item", &EventView::from(&item))?.id(id))
        }
        FeedEvent::Text(_, text) => sse("text", &TextView::from(&*text)),
        FeedEvent::Diff(_, diff) => sse("diff", &text_view(&diff)),
        FeedEvent::Output(_, output) => sse("output", &text_view(&output)),
        // `end` follows with the same view.
        FeedEvent::State(shown) if shown.is_over() => None,
        FeedEvent::State(shown) => sse("state", &shown),
        FeedEvent::End(shown) => sse("end", &shown),
    };
    Ok(respond(Projection { feed, project }, permit))
}

/// Handles `/v1/tasks/{id}/events`: the same events over all messages of a task, each with its message.
pub(super) async fn task_events<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ProblemResponse> {
    let permit = context.shared.streams.acquire(&caller)?;
    let named = id.clone();
    let found = context
        .service
        .read(move |rows| TaskSubject::find(rows, &named))
        .await?;
    let subject = found.map_err(|not| not.of(&id))?;
    let cursor = last_event_id(&headers).map_or_else(FeedCursor::default, FeedCursor::parse);
    let feed = EventFeed::new(context.service, &caller, subject, cursor, 0);
    let project = |event| match event {
        FeedEvent::Item { item, cursor } => {
            let event = about("item", &item.message_id, &EventView::from(&item))?;
            Some(event.id(cursor.text()))
        }
        FeedEvent::Text(message_id, text) => about("text", &message_id, &TextView::from(&*text)),
        FeedEvent::Diff(message_id, diff) => about("diff", &message_id, &text_view(&diff)),
        FeedEvent::Output(message_id, output) => about("output", &message_id, &text_view(&output)),
        FeedEvent::State(shown) => sse("state", &shown),
        FeedEvent::End(shown) => sse("end", &shown),
    };
    Ok(respond(Projection { feed, project }, permit))
}

/// A source of server-sent events.
pub(super) trait EventSource: Send + 'static {
    /// The next event; `None` at the end.
    fn next_event(&mut self) -> impl Future<Output = Option<Event>> + Send;
}

/// A feed as one of its surfaces shows it.
struct Projection<D> {
    feed: EventFeed<D>,
    /// `None` for what the surface does not show.
    project: fn(FeedEvent) -> Option<Event>,
}

impl<D: BridgeService> EventSource for Projection<D> {
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.feed.next().await?;
            if let Some(event) = (self.project)(event) {
                return Some(event);
            }
        }
    }
}

/// Streams a source until its end, or until the permit is withdrawn.
pub(super) fn respond(
    source: impl EventSource,
    permit: StreamPermit,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold((source, permit), |(mut source, permit)| async move {
        let stop = permit.stop();
        let event = tokio::select! {
            // What is queued already goes out before the stream stops.
            biased;
            event = source.next_event() => event?,
            () = stop.cancelled() => return None,
        };
        Some((Ok(event), (source, permit)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id")?.to_str().ok()
}

pub(super) fn sse(name: &str, data: &impl Serialize) -> Option<Event> {
    let json = serde_json::to_string(data).ok()?;
    Some(Event::default().event(name).data(json))
}

fn text_view(text: &str) -> TextView {
    TextView {
        text: text.to_owned(),
    }
}

/// An event with the message it is about.
fn about(name: &str, message_id: &MessageId, data: &impl Serialize) -> Option<Event> {
    #[derive(Serialize)]
    struct About<'d, T> {
        message_id: &'d str,
        #[serde(flatten)]
        data: &'d T,
    }
    let message_id = message_id.as_str();
    sse(name, &About { message_id, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_cursor_round_trips() {
        let cursor = FeedCursor(BTreeMap::from([(1, 12), (2, 3)]));
        assert_eq!(cursor.text(), "1:12,2:3");
        assert_eq!(FeedCursor::parse("1:12,2:3"), cursor);
        assert_eq!(
            FeedCursor::parse("x,1:2,3:-1,:"),
            FeedCursor(BTreeMap::from([(1, 2)]))
        );
        assert_eq!(
            FeedCursor::parse(&"1:1,".repeat(1_000)),
            FeedCursor::default()
        );
    }
}
