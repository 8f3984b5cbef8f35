//! The events of a task as server-sent events, in the envelope of either binding.

use super::call::A2aCall;
use super::error::A2aError;
use super::stream::{SequencedEvent, StartAt, Subscriber};
use crate::BridgeService;
use crate::api::StreamPermit;
use a2a::{StreamResponse, TaskState};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bridge_core::value::TaskId;
use futures_util::stream;
use serde_json::Value;
use std::convert::Infallible;

/// When a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the task is over. A subscriber stays while the task waits for its client.
    Over,
    /// When the task waits for its client, or is over. While it waits for its owner here, the stream stays open
    /// (specification 7.6.1).
    Asked,
}

/// The events of a streaming call.
pub(crate) enum TaskEventStream {
    /// A single event, with its sequence number if it has one.
    One(Option<(Option<u64>, Box<StreamResponse>)>),
    /// The stream of a task.
    Many {
        subscriber: Subscriber,
        until: Until,
        /// Ends the stream with the caller's token and with the daemon.
        permit: StreamPermit,
        ended: bool,
    },
}

impl TaskEventStream {
    pub(crate) fn one(seq: Option<u64>, event: StreamResponse) -> Self {
        Self::One(Some((seq, Box::new(event))))
    }

    /// Subscribes to a task. The caller acquires the permit before it stores anything, so that a stored message is never
    /// refused for lack of one.
    pub(crate) async fn of<D: BridgeService>(
        call: &A2aCall<D>,
        permit: StreamPermit,
        task_id: &TaskId,
        until: Until,
    ) -> Result<Self, A2aError> {
        let context = &call.context;
        // A call that creates a task can't resume: its `Last-Event-ID` belongs to another stream.
        let after = call.after.filter(|_| until == Until::Over);
        let start = after.map_or(StartAt::Snapshot, StartAt::After);
        let subscriber = context
            .publishers
            .subscribe(&context.service, task_id, &call.base, start)
            .await?;
        Ok(Self::Many {
            subscriber,
            until,
            permit,
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
                subscriber,
                until,
                permit,
                ended,
            } => {
                if *ended {
                    return None;
                }
                let stop = permit.stop();
                let SequencedEvent { sequence, event } = tokio::select! {
                    () = stop.cancelled() => return None,
                    event = subscriber.next() => event?,
                };
                *ended = *until == Until::Asked && asks(&event);
                let event = serde_json::to_value(event.as_ref()).ok()?;
                Some((Some(sequence), event))
            }
        }
    }

    /// The stream as a response; `envelope` wraps each event for the binding.
    pub(crate) fn respond(self, envelope: impl Fn(Value) -> Value + Send + 'static) -> Response {
        let events = stream::unfold((self, envelope), |(mut events, envelope)| async move {
            let (seq, event) = events.next().await?;
            let mut sse = Event::default().data(envelope(event).to_string());
            if let Some(seq) = seq {
                sse = sse.id(seq.to_string());
            }
            Some((Ok::<_, Infallible>(sse), (events, envelope)))
        });
        Sse::new(events)
            .keep_alive(KeepAlive::default())
            .into_response()
    }
}

/// Whether an event says that the client must act next.
fn asks(event: &StreamResponse) -> bool {
    let state = match event {
        StreamResponse::Task(task) => &task.status.state,
        StreamResponse::StatusUpdate(update) => &update.status.state,
        StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => return false,
    };
    *state == TaskState::InputRequired
}
