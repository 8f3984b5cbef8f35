//! What is known of a question so far: events in, and at the end what came of it. Bounded, because the other side
//! decides how much it says.

use super::fault::AgentCallError;
use super::read::{Artifact, Event, File, Said, State, TaskSeen};

/// The longest result that is kept.
const TEXT_MAX_BYTES: usize = 4 << 20;
/// Pieces of a result that are kept.
const ARTIFACTS_MAX: usize = 256;
/// Files that are listed.
const FILES_MAX: usize = 64;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskOutcome {
    /// How it ended; a bare message counts as done.
    pub state: State,
    /// The result; where the task waits or failed, what the agent says about that stands in `remark`.
    pub text: String,
    /// What the agent says about how it stands.
    pub remark: Option<String>,
    /// Files of the result, as they were named.
    pub files: Vec<File>,
    /// The task, if the agent made one.
    pub task: Option<String>,
    /// The talk that it belongs to, for the next question.
    pub context: Option<String>,
}

/// What is known so far.
#[derive(Debug)]
pub(super) struct Tale {
    task: Option<String>,
    context: Option<String>,
    state: State,
    status: Option<Said>,
    artifacts: Vec<Artifact>,
    last: Option<Said>,
    reply: Option<Said>,
}

impl Default for Tale {
    fn default() -> Self {
        Self {
            task: None,
            context: None,
            state: State::Unknown,
            status: None,
            artifacts: Vec::new(),
            last: None,
            reply: None,
        }
    }
}

impl Tale {
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// What was said about how it stands.
    pub(super) fn remark(&self) -> Option<&str> {
        let said = self.status.as_ref()?;
        Some(said.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Nothing more comes unless we say something. What waits for somebody over there goes on without us.
    pub(super) fn is_settled(&self) -> bool {
        let asks = self.state == State::InputRequired;
        self.reply.is_some() || self.state.is_over() || asks
    }

    /// Takes in what the agent said. What is about another task is none of ours.
    pub(super) fn take(&mut self, event: Event) -> Result<(), AgentCallError> {
        match event {
            Event::Task(seen) => self.show(seen),
            Event::Message { context, said } => {
                self.context = context.or(self.context.take());
                self.reply = Some(said);
            }
            Event::Status {
                task,
                context,
                state,
                said,
            } => {
                if self.is_ours(&task) {
                    self.note(task, context);
                    self.state = state;
                    self.status = said;
                }
            }
            Event::Artifact {
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
    pub(super) fn show(&mut self, seen: TaskSeen) {
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
                known.said.text.push_str(&piece.said.text);
                known.said.files.extend(piece.said.files);
            }
            (Some(known), false) => known.said = piece.said,
            (None, _) => self.artifacts.push(piece),
        }
    }

    pub(super) fn check_size(&self) -> Result<(), AgentCallError> {
        let bytes: usize = self.artifacts.iter().map(|a| a.said.text.len()).sum();
        if bytes > TEXT_MAX_BYTES || self.artifacts.len() > ARTIFACTS_MAX {
            Err(AgentCallError::Unreadable(format!(
                "its result has more than {TEXT_MAX_BYTES} bytes or {ARTIFACTS_MAX} pieces"
            )))
        } else {
            Ok(())
        }
    }

    /// What came of it.
    pub(super) fn outcome(&self) -> AskOutcome {
        let state = match self.reply {
            Some(_) => State::Completed,
            None => self.state,
        };
        let mut pieces: Vec<&Said> = self.artifacts.iter().map(|a| &a.said).collect();
        pieces.extend(&self.reply);
        let mut remark = self.status.as_ref().map(|said| said.text.clone());
        if pieces.is_empty() && state == State::Completed {
            // Some agents write their result there.
            let result = self.status.as_ref().filter(|said| !said.text.is_empty());
            pieces.extend(result.or(self.last.as_ref()));
            remark = None;
        }
        let texts: Vec<&str> = pieces
            .iter()
            .map(|said| said.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let files = pieces.iter().flat_map(|said| &said.files);
        AskOutcome {
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

    fn piece(text: &str, append: bool) -> Event {
        Event::Artifact {
            task: "t".to_owned(),
            context: None,
            artifact: Artifact {
                id: "a".to_owned(),
                said: Said {
                    text: text.to_owned(),
                    files: Vec::new(),
                },
            },
            append,
        }
    }

    #[test]
    fn snapshot_replaces_streamed_chunks() {
        let mut tale = Tale::default();
        for (text, append) in [("one ", false), ("two", true)] {
            tale.take(piece(text, append)).unwrap();
        }
        assert_eq!(tale.outcome().text, "one two");
        assert_eq!(tale.task(), Some("t"));
        let snapshot = TaskSeen {
            id: "t".to_owned(),
            context: Some("c".to_owned()),
            state: State::Working,
            status: None,
            artifacts: vec![Artifact {
                id: "a".to_owned(),
                said: Said {
                    text: "one two".to_owned(),
                    files: Vec::new(),
                },
            }],
            last: None,
        };
        tale.take(Event::Task(snapshot)).unwrap();
        tale.take(piece(" three", true)).unwrap();
        assert_eq!(tale.outcome().text, "one two three");
        assert!(!tale.is_settled());
    }

    #[test]
    fn ignores_events_of_other_tasks() {
        let mut tale = Tale::default();
        tale.take(piece("ours", false)).unwrap();
        let stray = Event::Status {
            task: "other".to_owned(),
            context: None,
            state: State::Completed,
            said: None,
        };
        tale.take(stray).unwrap();
        assert!(!tale.is_settled());
        assert_eq!(tale.outcome().text, "ours");
    }

    #[test]
    fn a_result_has_a_bound() {
        let mut tale = Tale::default();
        let long = "x".repeat(TEXT_MAX_BYTES);
        tale.take(piece(&long, false)).unwrap();
        assert!(matches!(
            tale.take(piece("x", true)),
            Err(AgentCallError::Unreadable(_))
        ));
    }
}
