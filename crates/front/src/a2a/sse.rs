//! The events of a task as server-sent events, in the envelope of either binding.

use super::fault::Fault;
use super::ops::Call;
use super::stream::{From, Listener, Told};
use crate::BridgeService;
use crate::api::Seat;
use a2a::{StreamResponse, TaskState};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bridge_core::value::TaskId;
use futures_util::stream;
use serde_json::Value;
use std::convert::Infallible;

/// How long a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the task is over: whoever subscribed to a task that waits for its client waits too.
    Over,
    /// Until the task waits for its client, or is over. While it waits for its owner here, the stream stays
    /// (specification 7.6.1).
    Asked,
}

/// What a client is told, piece by piece.
pub(crate) enum Events {
    /// One event and nothing more, with its number where it has one.
    One(Option<(Option<u64>, Box<StreamResponse>)>),
    /// Everything that happens to a task.
    Many {
        listener: Listener,
        until: Until,
        /// Ends with the token of the caller, and with the daemon.
        seat: Seat,
        ended: bool,
    },
}

impl Events {
    /// One event that stands alone.
    pub(crate) fn one(seq: Option<u64>, event: StreamResponse) -> Self {
        Self::One(Some((seq, Box::new(event))))
    }

    /// The events of a task from now on, to whoever has this place: what is stored is not refused for want of one.
    pub(crate) async fn of<D: BridgeService>(
        call: &Call<D>,
        seat: Seat,
        task_id: &TaskId,
        until: Until,
    ) -> Result<Self, Fault> {
        let context = &call.context;
        // The number of an event of some other task means nothing to a new one.
        let after = call.after.filter(|_| until == Until::Over);
        let begin = after.map_or(From::Snapshot, From::After);
        let listener = context
            .tellers
            .listen(&context.service, task_id, &call.base, begin)
            .await?;
        Ok(Self::Many {
            listener,
            until,
            seat,
            ended: false,
        })
    }

    async fn next(&mut self) -> Option<(Option<u64>, Value)> {
        match self {
            Self::One(event) => {
                let (seq, event) = event.take()?;
                Some((seq, serde_json::to_value(event).ok()?))
            }
            Self::Many {
                listener,
                until,
                seat,
                ended,
            } => {
                if *ended {
                    return None;
                }
                let stop = seat.stop();
                let Told { seq, event } = tokio::select! {
                    () = stop.cancelled() => return None,
                    told = listener.next() => told?,
                };
                *ended = *until == Until::Asked && asks(&event);
                let event = serde_json::to_value(event.as_ref()).ok()?;
                Some((Some(seq), event))
            }
        }
    }

    /// The stream as a response; every event is put into `envelope`.
    pub(crate) fn respond(self, envelope: impl Fn(Value) -> Value + Send + 'static) -> Response {
        let events = stream::unfold((self, envelope), |(mut events, envelope)| async move {
            let (seq, event) = events.next().await?;
            let mut told = Event::default().data(envelope(event).to_string());
            if let Some(seq) = seq {
                told = told.id(seq.to_string());
            }
            Some((Ok::<_, Infallible>(told), (events, envelope)))
        });
        Sse::new(events)
            .keep_alive(KeepAlive::default())
            .into_response()
    }
}

/// Whether an event says that the client must speak next.
fn asks(event: &StreamResponse) -> bool {
    let state = match event {
        StreamResponse::Task(task) => &task.status.state,
        StreamResponse::StatusUpdate(update) => &update.status.state,
        StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => return false,
    };
    *state == TaskState::InputRequired
}
