//! What can be seen of the platform from outside: bubbles, inboxes, presence, calls; and waiting for it to change.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ids::WorkspaceId;
use super::options::Edition;
use super::rows::Row;
use super::{MoleculePlatform, Route, Seen, Status, Workspace};
use crate::error::Error;

/// A bubble that the canvas user sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Bubble {
    /// What it says.
    pub text: String,
    /// Its files, as they were described.
    pub attachments: Vec<Value>,
    /// When, as the platform writes times.
    pub at: String,
}

/// A message that a workspace got.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxMessage {
    /// Its row.
    pub row: String,
    /// Who wrote it; none for the canvas.
    pub source: Option<String>,
    /// Its `messageId`.
    pub message_id: Option<String>,
    /// Its text parts.
    pub text: String,
    /// Its `metadata`; null when it has none.
    pub metadata: Value,
    /// The whole request.
    pub body: Value,
}

/// What was heard from a workspace's agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeats {
    /// How many heartbeats came through.
    pub count: u64,
    /// How many registrations came through.
    pub registrations: u64,
    /// `active_tasks` of the last one.
    pub active_tasks: u64,
    /// `current_task` of the last one.
    pub current_task: Option<String>,
}

/// A text that somebody on the platform can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The workspace whose canvas shows it, or that got it as a message.
    pub(crate) workspace: String,
    /// The workspace that sent it as a message; none for a bubble.
    pub(crate) source: Option<String>,
    pub(crate) text: String,
    /// Milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
}

/// A file that was left for a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingFile {
    /// Its label.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Whether its workspace said that it has it.
    pub acked: bool,
}

impl MoleculePlatform {
    /// What the canvas user of this workspace sees of its agent, oldest first.
    pub fn bubbles(&self, workspace: &Workspace) -> Vec<Bubble> {
        self.rows_of(workspace, Row::is_bubble, |row| Bubble {
            text: row.text(),
            attachments: row.files(),
            at: row.at.text(),
        })
    }

    /// The messages that this workspace got, oldest first, those not yet visible included.
    pub fn inbox_of(&self, workspace: &Workspace) -> Vec<InboxMessage> {
        self.rows_of(workspace, Row::is_message, |row| {
            let body = row.entry.request.clone().unwrap_or(Value::Null);
            let metadata = body.pointer("/params/message/metadata").cloned();
            InboxMessage {
                row: row.id.clone(),
                source: row.entry.source.clone(),
                message_id: row.entry.message_id.clone(),
                text: row.text(),
                metadata: metadata.unwrap_or(Value::Null),
                body,
            }
        })
    }

    /// Every row of a feed as it would be shown, oldest first.
    pub fn rows(&self, workspace: &Workspace) -> Vec<Value> {
        let with_seq = self.ground.borrow().edition != Edition::Seed;
        self.rows_of(workspace, |_| true, |row| row.show(with_seq))
    }

    fn rows_of<T>(
        &self,
        workspace: &Workspace,
        wanted: impl Fn(&Row) -> bool,
        show: impl Fn(&Row) -> T,
    ) -> Vec<T> {
        let Some(id) = WorkspaceId::read(&workspace.id) else {
            return Vec::new();
        };
        let ground = self.ground.borrow();
        let mut rows: Vec<&Row> = ground
            .rows
            .iter()
            .filter(|row| row.workspace == id)
            .collect();
        rows.retain(|row| wanted(row));
        rows.sort_by_key(|row| (row.at, row.seq));
        rows.into_iter().map(show).collect()
    }

    /// The bubbles and the messages of workspaces from this row of the table on, and the number of the next row.
    pub(crate) fn written_from(&self, first: usize) -> (Vec<Written>, usize) {
        let ground = self.ground.borrow();
        let rows = ground.rows.get(first..).unwrap_or_default();
        let written = rows
            .iter()
            .filter(|row| row.is_bubble() || (row.is_message() && row.entry.source.is_some()));
        let written = written.map(|row| Written {
            workspace: row.workspace.to_string(),
            source: row.entry.source.clone(),
            text: row.text(),
            at_ms: u64::try_from(row.at.0 / 1_000).unwrap_or(0),
        });
        (written.collect(), ground.rows.len())
    }

