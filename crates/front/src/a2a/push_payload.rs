//! Bodies of push notifications: a stream event in 1.0, the task in 0.3. Files are always links.

use super::{legacy, task};
use a2a::{
    Artifact, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatus,
    TaskStatusUpdateEvent,
};
use bridge_core::step::EventDelivery;
use bridge_core::task::{A2aState, TaskMessage, TaskSnapshot};
use bridge_core::task_events::What;
use bridge_core::value::{Attachment, MessageId};
use chrono::DateTime;
use serde_json::{Value, json};

/// The body of one push. `base` is the public URL of this server, if known.
#[must_use]
pub fn push_payload(base: Option<&str>, delivery: &EventDelivery) -> Value {
    let view = &delivery.timeline.view;
    let what = &delivery.task_event.what;
    let push = delivery.subscription.push();
    let old = push.is_some_and(|push| push.version == legacy::VERSION);
    let event = if old {
        StreamResponse::Task(whole(base, view, what))
    } else {
        event(base, view, what)
    };
    let event = serde_json::to_value(event).unwrap_or_default();
    if old { legacy::event(event) } else { event }
}

fn event(base: Option<&str>, view: &TaskSnapshot, what: &What) -> StreamResponse {
    let task_id = view.task.task_id.to_string();
    let context_id = task::context_of(view).to_owned();
    if let What::Answered(message_id) = what
        && let Some(artifact) = artifact_of(base, view, message_id)
    {
        return StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id,
            context_id,
            artifact,
            append: Some(false),
            last_chunk: Some(true),
            metadata: None,
        });
    }
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id,
        context_id,
        status: status(view, what),
        metadata: None,
    })
}

fn status(view: &TaskSnapshot, what: &What) -> TaskStatus {
    match what {
        What::Stood { state, at } => TaskStatus {
            state: task::state(*state),
            message: None,
            timestamp: DateTime::from_timestamp_millis(at.0),
        },
        What::Stands(state) => TaskStatus {
            state: task::state(*state),
            ..task::status(view)
        },
        // The final state is pushed next, once.
        What::Answered(message_id) => {
            let of = |one: &&TaskMessage| one.message.message_id == *message_id;
            let answer = view.messages.iter().find(of);
            let answer = answer.and_then(|one| one.answer.as_ref());
            TaskStatus {
                state: task::state(A2aState::Working),
                message: None,
                timestamp: answer
                    .and_then(|answer| DateTime::from_timestamp_millis(answer.created_at.0)),
            }
        }
    }
}

fn whole(base: Option<&str>, view: &TaskSnapshot, what: &What) -> Task {
    let shown = match what {
        What::Stood { .. } => Vec::new(),
        What::Stands(_) | What::Answered(_) => {
            let answered = view.answered();
            answered
                .filter_map(|one| artifact(base, view, one))
                .collect()
        }
    };
    Task {
        id: view.task.task_id.to_string(),
        context_id: task::context_of(view).to_owned(),
        status: status(view, what),
        artifacts: (!shown.is_empty()).then_some(shown),
        history: None,
        metadata: None,
    }
}

fn artifact_of(base: Option<&str>, view: &TaskSnapshot, id: &MessageId) -> Option<Artifact> {
    let one = view.answered().find(|one| one.message.message_id == *id)?;
    artifact(base, view, one)
}

fn artifact(base: Option<&str>, view: &TaskSnapshot, one: &TaskMessage) -> Option<Artifact> {
    let mut parts = task::answer_parts(one.answer.as_ref()?);
    match base {
        Some(base) => {
            let (task_id, message_id) = (&view.task.task_id, &one.message.message_id);
            let files = one.files.iter().enumerate().map(|(n, file)| {
                let address = task::address(base, task_id, message_id, n);
                task::named(Part::url(address), file)
            });
            parts.extend(files);
        }
        None => parts.extend(unaddressed(&one.files)),
    }
    task::artifact_with(&one.message.message_id, parts)
}

/// Lists files without links, for a server that does not know its public URL.
fn unaddressed(files: &[Attachment]) -> Option<Part> {
    let named: Vec<Value> = files
        .iter()
        .map(|file| {
            json!({"filename": file.name, "mediaType": file.media_type, "bytes": file.bytes})
        })
        .collect();
    let listed = json!({
        "files": named,
        "note": "get the task for what is in them: this server does not know its public address",
    });
    let part = Part::data(listed).with_media_type("application/json");
    (!files.is_empty()).then_some(part)
}
