//! A task in the form of A2A: status, history and artifacts, derived from its rows. The core derives the state; responses
//! and streams render it with this module.

use super::extension;
use super::parse::restore;
use crate::BridgeService;
use a2a::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use bridge_core::outcome;
use bridge_core::task::{A2aState, Stand, TaskMessage, TaskSnapshot};
use bridge_core::value::{
    Answer, Attachment, MessageId, Request, TaskId, TaskInput, TaskInputKind,
};
use chrono::DateTime;
use serde_json::{Value, json};
use std::collections::HashMap;

/// A file of an answer up to this size is in the answer itself; a longer one is named by its address.
pub(crate) const INLINE_MAX: u64 = 256 * 1024;
/// What the artifact of an answer is called.
const ARTIFACT_NAME: &str = "answer";

/// How much of a task is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// At most so many of the newest messages; all when absent.
    pub(crate) history: Option<i32>,
    /// Whether artifacts are included.
    pub(crate) artifacts: bool,
}

impl Detail {
    /// Everything.
    pub(crate) const WHOLE: Self = Self {
        history: None,
        artifacts: true,
    };
}

/// The task. `base` is where this server is reached, for the addresses of long files.
pub(crate) async fn task<D: BridgeService>(
    service: &D,
    base: &str,
    view: &TaskSnapshot,
    detail: Detail,
) -> Task {
    let artifacts = if detail.artifacts {
        Some(artifacts(service, base, view).await)
    } else {
        None
    };
    Task {
        id: view.task.task_id.to_string(),
        context_id: context_of(view).to_owned(),
        status: status(view),
        artifacts,
        history: newest(history(view), detail.history),
        metadata: None,
    }
}

/// The context as its owner knows it: the key of the conversation without the owner's own name in front.
pub(crate) fn context_of(view: &TaskSnapshot) -> &str {
    let own = view.context.strip_prefix(view.task.owner.as_str());
    own.and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(&view.context)
}

pub(crate) fn state(state: A2aState) -> TaskState {
    match state {
        A2aState::Submitted => TaskState::Submitted,
        A2aState::Working => TaskState::Working,
        A2aState::InputRequired => TaskState::InputRequired,
        A2aState::AuthRequired => TaskState::AuthRequired,
        A2aState::Completed => TaskState::Completed,
        A2aState::Failed => TaskState::Failed,
        A2aState::Canceled => TaskState::Canceled,
        A2aState::Rejected => TaskState::Rejected,
    }
}

/// Its current status.
pub(crate) fn status(view: &TaskSnapshot) -> TaskStatus {
    let stand = view.now();
    TaskStatus {
        state: state(stand.state),
        message: status_message(view, &stand),
        timestamp: DateTime::from_timestamp_millis(stand.at.0),
    }
}

fn status_message(view: &TaskSnapshot, stand: &Stand) -> Option<Message> {
    let why = stand.why.as_ref().filter(|why| !why.trim().is_empty());
    let mut parts: Vec<Part> = why.map(Part::text).into_iter().collect();
    let asked = view.question().filter(|asked| asked.theirs);
    let mut message = Message {
        message_id: format!("{}-status-{}", view.task.task_id, stand.at.0),
        ..said(view, Vec::new())
    };
    if let Some(asked) = asked {
        parts.push(question_part(asked.request));
        message.extensions = Some(vec![extension::QUESTIONS.to_owned()]);
    }
    message.parts = parts;
    (!message.parts.is_empty()).then_some(message)
}

fn question_part(request: &Request) -> Part {
    let payload: Value = serde_json::from_str(&request.payload).unwrap_or_default();
    let data = json!({
        "requestId": request.request_id.as_str(),
        "headline": request.headline,
        "questions": payload.get("questions").cloned().unwrap_or_default(),
    });
    let named = (
        extension::EXTENSION_KEY.to_owned(),
        extension::QUESTIONS.into(),
    );
    Part {
        metadata: Some(HashMap::from([named])),
        ..Part::data(data).with_media_type("application/json")
    }
}

/// A message of this agent in a task.
fn said(view: &TaskSnapshot, parts: Vec<Part>) -> Message {
    Message {
        message_id: String::new(),
        context_id: Some(context_of(view).to_owned()),
        task_id: Some(view.task.task_id.to_string()),
        role: Role::Agent,
        parts,
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    }
}

/// The messages of both sides. An answer comes after the message it answers, and after the input that Codex got while it
/// worked on it.
pub(crate) fn history(view: &TaskSnapshot) -> Vec<Message> {
    let mut messages = Vec::with_capacity(view.inputs.len() * 2);
    let mut answer = None;
    for word in &view.inputs {
        if let TaskInputKind::Message(message_id) = &word.kind {
            messages.extend(answer.take());
            let one = view
                .answered()
                .find(|one| one.message.message_id == *message_id);
            answer = one.and_then(|one| answer_message(view, one));
        }
        messages.extend(original(view, word));
    }
    messages.extend(answer);
    messages
}