    /// Replies and looks for replies so far, whatever came of them.
    pub fn reply_calls(&self) -> u64 {
        self.ground.borrow().reply_calls
    }

    /// What the workspace is said to be now.
    pub fn status(&self, workspace: &Workspace) -> Status {
        match WorkspaceId::read(&workspace.id) {
            Some(id) => self.ground.borrow().status_of(id),
            None => Status::Removed,
        }
    }

    /// What was heard from its agent.
    pub fn heartbeats(&self, workspace: &Workspace) -> Heartbeats {
        let ground = self.ground.borrow();
        let office = ground.office(&workspace.id);
        office.map_or_else(Heartbeats::default, |office| Heartbeats {
            count: office.heartbeats,
            registrations: office.registrations,
            active_tasks: office.active_tasks,
            current_task: office.current_task.clone(),
        })
    }

    /// Its agent card, as it is stored.
    pub fn agent_card(&self, workspace: &Workspace) -> Option<Value> {
        let ground = self.ground.borrow();
        ground
            .office(&workspace.id)
            .and_then(|office| office.card.clone())
    }

    /// The highest sequence number that its agent acknowledged.
    pub fn acked(&self, workspace: &Workspace) -> u64 {
        let ground = self.ground.borrow();
        ground
            .office(&workspace.id)
            .map_or(0, |office| office.acked)
    }

    /// The files that were left for it.
    pub fn files_of(&self, workspace: &Workspace) -> Vec<PendingFile> {
        let Some(id) = WorkspaceId::read(&workspace.id) else {
            return Vec::new();
        };
        let ground = self.ground.borrow();
        let uploads = ground
            .uploads
            .values()
            .filter(|upload| upload.workspace == id);
        uploads
            .map(|upload| PendingFile {
                name: upload.name.clone(),
                bytes: upload.bytes.to_vec(),
                acked: upload.acked,
            })
            .collect()
    }

    /// How many event streams are open for it.
    pub fn listening(&self, workspace: &Workspace) -> usize {
        let id = WorkspaceId::read(&workspace.id);
        id.map_or(0, |id| self.ground.borrow().listening(id))
    }

    /// Every call so far, oldest first.
    pub fn calls(&self) -> Vec<Seen> {
        self.ground.borrow().seen.clone()
    }

    /// How many calls of each kind got which status; none for those that were cut or are still due.
    pub fn counts(&self) -> BTreeMap<(Route, Option<u16>), usize> {
        let mut counts = BTreeMap::new();
        for seen in &self.ground.borrow().seen {
            *counts.entry((seen.route, seen.status)).or_default() += 1;
        }
        counts
    }

    /// How many calls of this kind got this status.
    pub fn count(&self, route: Route, status: u16) -> usize {
        let counts = self.counts();
        counts.get(&(route, Some(status))).copied().unwrap_or(0)
    }

    /// Returns when this many bubbles are there, with all of them.
    pub async fn wait_for_bubbles(
        &self,
        workspace: &Workspace,
        count: usize,
    ) -> Result<Vec<Bubble>, Error> {
        let what = format!("{count} bubbles in {}", workspace.id);
        self.wait_until(&what, |platform| platform.bubbles(workspace).len() >= count)
            .await?;
        Ok(self.bubbles(workspace))
    }

    /// Returns when this workspace got that many messages, with all of them.
    pub async fn wait_for_inbox(
        &self,
        workspace: &Workspace,
        count: usize,
    ) -> Result<Vec<InboxMessage>, Error> {
        let what = format!("{count} messages in {}", workspace.id);
        self.wait_until(&what, |platform| {
            platform.inbox_of(workspace).len() >= count
        })
        .await?;
        Ok(self.inbox_of(workspace))
    }

    /// Returns when the platform fulfils `until`, which is asked again after every change of it.
    pub async fn wait_until(
        &self,
        what: &str,
        mut until: impl FnMut(&Self) -> bool,
    ) -> Result<(), Error> {
        let mut changes = self.ground.subscribe();
        let fulfilled = async {
            loop {
                changes.mark_unchanged();
                if until(self) {
                    return true;
                }
                if changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        match tokio::time::timeout(self.patience, fulfilled).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Error::NeverOnPlatform {
                what: what.to_owned(),
                waited: self.patience,
                events: self.ground.borrow().seen.len(),
            }),
        }
    }
}
