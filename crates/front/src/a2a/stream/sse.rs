//! A listener's news as server-sent events: the number of each is its `id`, so that a client can come back behind it.
//! How an event is wrapped is the binding's business.

use super::{Listener, Told};
use crate::api::Seat;
use a2a::{StreamResponse, TaskState};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use std::convert::Infallible;

/// When a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the task is over: what a subscriber wants (3.1.6).
    Over,
    /// Also when it waits for the next word of whoever sent the message (11.7). Not when it waits for somebody else,
    /// because it goes on by itself then (7.6.1).
    Asked,
}

/// The answer to whoever streams. `envelope` puts an event into the words of its binding.
pub(crate) fn respond(
    listener: Listener,
    until: Until,
    seat: Seat,
    envelope: impl Fn(Value) -> Value + Send + 'static,
) -> Response {
    let stop = seat.stop();
    let state = (listener, false, seat);
    let events = stream::unfold(state, move |(mut listener, ended, seat)| {
        let stop = stop.clone();
        async move {
            if ended {
                return None;
            }
            let told = tokio::select! {
                () = stop.cancelled() => return None,
                told = listener.next() => told?,
            };
            let last = until == Until::Asked && asks(&told.event);
            Some((told, (listener, last, seat)))
        }
    });
    let events = futures_util::StreamExt::filter_map(events, move |told| {
        std::future::ready(written(&told, &envelope).map(Ok::<_, Infallible>))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn written(told: &Told, envelope: impl Fn(Value) -> Value) -> Option<Event> {
    let event = serde_json::to_value(&*told.event).ok()?;
    let event = Event::default().data(envelope(event).to_string());
    Some(event.id(told.seq.to_string()))
}

fn asks(event: &StreamResponse) -> bool {
    let status = match event {
        StreamResponse::Task(task) => &task.status,
        StreamResponse::StatusUpdate(update) => &update.status,
        StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_) => return false,
    };
    status.state == TaskState::InputRequired
}