/// An input as its client sent it, with the ids that it has here.
fn original(view: &TaskSnapshot, word: &TaskInput) -> Option<Message> {
    let message: Message = serde_json::from_str(&word.original).ok()?;
    let row = match &word.kind {
        TaskInputKind::Message(message_id) => {
            let mut rows = view.messages.iter();
            rows.find(|one| one.message.message_id == *message_id)
        }
        TaskInputKind::Answer(_) | TaskInputKind::End => None,
    };
    let message = match row {
        Some(row) => restore(message, &row.message.body),
        None => message,
    };
    Some(Message {
        context_id: Some(context_of(view).to_owned()),
        task_id: Some(view.task.task_id.to_string()),
        ..message
    })
}

/// The answer to one message as a message of ours; files are in the artifact alone.
pub(crate) fn answer_message(view: &TaskSnapshot, one: &TaskMessage) -> Option<Message> {
    let parts = answer_parts(one.answer.as_ref()?);
    (!parts.is_empty()).then(|| Message {
        message_id: format!("{}-answer", one.message.message_id),
        ..said(view, parts)
    })
}

fn newest(history: Vec<Message>, wanted: Option<i32>) -> Option<Vec<Message>> {
    let wanted = wanted.map_or(history.len(), |wanted| usize::try_from(wanted).unwrap_or(0));
    let skipped = history.len().saturating_sub(wanted);
    let messages: Vec<Message> = history.into_iter().skip(skipped).collect();
    (!messages.is_empty()).then_some(messages)
}

async fn artifacts<D: BridgeService>(
    service: &D,
    base: &str,
    view: &TaskSnapshot,
) -> Vec<Artifact> {
    let mut artifacts = Vec::new();
    for one in view.answered() {
        artifacts.extend(artifact(service, base, &view.task.task_id, one).await);
    }
    artifacts
}

/// The answer to one message with its files; nothing where nothing was answered.
pub(crate) async fn artifact<D: BridgeService>(
    service: &D,
    base: &str,
    task_id: &TaskId,
    one: &TaskMessage,
) -> Option<Artifact> {
    let mut parts = answer_parts(one.answer.as_ref()?);
    parts.extend(file_parts(service, base, task_id, one).await);
    artifact_with(&one.message.message_id, parts)
}

/// The artifact of an answer; nothing without parts.
pub(crate) fn artifact_with(message_id: &MessageId, parts: Vec<Part>) -> Option<Artifact> {
    (!parts.is_empty()).then(|| Artifact {
        artifact_id: message_id.to_string(),
        name: Some(ARTIFACT_NAME.to_owned()),
        description: None,
        parts,
        metadata: None,
        extensions: None,
    })
}

/// The text of an answer: one data part when it is a JSON object or array and nothing else.
pub(crate) fn answer_parts(answer: &Answer) -> Vec<Part> {
    let (_, text) = outcome::read(&answer.text);
    match whole_json(text) {
        Some(data) => vec![Part::data(data).with_media_type("application/json")],
        None if text.trim().is_empty() => Vec::new(),
        None => vec![Part::text(text)],
    }
}

/// The files of an answer.
pub(crate) async fn file_parts<D: BridgeService>(
    service: &D,
    base: &str,
    task_id: &TaskId,
    one: &TaskMessage,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(one.files.len());
    for (n, file) in one.files.iter().enumerate() {
        let bytes = if file.bytes <= INLINE_MAX {
            service.read_file(file).await.ok()
        } else {
            None
        };
        let part = match bytes {
            Some(bytes) => Part::raw(bytes),
            None => Part::url(address(base, task_id, &one.message.message_id, n)),
        };
        parts.push(named(part, file));
    }
    parts
}

pub(crate) fn named(part: Part, file: &Attachment) -> Part {
    part.with_filename(file.name.as_str())
        .with_media_type(file.media_type.as_str())
}

pub(crate) fn address(base: &str, task_id: &TaskId, message_id: &MessageId, n: usize) -> String {
    format!("{base}/a2a/tasks/{task_id}/files/{message_id}/{n}")
}

fn whole_json(text: &str) -> Option<Value> {
    let text = text.trim();
    let inside = unfenced(text).unwrap_or(text);
    if inside.starts_with(['{', '[']) {
        serde_json::from_str(inside).ok()
    } else {
        None
    }
}

/// What is in the one code block that a text is.
fn unfenced(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("```")?.strip_suffix("```")?;
    let (language, inside) = inside.split_once('\n')?;
    let plain = matches!(language.trim(), "" | "json") && !inside.contains("```");
    plain.then(|| inside.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_json_answers_become_data() {
        for text in [
            "{\"key\": \"value\", \"count\": 42}",
            " [1, 2]\n",
            "```json\n{\"a\": 1}\n```",
            "```\n[]\n```",
        ] {
            assert!(whole_json(text).is_some(), "{text}");
        }
        for text in [
            "42",
            "null",
            "\"text\"",
            "{not json}",
            "see {\"a\": 1}",
            "```python\n[1]\n```",
            "```json\n{}\n``` and ```json\n{}\n```",
            "",
        ] {
            assert!(whole_json(text).is_none(), "{text}");
        }
    }
}
