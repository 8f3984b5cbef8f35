//! Reads what another agent says, in 1.0 or 0.3: the two differ in names and are distinguished by their fields. A reader
//! of what others wrote is tolerant: what it does not know it leaves out.

use serde_json::Value;

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentTaskState {
    /// The other side has it.
    Submitted,
    /// It works on it.
    Working,
    /// It wants to know something first.
    InputRequired,
    /// Somebody over there must allow something first.
    AuthRequired,
    /// It is done.
    Completed,
    /// It went wrong.
    Failed,
    /// It was stopped.
    Canceled,
    /// It was refused.
    Rejected,
    /// A state that we do not know.
    Unknown,
}

impl AgentTaskState {
    /// Every state, for reading.
    const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    /// Its name, as version 0.3 writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::AuthRequired => "auth-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }

    /// Nothing more comes of it.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Submitted
            | Self::Working
            | Self::InputRequired
            | Self::AuthRequired
            | Self::Unknown => false,
        }
    }

    fn read(text: &str) -> Self {
        let word = text
            .strip_prefix("TASK_STATE_")
            .unwrap_or(text)
            .to_ascii_lowercase()
            .replace('_', "-");
        let known = Self::ALL.into_iter().find(|state| state.as_str() == word);
        known.unwrap_or(Self::Unknown)
    }
}

/// A file that an agent sent, or says where it is. It is not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFile {
    /// What the agent calls it.
    pub name: Option<String>,
    /// What the agent says it is.
    pub media_type: Option<String>,
    /// Where it is.
    pub place: FileLocation,
}

/// Where a file of an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileLocation {
    /// It came along; so many characters of base64.
    Inline(usize),
    /// It is said to be there.
    Url(String),
}

/// Words and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemoteContent {
    pub(super) text: String,
    pub(super) files: Vec<AgentFile>,
}

/// A piece of a task's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Artifact {
    pub(super) id: String,
    pub(super) content: RemoteContent,
}

/// A task as it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteTask {
    pub(super) id: String,
    pub(super) context: Option<String>,
    pub(super) state: AgentTaskState,
    pub(super) status: Option<RemoteContent>,
    pub(super) artifacts: Vec<Artifact>,
    /// The agent's last message, where it writes its results there.
    pub(super) last: Option<RemoteContent>,
}

/// One thing that an agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AgentEvent {
    Task(RemoteTask),
    /// An answer without a task.
    Message {
        context: Option<String>,
        content: RemoteContent,
    },
    Status {
        task: String,
        context: Option<String>,
        state: AgentTaskState,
        content: Option<RemoteContent>,
    },
    Artifact {
        task: String,
        context: Option<String>,
        artifact: Artifact,
        append: bool,
    },
}

/// Reads an event, or the answer to a sent message.
pub(super) fn event(value: &Value) -> Option<AgentEvent> {
    for (key, kind) in [
        ("task", "task"),
        ("message", "message"),
        ("statusUpdate", "status-update"),
        ("artifactUpdate", "artifact-update"),
    ] {
        if let Some(inner) = value.get(key).filter(|inner| inner.is_object())
            && value.get("kind").is_none()
        {
            return of_kind(kind, inner);
        }
    }
    of_kind(value.get("kind")?.as_str()?, value)
}

fn of_kind(kind: &str, value: &Value) -> Option<AgentEvent> {
    match kind {
        "task" => task(value).map(AgentEvent::Task),
        "message" => Some(AgentEvent::Message {
            context: text_at(value, "contextId"),
            content: content(value),
        }),
        "status-update" => {
            let status = value.get("status")?;
            Some(AgentEvent::Status {
                task: text_at(value, "taskId")?,
                context: text_at(value, "contextId"),
                state: state(status),
                content: status.get("message").map(content),
            })
        }
        "artifact-update" => Some(AgentEvent::Artifact {
            task: text_at(value, "taskId")?,
            context: text_at(value, "contextId"),
            artifact: artifact(value.get("artifact")?),
            append: value.get("append") == Some(&Value::Bool(true)),
        }),
        _ => None,
    }
}

