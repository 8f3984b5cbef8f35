//! What everybody who listens to a task knows of it, and what must be told when it is something else now.
//!
//! Pure. A listener that takes in every event has exactly the task that is kept here, so a snapshot of it and the
//! events after it fit together for everybody, whenever they come.

use crate::a2a::extension::SEQUENCE_KEY;
use a2a::{
    Artifact, Message, Part, PartContent, Role, StreamResponse, Task, TaskArtifactUpdateEvent,
    TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Says of an artifact that what was shown of it is not part of any answer.
const WITHDRAWN: &str = "codex-bridge/withdrawn";

/// What is known.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// As rows said it. Shared: it may be long, and every piece of text looks at it.
    rows: Arc<Task>,
    /// Beside that, the answers that are being written.
    open: Vec<Artifact>,
    /// What was told last: the status of the rows, or what is done while they say that it works.
    status: TaskStatus,
    /// Artifacts whose last piece was told.
    closed: BTreeSet<String>,
}

/// How the task is now.
#[derive(Clone, Debug)]
pub(super) struct Now {
    /// As rows say it; the same one as before where they did not change.
    pub(super) rows: Arc<Task>,
    /// What is known of answers that are still being written.
    pub(super) open: Vec<Artifact>,
    /// What Codex did and said on the way since the last time, for people.
    pub(super) doings: Vec<String>,
}

/// Whether two statuses of rows tell something else; when they were made does not count.
fn differ(one: &TaskStatus, other: &TaskStatus) -> bool {
    fn parts(status: &TaskStatus) -> Option<&[Part]> {
        status.message.as_ref().map(|said| said.parts.as_slice())
    }
    one.state != other.state || parts(one) != parts(other)
}

fn made(task: &Task) -> &[Artifact] {
    task.artifacts.as_deref().unwrap_or_default()
}

impl Scene {
    /// The beginning: as it is now, with the newest of the doings as what it works on.
    pub(super) fn new(now: Now) -> Self {
        let ids = made(&now.rows).iter().map(|one| one.artifact_id.clone());
        let mut scene = Self {
            closed: ids.collect(),
            status: now.rows.status.clone(),
            open: now.open,
            rows: now.rows,
        };
        if let (TaskState::Working, None, Some(doing)) = (
            &scene.status.state,
            &scene.status.message,
            now.doings.last(),
        ) {
            scene.status.message = Some(scene.says(doing, 0));
        }
        scene
    }

    /// All of it, under the number of the event that made it so.
    pub(super) fn snapshot(&self, seq: u64) -> StreamResponse {
        let mut task = Task::clone(&self.rows);
        task.status = self.status.clone();
        let artifacts = task.artifacts.get_or_insert_default();
        artifacts.extend(self.open.iter().cloned());
        task.metadata
            .get_or_insert_default()
            .insert(SEQUENCE_KEY.to_owned(), seq.into());
        StreamResponse::Task(task)
    }

    pub(super) fn state(&self) -> &TaskState {
        &self.status.state
    }

    /// What is to be told, in this order; the first will have the number `next`.
    pub(super) fn differences(&mut self, now: Now, next: u64) -> Vec<StreamResponse> {
        let mut told = Telling {
            events: Vec::new(),
            next,
        };
        let status = &now.rows.status;
        let working = status.state == TaskState::Working;
        let changed = differ(&self.rows.status, status);
        if working && changed {
            self.status(status.clone(), &mut told);
        }
        // What was done until now is told before it waits or ends; whoever is waited for is never told that it works.
        if working || self.rows.status.state == TaskState::Working {
            self.doings(&now, &mut told);
        }
        self.artifacts(&now, &mut told);
        if changed && !working {
            self.status(status.clone(), &mut told);
        }
        self.rows = now.rows;
        self.open = now.open;
        told.events
    }

    fn doings(&mut self, now: &Now, told: &mut Telling) {
        for doing in &now.doings {
            if self.is_doing(doing) {
                continue;
            }
            let status = TaskStatus {
                state: TaskState::Working,
                message: Some(self.says(doing, told.next)),
                timestamp: now.rows.status.timestamp,
            };
            self.status(status, told);
        }
    }

    fn status(&mut self, status: TaskStatus, told: &mut Telling) {
        self.status = status.clone();
        let event = TaskStatusUpdateEvent {
            task_id: self.rows.id.clone(),
            context_id: self.rows.context_id.clone(),
            status,
            metadata: None,
        };
        told.push(StreamResponse::StatusUpdate(event));
    }

    /// Whether the same was told last: Codex says what it does when it begins and when it is done.
    fn is_doing(&self, doing: &str) -> bool {
        let message = self.status.message.as_ref();
        self.status.state == TaskState::Working && message.and_then(Message::text) == Some(doing)
    }

