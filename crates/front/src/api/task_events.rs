//! The news of a task as server-sent events, over all of its messages, resumable by `Last-Event-ID`.
//!
//! The same names as for one message: `item` events are rows, `state` says where a message is, `text` is what Codex is
//! writing, `diff` what it changed in files, `end` is the last one. An id says how far each message was told, so that none is told twice.

use super::messages::view;
use super::read::Who;
use super::streams::StreamPermit;
use super::{Context, ProblemResponse};
use crate::control::Subject;
use crate::hub::next_of;
use crate::{BridgeService, EventView, Live, MessageView, Subscription, TextView};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::value::{ConversationId, ItemEvent, Message, MessageId, StateName};
use futures_util::{Stream, stream};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the rows are looked at without news: a new message of the task announces itself to nobody here.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Messages of a task that are told of, the newest ones.
const MESSAGES_TOLD: u32 = 50;
/// Longest id that is read.
const CURSOR_MAX_BYTES: usize = 2_048;

pub(super) async fn stream<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ProblemResponse> {
    let permit = context.shared.streams.acquire(&caller)?;
    let named = id.clone();
    let found = context.service.ledger().read(move |rows| {
        let subject = Subject::find(rows, &named)?;
        Ok(match subject {
            Ok(Subject::Task(task)) => Ok(Told::Conversation(task.conversation_id)),
            Ok(Subject::Message(message_id)) => Ok(Told::Message(message_id)),
            Err(not) => Err(not),
        })
    });
    let told = found.await?.map_err(|not| not.of(&id))?;
    let cursor = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok())
        .map_or_else(BTreeMap::new, read_cursor);
    let watch = Watch {
        service: context.service,
        stop: permit.stop(),
        told,
        cursor,
        news: HashMap::new(),
        states: HashMap::new(),
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

/// What is told of.
#[derive(Clone, Debug)]
enum Told {
    /// Everything of a task.
    Conversation(ConversationId),
    /// One message of another channel.
    Message(MessageId),
}

/// How far each message was told, by its place.
type Cursor = BTreeMap<i64, u32>;

fn read_cursor(text: &str) -> Cursor {
    if text.len() > CURSOR_MAX_BYTES {
        return Cursor::new();
    }
    let one = |part: &str| {
        let (seq, ordinal) = part.split_once(':')?;
        Some((seq.parse().ok()?, ordinal.parse().ok()?))
    };
    text.split(',').filter_map(one).collect()
}

fn write_cursor(cursor: &Cursor) -> String {
    let one = |(seq, ordinal): (&i64, &u32)| format!("{seq}:{ordinal}");
    cursor.iter().map(one).collect::<Vec<_>>().join(",")
}

struct Watch<D> {
    service: D,
    stop: CancellationToken,
    told: Told,
    cursor: Cursor,
    news: HashMap<MessageId, Subscription>,
    states: HashMap<MessageId, String>,
    queue: VecDeque<Event>,
    first: bool,
    ended: bool,
    _permit: StreamPermit,
}

/// The data of an event with the message it is about.
#[derive(Serialize)]
struct About<'d, T> {
    message_id: &'d str,
    #[serde(flatten)]
    data: &'d T,
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
            let news = next_of(&mut self.news);
            let heard = tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(LOOK_EVERY) => None,
                heard = news => Some(heard),
            };
            match heard {
                Some((message_id, Live::Text(said))) => {
                    self.push("text", None, &message_id, &TextView::from(&*said));
                }
                Some((message_id, Live::Diff(text))) => {
                    let text = text.to_string();
                    self.push("diff", None, &message_id, &TextView { text });
                }
                Some((_, Live::Changed)) | None => self.look().await,
            }
        }
    }

    /// Queues whatever the rows have that was not told yet.
    async fn look(&mut self) {
        let (told, cursor) = (self.told.clone(), self.cursor.clone());
        let read = self
            .service
            .ledger()
            .read(move |rows| rows_of(rows, &told, &cursor));
        let Ok((messages, events)) = read.await else {
            // The client asks again and resumes; nothing is lost by ending here.
            self.ended = true;
            return;
        };
        for (seq, event) in &events {
            self.cursor.insert(*seq, event.ordinal);
            let id = write_cursor(&self.cursor);
            let data = EventView::from(event);
            self.push("item", Some(id), &event.message_id, &data);
        }
        let mut over = true;
        let mut last = None;
        let newest = messages.last().map(|message| message.message_id.clone());
        for message in messages {
            let message_id = message.message_id;
            // What is done stays as it was told. The newest one is what the end tells.
            let done = message.life.state.name() == StateName::Done;
            if done && self.states.contains_key(&message_id) && newest.as_ref() != Some(&message_id)
            {
                self.news.remove(&message_id);
                continue;
            }
            if let (false, Some(news)) = (
                self.news.contains_key(&message_id),
                self.service.hub().watch(&message_id),
            ) {
                self.news.insert(message_id.clone(), news);
            }
            let Ok(shown) = view(&self.service, message_id).await else {
                self.ended = true;
                return;
            };
            over &= shown.is_over();
            self.tell_state(&shown);
            last = Some(shown);
        }
        if over && let Some(last) = last {
            self.push_bare("end", &last);
            self.ended = true;
        }
    }

    fn tell_state(&mut self, shown: &MessageView) {
        let now = shown.standing();
        let message_id = MessageId::new(shown.message_id.as_str());
        if self.states.get(&message_id) != Some(&now) {
            self.push_bare("state", shown);
            self.states.insert(message_id, now);
        }
    }

    fn push(
        &mut self,
        name: &str,
        id: Option<String>,
        message_id: &MessageId,
        data: &impl Serialize,
    ) {
        let message_id = message_id.as_str();
        let Ok(json) = serde_json::to_string(&About { message_id, data }) else {
            return;
        };
        let event = Event::default().event(name).data(json);
        self.queue.push_back(match id {
            Some(id) => event.id(id),
            None => event,
        });
    }

    /// What names its message itself.
    fn push_bare(&mut self, name: &str, data: &impl Serialize) {
        if let Ok(json) = serde_json::to_string(data) {
            self.queue
                .push_back(Event::default().event(name).data(json));
        }
    }
}

type Rows = (Vec<Message>, Vec<(i64, ItemEvent)>);

/// The messages, oldest first, and what of their events was not told, in the order it happened.
fn rows_of(rows: &dyn Read, told: &Told, cursor: &Cursor) -> Result<Rows, RowsError> {
    let mut messages = match told {
        Told::Conversation(id) => rows.messages_of(id, MESSAGES_TOLD)?,
        Told::Message(message_id) => rows.message(message_id)?.into_iter().collect(),
    };
    messages.reverse();
    let mut events = Vec::new();
    for message in &messages {
        let seq = message.seq.0;
        let after = cursor.get(&seq).copied().unwrap_or(0);
        let new = rows.events(&message.message_id, after, EVENTS_PER_MESSAGE_MAX)?;
        events.extend(new.into_iter().map(|event| (seq, event)));
    }
    events.sort_by_key(|(seq, event)| (event.at, *seq, event.ordinal));
    Ok((messages, events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_cursor_round_trips() {
        let cursor = Cursor::from([(1, 12), (2, 3)]);
        assert_eq!(write_cursor(&cursor), "1:12,2:3");
        assert_eq!(read_cursor("1:12,2:3"), cursor);
        assert_eq!(read_cursor("x,1:2,3:-1,:"), Cursor::from([(1, 2)]));
        assert!(read_cursor(&"1:1,".repeat(1_000)).is_empty());
    }
}