/// Reads a task.
pub(super) fn task(value: &Value) -> Option<RemoteTask> {
    let status = value.get("status").unwrap_or(&Value::Null);
    let is_agent = |message: &&Value| {
        let role = text_at(message, "role").unwrap_or_default();
        role == "agent" || role == "ROLE_AGENT"
    };
    Some(RemoteTask {
        id: text_at(value, "id").filter(|id| !id.is_empty())?,
        context: text_at(value, "contextId"),
        state: state(status),
        status: status.get("message").filter(|m| m.is_object()).map(content),
        artifacts: list(value, "artifacts").iter().map(artifact).collect(),
        last: list(value, "history").iter().rfind(is_agent).map(content),
    })
}

fn state(status: &Value) -> AgentTaskState {
    AgentTaskState::read(&text_at(status, "state").unwrap_or_default())
}

fn artifact(value: &Value) -> Artifact {
    Artifact {
        id: text_at(value, "artifactId").unwrap_or_default(),
        content: content(value),
    }
}

/// What the parts hold: texts and data as text, and files by their names.
fn content(value: &Value) -> RemoteContent {
    let mut all = RemoteContent::default();
    for part in list(value, "parts") {
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            all.text.push_str(text);
        } else if let Some(file) = file(part) {
            all.files.push(file);
        } else if let Some(data) = part.get("data") {
            if !all.text.is_empty() {
                all.text.push('\n');
            }
            all.text.push_str(&data.to_string());
        }
    }
    all
}

fn file(part: &Value) -> Option<AgentFile> {
    let (bytes, url, name, media_type) = match part.get("file") {
        Some(file) => (
            file.get("bytes"),
            file.get("uri"),
            text_at(file, "name"),
            text_at(file, "mimeType"),
        ),
        None => (
            part.get("raw"),
            part.get("url"),
            text_at(part, "filename"),
            text_at(part, "mediaType"),
        ),
    };
    let inline = bytes
        .and_then(Value::as_str)
        .map(|text| FileLocation::Inline(text.len()));
    let place = inline.or_else(|| Some(FileLocation::Url(url?.as_str()?.to_owned())))?;
    Some(AgentFile {
        name,
        media_type,
        place,
    })
}

fn text_at(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_versions_say_the_same() {
        let new = json!({"task": {"id": "t", "contextId": "c",
            "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "which?"}]}},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "x"}, {"raw": "AAAA", "filename": "f", "mediaType": "m/n"}]}]}});
        let old = json!({"kind": "task", "id": "t", "contextId": "c",
            "status": {"state": "input-required", "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "which?"}]}},
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "x"},
                {"kind": "file", "file": {"bytes": "AAAA", "name": "f", "mimeType": "m/n"}}]}]});
        let Some(AgentEvent::Task(task)) = event(&new) else {
            panic!("no task");
        };
        assert_eq!(task.state, AgentTaskState::InputRequired);
        assert_eq!(
            task.artifacts[0].content.files[0].place,
            FileLocation::Inline(4)
        );
        assert_eq!(event(&old), Some(AgentEvent::Task(task)));
        let new = json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": true,
            "artifact": {"artifactId": "a", "parts": [{"data": {"k": 1}}]}}});
        let old = json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "append": true,
            "artifact": {"artifactId": "a", "parts": [{"kind": "data", "data": {"k": 1}}]}});
        assert!(event(&new).is_some());
        assert_eq!(event(&new), event(&old));
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        for odd in [
            json!(null),
            json!({"kind": "new"}),
            json!({"task": 1}),
            json!({"task": {"id": ""}}),
        ] {
            assert_eq!(event(&odd), None, "{odd}");
        }
        let odd =
            json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_DREAMING"}}});
        assert!(matches!(
            event(&odd),
            Some(AgentEvent::Status {
                state: AgentTaskState::Unknown,
                ..
            })
        ));
    }
}
