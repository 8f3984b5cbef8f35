//! The task as its subscribers know it, and the events that bring them up to date. Pure.
//!
//! A subscriber that applies every event has exactly this task. A snapshot and the events after it therefore fit
//! together, whenever a subscriber arrives.

use crate::a2a::extension::SEQUENCE_KEY;
use a2a::{
    Artifact, Message, Part, PartContent, Role, StreamResponse, Task, TaskArtifactUpdateEvent,
    TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Metadata key of an artifact whose published text is not part of any answer.
const WITHDRAWN: &str = "codex-bridge/withdrawn";

/// The task as subscribers know it.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// The task as rows had it. Shared: it may be large, and every text update reads it.
    rows: Arc<Task>,
    /// Answers that Codex is still writing.
    open: Vec<Artifact>,
    /// The last published status: that of the rows, or a progress line while the task works.
    status: TaskStatus,
    /// Artifacts whose last chunk was published.
    closed: BTreeSet<String>,
}

/// The current task, to compare with the snapshot.
#[derive(Clone, Debug)]
pub(super) struct CurrentTask {
    /// The task as rows have it; the same `Arc` as before if they did not change.
    pub(super) rows: Arc<Task>,
    /// Answers that Codex is still writing.
    pub(super) open: Vec<Artifact>,
    /// Progress lines since the last comparison.
    pub(super) progress: Vec<String>,
}

/// Whether two statuses differ, apart from their timestamps.
fn differ(one: &TaskStatus, other: &TaskStatus) -> bool {
    fn parts(status: &TaskStatus) -> Option<&[Part]> {
        let message = status.message.as_ref();
        message.map(|message| message.parts.as_slice())
    }
    one.state != other.state || parts(one) != parts(other)
}

fn made(task: &Task) -> &[Artifact] {
    task.artifacts.as_deref().unwrap_or_default()
}

impl Snapshot {
    /// A snapshot of the current task, with its newest progress line as status message.
    pub(super) fn new(now: CurrentTask) -> Self {
        let ids = made(&now.rows).iter().map(|one| one.artifact_id.clone());
        let mut snapshot = Self {
            closed: ids.collect(),
            status: now.rows.status.clone(),
            open: now.open,
            rows: now.rows,
        };
        if let (TaskState::Working, None, Some(line)) = (
            &snapshot.status.state,
            &snapshot.status.message,
            now.progress.last(),
        ) {
            snapshot.status.message = Some(snapshot.progress_message(line, 0));
        }
        snapshot
    }

    /// The whole task as an event; `sequence` is the number of the last event it includes.
    pub(super) fn event(&self, sequence: u64) -> StreamResponse {
        let mut task = Task::clone(&self.rows);
        task.status = self.status.clone();
        let artifacts = task.artifacts.get_or_insert_default();
        artifacts.extend(self.open.iter().cloned());
        task.metadata
            .get_or_insert_default()
            .insert(SEQUENCE_KEY.to_owned(), sequence.into());
        StreamResponse::Task(task)
    }

    pub(super) fn state(&self) -> &TaskState {
        &self.status.state
    }

    /// Updates the snapshot and returns the events for it; the first has the number `next`.
    pub(super) fn update(&mut self, now: CurrentTask, next: u64) -> Vec<StreamResponse> {
        let mut batch = EventBatch {
            events: Vec::new(),
            next,
        };
        let status = &now.rows.status;
        let working = status.state == TaskState::Working;
        let changed = differ(&self.rows.status, status);
        if working && changed {
            self.status(status.clone(), &mut batch);
        }
        // Progress comes before the status that ends or pauses the work: a client that must act next should not see
        // `working` as the latest status.
        if working || self.rows.status.state == TaskState::Working {
            self.publish_progress(&now, &mut batch);
        }
        self.artifacts(&now, &mut batch);
        if changed && !working {
            self.status(status.clone(), &mut batch);
        }
        self.rows = now.rows;
        self.open = now.open;
        batch.events
    }

