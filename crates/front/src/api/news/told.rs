//! What a stream of everything has told already, so that it tells each thing once.

use crate::{EventView, ItemNews, RequestNews, RequestView, StateNews};
use axum::response::sse::Event;
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::{Read, RowsError};
use bridge_core::value::{
    Conversation, ItemEvent, Message, MessageId, Request, RequestId, RequestState, Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Messages that are remembered; finished ones are forgotten first.
const TOLD_MAX: usize = 4096;

/// What was told.
pub(super) struct Told {
    /// Nothing from before is told.
    from: Timestamp,
    messages: HashMap<MessageId, Memory>,
}

#[derive(Default)]
struct Memory {
    last_event: u32,
    state: Option<(&'static str, u32)>,
    requests: BTreeMap<RequestId, &'static str>,
    finished: bool,
}

/// The rows of one message that are news.
pub(super) struct Found {
    message: Message,
    conversation: Option<Conversation>,
    events: Vec<ItemEvent>,
    requests: Vec<Request>,
}

pub(super) fn load(
    rows: &dyn Read,
    message_id: &MessageId,
    after: u32,
) -> Result<Option<Found>, RowsError> {
    let Some(message) = rows.message(message_id)? else {
        return Ok(None);
    };
    Ok(Some(Found {
        conversation: rows.conversation(&message.conversation_id)?,
        events: rows.events(message_id, after, EVENTS_PER_MESSAGE_MAX)?,
        requests: rows.requests(message_id)?,
        message,
    }))
}

impl Told {
    pub(super) fn since(from: Timestamp) -> Self {
        Self {
            from,
            messages: HashMap::new(),
        }
    }

    /// What is older is not told.
    pub(super) fn from(&self) -> Timestamp {
        self.from
    }

    pub(super) fn last_event(&self, message_id: &MessageId) -> u32 {
        let memory = self.messages.get(message_id);
        memory.map_or(0, |memory| memory.last_event)
    }

    /// What is new about a message, in the order it happened as far as rows tell.
    pub(super) fn tell(&mut self, found: Found) -> Vec<Event> {
        self.make_room();
        let Found {
            message,
            conversation,
            events,
            requests,
        } = found;
        let from = self.from;
        let id = message.message_id.to_string();
        let memory = self.messages.entry(message.message_id.clone()).or_default();
        let mut news = Vec::new();
        for event in &events {
            memory.last_event = memory.last_event.max(event.ordinal);
            if event.at >= from {
                let item = ItemNews {
                    message_id: id.clone(),
                    event: EventView::from(event),
                };
                news.extend(event_of("item", &item));
            }
        }
        for request in &requests {
            let word = state_word(&request.state);
            let before = memory.requests.insert(request.request_id.clone(), word);
            if before != Some(word) && changed_at(request) >= from {
                let asked = RequestNews {
                    message_id: id.clone(),
                    request: RequestView::new(request, Some(&message)),
                };
                news.extend(event_of("request", &asked));
            }
        }
        let state = (message.life.state.name().as_str(), message.life.attempt);
        let before = memory.state.replace(state);
        memory.finished = message.life.state.name().finished();
        if before != Some(state) && message.life.updated_at >= from {
            let state = StateNews {
                message_id: id,
                conversation: conversation.map_or_else(String::new, |c| c.external_key),
                channel: message.channel.to_string(),
                state: state.0.to_owned(),
                attempt: state.1,
                at: message.life.updated_at.0,
            };
            news.extend(event_of("state", &state));
        }
        news
    }

    /// What is forgotten may be told once more; it is never not told.
    fn make_room(&mut self) {
        if self.messages.len() >= TOLD_MAX {
            self.messages.retain(|_, memory| !memory.finished);
        }
        if self.messages.len() >= TOLD_MAX {
            self.messages.clear();
        }
    }
}

fn state_word(state: &RequestState) -> &'static str {
    match state {
        RequestState::Open => "open",
        RequestState::Orphaned => "orphaned",
        RequestState::Decided(_) => "decided",
        RequestState::Granted(_) => "granted",
        RequestState::Withdrawn { .. } => "withdrawn",
    }
}

/// The newest time that the row knows. One that was withdrawn or orphaned carries none of its own, and counts as new.
fn changed_at(request: &Request) -> Timestamp {
    match &request.state {
        RequestState::Open => request.created_at,
        RequestState::Decided(verdict) | RequestState::Granted(verdict) => verdict.at,
        RequestState::Orphaned | RequestState::Withdrawn { .. } => Timestamp(i64::MAX),
    }
}

fn event_of(name: &str, data: &impl Serialize) -> Option<Event> {
    let json = serde_json::to_string(data).ok()?;
    Some(Event::default().event(name).data(json))
}
