//! The event stream of a workspace: frames without ids and without replay, for those who listen at that moment.
//! A slow listener loses frames; that is what makes it a hint and no source of truth.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::faults::EventStream;
use super::ground::Ground;
use super::ids::WorkspaceId;
use super::options::Edition;
use super::rows::{Entry, put};
use super::wire::{Answer, Call};

/// Frames that wait for one listener; more are dropped.
const FRAMES_MOST: usize = 64;
/// Listeners at once; the oldest is let go for a new one.
const LISTENERS_MOST: usize = 64;

/// Somebody who holds a stream open.
#[derive(Debug)]
pub(super) struct Listener {
    workspace: WorkspaceId,
    frames: mpsc::Sender<String>,
}

impl Ground {
    /// Lets a caller listen, if it may.
    pub(super) fn open_stream(
        &mut self,
        call: &Call,
    ) -> Result<(EventStream, mpsc::Receiver<String>), Answer> {
        self.guard(call)?;
        if self.stream == EventStream::Off {
            return Err(Answer::not_found());
        }
        let id = self.admit(call)?;
        Ok((self.stream, self.listen(id)))
    }

    fn listen(&mut self, workspace: WorkspaceId) -> mpsc::Receiver<String> {
        let (frames, stream) = mpsc::channel(FRAMES_MOST);
        self.listeners
            .retain(|listener| !listener.frames.is_closed());
        if self.listeners.len() >= LISTENERS_MOST {
            self.listeners.remove(0);
        }
        self.listeners.push(Listener { workspace, frames });
        stream
    }

    pub(super) fn listening(&self, workspace: WorkspaceId) -> usize {
        let open =
            |listener: &&Listener| listener.workspace == workspace && !listener.frames.is_closed();
        self.listeners.iter().filter(open).count()
    }

    pub(super) fn emit(&mut self, workspace: WorkspaceId, kind: &str, data: &Value) {
        let timestamp = self.clock.now().0 / 1_000;
        let frame = json!({"type": kind, "timestamp": timestamp, "data": data});
        let frame = format!("data: {frame}\n\n");
        for listener in &self.listeners {
            if listener.workspace == workspace {
                drop(listener.frames.try_send(frame.clone()));
            }
        }
    }

    /// Tells of a row that has just come into sight. Bubbles were told of before they were written.
    pub(super) fn announce(&mut self, id: &str) {
        let Some(row) = self.row(id) else {
            return;
        };
        let (workspace, entry) = (row.workspace, row.entry.clone());
        if row.is_bubble() {
            return;
        }
        let is_message = row.is_message();
        if self.edition != Edition::Seed && is_message && entry.source.is_none() {
            self.emit(workspace, "USER_MESSAGE", &user_message(workspace, &entry));
        }
        self.emit(workspace, "ACTIVITY_LOGGED", &logged(self.edition, &entry));
        if self.edition != Edition::Seed && is_message {
            let mut again = entry;
            again.summary = again
                .summary
                .map(|text| text.replace("(ingest)", "(queued for poll)"));
            self.emit(workspace, "ACTIVITY_LOGGED", &logged(self.edition, &again));
        }
    }
}

fn logged(edition: Edition, entry: &Entry) -> Value {
    let mut data = json!({
        "activity_type": entry.kind,
        "method": entry.method,
        "source_id": entry.source,
        "target_id": entry.target,
        "status": entry.status,
        "summary": entry.summary,
        "duration_ms": null,
        "request_body": entry.request,
    });
    if let (Edition::New | Edition::August, Some(id)) = (edition, &entry.message_id) {
        put(&mut data, "message_id", json!(id));
    }
    data
}

fn user_message(workspace: WorkspaceId, entry: &Entry) -> Value {
    json!({
        "workspace_id": workspace.to_string(),
        "message_id": entry.message_id,
        "request_body": entry.request,
    })
}