    fn publish_progress(&mut self, now: &CurrentTask, batch: &mut EventBatch) {
        for line in &now.progress {
            if self.shows(line) {
                continue;
            }
            let status = TaskStatus {
                state: TaskState::Working,
                message: Some(self.progress_message(line, batch.next)),
                timestamp: now.rows.status.timestamp,
            };
            self.status(status, batch);
        }
    }

    fn status(&mut self, status: TaskStatus, batch: &mut EventBatch) {
        self.status = status.clone();
        let event = TaskStatusUpdateEvent {
            task_id: self.rows.id.clone(),
            context_id: self.rows.context_id.clone(),
            status,
            metadata: None,
        };
        batch.push(StreamResponse::StatusUpdate(event));
    }

    /// Whether this line is the published status already: an item has the same text when it starts and when it completes.
    fn shows(&self, line: &str) -> bool {
        let message = self.status.message.as_ref();
        self.status.state == TaskState::Working && message.and_then(Message::text) == Some(line)
    }

    fn progress_message(&self, text: &str, number: u64) -> Message {
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

    fn artifacts(&mut self, now: &CurrentTask, batch: &mut EventBatch) {
        let (rows, open) = (Arc::clone(&self.rows), std::mem::take(&mut self.open));
        // If the rows did not change, only the open answers can have.
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
                batch.push(self.withdrawal(gone));
            }
        }
        for target in targets {
            let id = &target.artifact_id;
            let before = known.iter().find(|known| is_same(known, target));
            let last = !now.open.iter().any(|open| is_same(open, target));
            let closes = last && !self.closed.contains(id);
            let chunk = match before {
                None => Some(ArtifactChunk::whole(target)),
                Some(before) if before.parts == target.parts && !closes => None,
                Some(before) => Some(ArtifactChunk::between(before, target)),
            };
            if let Some(chunk) = chunk {
                batch.push(self.chunk(target, chunk, last));
            }
            if last {
                self.closed.insert(id.clone())
            } else {
                self.closed.remove(id)
            };
        }
    }

    fn chunk(&self, artifact: &Artifact, chunk: ArtifactChunk, last: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.rows.id.clone(),
            context_id: self.rows.context_id.clone(),
            artifact: Artifact {
                parts: chunk.parts,
                ..artifact.clone()
            },
            append: Some(chunk.append),
            last_chunk: Some(last),
            metadata: None,
        })
    }

    /// Empties an answer that was begun and dropped: A2A has no event that removes an artifact.
    fn withdrawal(&self, artifact: &Artifact) -> StreamResponse {
        let mut empty = artifact.clone();
        empty
            .metadata
            .get_or_insert_default()
            .insert(WITHDRAWN.to_owned(), Value::Bool(true));
        let chunk = ArtifactChunk {
            parts: vec![Part::text("")],
            append: false,
        };
        self.chunk(&empty, chunk, true)
    }
}

fn is_same(one: &Artifact, other: &Artifact) -> bool {
    one.artifact_id == other.artifact_id
}

/// Collects events and numbers them.
struct EventBatch {
    events: Vec<StreamResponse>,
    next: u64,
}

impl EventBatch {
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

/// The content of one artifact event.
struct ArtifactChunk {
    parts: Vec<Part>,
    append: bool,
}

impl ArtifactChunk {
    fn whole(artifact: &Artifact) -> Self {
        Self {
            parts: artifact.parts.clone(),
            append: false,
        }
    }

    /// The appended parts if the artifact only grew, otherwise all of it.
    fn between(before: &Artifact, now: &Artifact) -> Self {
        match appended(&before.parts, &now.parts) {
            Some(parts) if !parts.is_empty() => Self {
                parts,
                append: true,
            },
            Some(_) | None => Self::whole(now),
        }
    }
}

/// The parts that `now` appends to `before`; `None` if it does not begin with `before`.
fn appended(before: &[Part], now: &[Part]) -> Option<Vec<Part>> {
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