    fn says(&self, text: &str, number: u64) -> Message {
        Message {
            message_id: format!("{}-doing-{number}", self.rows.id),
            context_id: Some(self.rows.context_id.clone()),
            task_id: Some(self.rows.id.clone()),
            role: Role::Agent,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
            reference_task_ids: None,
        }
    }

    fn artifacts(&mut self, now: &Now, told: &mut Telling) {
        let (rows, open) = (Arc::clone(&self.rows), std::mem::take(&mut self.open));
        // Where rows are the same ones, nothing is new but what is being written.
        let (before, after) = if Arc::ptr_eq(&rows, &now.rows) {
            (&[][..], &[][..])
        } else {
            (made(&rows), made(&now.rows))
        };
        let known: Vec<&Artifact> = before.iter().chain(&open).collect();
        let targets: Vec<&Artifact> = after.iter().chain(&now.open).collect();
        for gone in &known {
            if !targets.iter().any(|target| is_same(target, gone)) {
                self.closed.remove(&gone.artifact_id);
                told.push(self.withdrawal(gone));
            }
        }
        for target in targets {
            let id = &target.artifact_id;
            let before = known.iter().find(|known| is_same(known, target));
            let last = !now.open.iter().any(|open| is_same(open, target));
            let closes = last && !self.closed.contains(id);
            let piece = match before {
                None => Some(Piece::whole(target)),
                Some(before) if before.parts == target.parts && !closes => None,
                Some(before) => Some(Piece::between(before, target)),
            };
            if let Some(piece) = piece {
                told.push(self.chunk(target, piece, last));
            }
            if last {
                self.closed.insert(id.clone())
            } else {
                self.closed.remove(id)
            };
        }
    }

    fn chunk(&self, artifact: &Artifact, piece: Piece, last: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.rows.id.clone(),
            context_id: self.rows.context_id.clone(),
            artifact: Artifact {
                parts: piece.parts,
                ..artifact.clone()
            },
            append: Some(piece.append),
            last_chunk: Some(last),
            metadata: None,
        })
    }

    /// An answer that was begun and will not be: no event takes an artifact away, so it is emptied.
    fn withdrawal(&self, artifact: &Artifact) -> StreamResponse {
        let mut empty = artifact.clone();
        empty
            .metadata
            .get_or_insert_default()
            .insert(WITHDRAWN.to_owned(), Value::Bool(true));
        let piece = Piece {
            parts: vec![Part::text("")],
            append: false,
        };
        self.chunk(&empty, piece, true)
    }
}

fn is_same(one: &Artifact, other: &Artifact) -> bool {
    one.artifact_id == other.artifact_id
}

/// Events that get their numbers.
struct Telling {
    events: Vec<StreamResponse>,
    next: u64,
}

impl Telling {
    fn push(&mut self, mut event: StreamResponse) {
        let metadata = match &mut event {
            StreamResponse::StatusUpdate(update) => &mut update.metadata,
            StreamResponse::ArtifactUpdate(update) => &mut update.metadata,
            StreamResponse::Task(task) => &mut task.metadata,
            StreamResponse::Message(message) => &mut message.metadata,
        };
        let number = (SEQUENCE_KEY.to_owned(), self.next.into());
        metadata.get_or_insert_with(HashMap::new).extend([number]);
        self.next = self.next.saturating_add(1);
        self.events.push(event);
    }
}

/// What is told of an artifact.
struct Piece {
    parts: Vec<Part>,
    append: bool,
}

impl Piece {
    fn whole(artifact: &Artifact) -> Self {
        Self {
            parts: artifact.parts.clone(),
            append: false,
        }
    }

    /// What is new where it only grew, otherwise all of it.
    fn between(before: &Artifact, now: &Artifact) -> Self {
        match grown(&before.parts, &now.parts) {
            Some(parts) if !parts.is_empty() => Self {
                parts,
                append: true,
            },
            Some(_) | None => Self::whole(now),
        }
    }
}

/// What `now` has more than `before`; `None` when it is something else.
fn grown(before: &[Part], now: &[Part]) -> Option<Vec<Part>> {
    let Some((end, same)) = before.split_last() else {
        return Some(now.to_vec());
    };
    if !now.starts_with(same) {
        return None;
    }
    let (grows, more) = now.get(same.len()..)?.split_first()?;
    let mut parts = Vec::with_capacity(more.len() + 1);
    if let (PartContent::Text(old), PartContent::Text(new)) = (&end.content, &grows.content) {
        let rest = new.strip_prefix(old.as_str())?;
        if !rest.is_empty() {
            parts.push(Part {
                content: PartContent::Text(rest.to_owned()),
                ..grows.clone()
            });
        }
    } else if end != grows {
        return None;
    }
    parts.extend_from_slice(more);
    Some(parts)
}
