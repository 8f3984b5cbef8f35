//! Builds the answer of one call from the agent's events. Bounded, because the other side decides how much it sends.

use super::error::AgentCallError;
use super::event::{AgentEvent, AgentFile, AgentTaskState, Artifact, RemoteContent, RemoteTask};

/// The longest result that is kept.
const TEXT_MAX_BYTES: usize = 4 << 20;
/// Pieces of a result that are kept.
const ARTIFACTS_MAX: usize = 256;
/// Files that are listed.
const FILES_MAX: usize = 64;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAnswer {
    /// How it ended; a bare message counts as done.
    pub state: AgentTaskState,
    /// The result; where the task waits or failed, what the agent says about that stands in `remark`.
    pub text: String,
    /// What the agent says about how it stands.
    pub remark: Option<String>,
    /// Files of the result, as they were named.
    pub files: Vec<AgentFile>,
    /// The task, if the agent made one.
    pub task: Option<String>,
    /// The talk that it belongs to, for the next question.
    pub context: Option<String>,
}

/// What is known so far.
#[derive(Debug)]
pub(super) struct AnswerBuilder {
    task: Option<String>,
    context: Option<String>,
    state: AgentTaskState,
    status: Option<RemoteContent>,
    artifacts: Vec<Artifact>,
    last: Option<RemoteContent>,
    reply: Option<RemoteContent>,
}

impl Default for AnswerBuilder {
    fn default() -> Self {
        Self {
            task: None,
            context: None,
            state: AgentTaskState::Unknown,
            status: None,
            artifacts: Vec::new(),
            last: None,
            reply: None,
        }
    }
}

impl AnswerBuilder {
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    pub(super) fn state(&self) -> AgentTaskState {
        self.state
    }

    /// The agent's remark about the state.
    pub(super) fn remark(&self) -> Option<&str> {
        let content = self.status.as_ref()?;
        Some(content.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Nothing more comes unless we say something. What waits for somebody over there goes on without us.
    pub(super) fn is_settled(&self) -> bool {
        let asks = self.state == AgentTaskState::InputRequired;
        self.reply.is_some() || self.state.is_over() || asks
    }

    /// Takes in an event. Events of other tasks are ignored.
    pub(super) fn take(&mut self, event: AgentEvent) -> Result<(), AgentCallError> {
        match event {
            AgentEvent::Task(seen) => self.show(seen),
            AgentEvent::Message { context, content } => {
                self.context = context.or(self.context.take());
                self.reply = Some(content);
            }
            AgentEvent::Status {
                task,
                context,
                state,
                content,
            } => {
                if self.is_ours(&task) {
                    self.note(task, context);
                    self.state = state;
                    self.status = content;
                }
            }
            AgentEvent::Artifact {
                task,
                context,
                artifact,
                append,
            } => {
                if self.is_ours(&task) {
                    self.note(task, context);
                    self.piece(artifact, append);
                }
            }
        }
        self.check_size()
    }

    fn is_ours(&self, task: &str) -> bool {
        self.task.as_deref().is_none_or(|ours| ours == task)
    }

    fn note(&mut self, task: String, context: Option<String>) {
        self.task = Some(task);
        self.context = context.or(self.context.take());
    }

    /// A whole task says all that there is.
    pub(super) fn show(&mut self, seen: RemoteTask) {
        if self.is_ours(&seen.id) {
            self.note(seen.id, seen.context);
            self.state = seen.state;
            self.status = seen.status;
            self.artifacts = seen.artifacts;
            self.last = seen.last;
        }
    }

    fn piece(&mut self, piece: Artifact, append: bool) {
        let known = self.artifacts.iter_mut().find(|known| known.id == piece.id);
        match (known, append) {
            (Some(known), true) => {
                known.content.text.push_str(&piece.content.text);
                known.content.files.extend(piece.content.files);
            }
            (Some(known), false) => known.content = piece.content,
            (None, _) => self.artifacts.push(piece),
        }
    }

    pub(super) fn check_size(&self) -> Result<(), AgentCallError> {
        let bytes: usize = self.artifacts.iter().map(|a| a.content.text.len()).sum();
        if bytes > TEXT_MAX_BYTES || self.artifacts.len() > ARTIFACTS_MAX {
            Err(AgentCallError::Unreadable(format!(
                "its result has more than {TEXT_MAX_BYTES} bytes or {ARTIFACTS_MAX} pieces"
            )))
        } else {
            Ok(())
        }
    }

    /// What came of it.
    pub(super) fn outcome(&self) -> AgentAnswer {
        let state = match self.reply {
            Some(_) => AgentTaskState::Completed,
            None => self.state,
        };
        let mut pieces: Vec<&RemoteContent> = self.artifacts.iter().map(|a| &a.content).collect();
        pieces.extend(&self.reply);
        let mut remark = self.status.as_ref().map(|content| content.text.clone());
        if pieces.is_empty() && state == AgentTaskState::Completed {
            // Some agents write their result there.
            let result = self
                .status
                .as_ref()
                .filter(|content| !content.text.is_empty());
            pieces.extend(result.or(self.last.as_ref()));
            remark = None;
        }
        let texts: Vec<&str> = pieces
            .iter()
            .map(|content| content.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let files = pieces.iter().flat_map(|content| &content.files);
        AgentAnswer {
            state,
            text: texts.join("\n\n"),
            remark: remark.filter(|text| !text.is_empty()),
            files: files.take(FILES_MAX).cloned().collect(),
            task: self.task.clone(),
            context: self.context.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, append: bool) -> AgentEvent {
        AgentEvent::Artifact {
            task: "t".to_owned(),
            context: None,
            artifact: Artifact {
                id: "a".to_owned(),
                content: RemoteContent {
                    text: text.to_owned(),
                    files: Vec::new(),
                },
            },
            append,
        }
    }

    #[test]
    fn snapshot_replaces_streamed_chunks() {
        let mut answer = AnswerBuilder::default();
        for (text, append) in [("one ", false), ("two", true)] {
            answer.take(piece(text, append)).unwrap();
        }
        assert_eq!(answer.outcome().text, "one two");
        assert_eq!(answer.task(), Some("t"));
        let snapshot = RemoteTask {
            id: "t".to_owned(),
            context: Some("c".to_owned()),
            state: AgentTaskState::Working,
            status: None,
            artifacts: vec![Artifact {
                id: "a".to_owned(),
                content: RemoteContent {
                    text: "one two".to_owned(),
                    files: Vec::new(),
                },
            }],
            last: None,
        };
        answer.take(AgentEvent::Task(snapshot)).unwrap();
        answer.take(piece(" three", true)).unwrap();
        assert_eq!(answer.outcome().text, "one two three");
        assert!(!answer.is_settled());
    }

    #[test]
    fn ignores_events_of_other_tasks() {
        let mut answer = AnswerBuilder::default();
        answer.take(piece("ours", false)).unwrap();
        let stray = AgentEvent::Status {
            task: "other".to_owned(),
            context: None,
            state: AgentTaskState::Completed,
            content: None,
        };
        answer.take(stray).unwrap();
        assert!(!answer.is_settled());
        assert_eq!(answer.outcome().text, "ours");
    }

    #[test]
    fn a_result_has_a_bound() {
        let mut answer = AnswerBuilder::default();
        let long = "x".repeat(TEXT_MAX_BYTES);
        answer.take(piece(&long, false)).unwrap();
        assert!(matches!(
            answer.take(piece("x", true)),
            Err(AgentCallError::Unreadable(_))
        ));
    }
}
