//! What the platform knows: workspaces, tokens, rows, files, and who listens. The rules of each kind of call are in
//! files of their own; this one holds what they share: writing a row and letting it be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::events::Listener;
use super::faults::{EventStream, Faults, Late};
use super::ids::{FileId, WorkspaceId, fresh_id, fresh_token};
use super::limiter::Limiter;
use super::office::Office;
use super::options::{Edition, MoleculeOptions};
use super::rows::{Entry, Planted, Row, Visible};
use super::seen::Seen;
use super::time::{Clock, Micros};

/// Rows that one platform keeps; what is beyond is lost like any insert that fails. A message and its reply are two.
const ROWS_MOST: usize = 200_000;
/// Tokens, files and keys that one platform keeps of each.
const KEPT_MOST: usize = 10_000;

/// The ground as everybody holds it.
pub(super) type Shared = Arc<watch::Sender<Ground>>;

/// Changes the ground and gives back what came of it.
pub(super) fn change<T: Default>(ground: &Shared, change: impl FnOnce(&mut Ground) -> T) -> T {
    let mut came = T::default();
    ground.send_modify(|ground| came = change(ground));
    came
}

/// A live token; a revoked one is forgotten.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) workspace: WorkspaceId,
    pub(super) created: Micros,
    pub(super) used: Option<Micros>,
}

/// A file that waits for its workspace.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) workspace: WorkspaceId,
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Bytes,
    pub(super) since: Micros,
    pub(super) acked: bool,
}

/// What a delegation's key was used for.
#[derive(Clone, Debug)]
pub(super) struct Delegated {
    pub(super) id: String,
    pub(super) target: String,
    pub(super) status: &'static str,
}

/// Everything.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) edition: Edition,
    pub(super) options: MoleculeOptions,
    pub(super) base: String,
    pub(super) clock: Clock,
    pub(super) offices: BTreeMap<WorkspaceId, Office>,
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) rows: Vec<Row>,
    pub(super) uploads: BTreeMap<FileId, Upload>,
    pub(super) delegated: BTreeMap<(WorkspaceId, String), Delegated>,
    pub(super) listeners: Vec<Listener>,
    pub(super) faults: Faults,
    pub(super) stream: EventStream,
    pub(super) database: bool,
    /// Whether every call to an agent carries the secret.
    pub(super) always_auth: bool,
    pub(super) limiter: Limiter,
    pub(super) seen: Vec<Seen>,
    pub(super) calls: u64,
    /// Replies and looks for replies so far, whatever came of them.
    pub(super) reply_calls: u64,
    /// The last page of each feed, for showing it again.
    pub(super) pages: BTreeMap<WorkspaceId, Value>,
    /// Gates that were opened.
    pub(super) open: BTreeSet<String>,
    /// The first workspace that was made without a parent.
    pub(super) root: Option<WorkspaceId>,
    seq: u64,
}

impl Ground {
    pub(super) fn new(options: MoleculeOptions, base: String) -> Self {
        Self {
            edition: options.edition,
            base,
            clock: Clock::new(options.clock_stands_still),
            offices: BTreeMap::new(),
            tokens: BTreeMap::new(),
            rows: Vec::new(),
            uploads: BTreeMap::new(),
            delegated: BTreeMap::new(),
            listeners: Vec::new(),
            faults: Faults::new(options.seed),
            stream: EventStream::On,
            database: true,
            always_auth: false,
            limiter: Limiter::default(),
            seen: Vec::new(),
            calls: 0,
            reply_calls: 0,
            pages: BTreeMap::new(),
            open: BTreeSet::new(),
            root: None,
            seq: 0,
            options,
        }
    }

    pub(super) fn office(&self, id: &str) -> Option<&Office> {
        self.offices.get(&WorkspaceId::read(id)?)
    }

    pub(super) fn office_mut(&mut self, id: &str) -> Option<&mut Office> {
        self.offices.get_mut(&WorkspaceId::read(id)?)
    }

    /// Gives a workspace one more live token.
    pub(super) fn mint(&mut self, workspace: WorkspaceId) -> String {
        let text = fresh_token();
        let token = Token {
            id: fresh_id(),
            workspace,
            created: self.clock.now(),
            used: None,
        };
        if self.tokens.len() < KEPT_MOST {
            self.tokens.insert(text.clone(), token);
        }
        text
    }

    pub(super) fn revoke_all(&mut self, workspace: WorkspaceId) {
        self.tokens.retain(|_, token| token.workspace != workspace);
    }

    pub(super) fn has_token(&self, workspace: WorkspaceId) -> bool {
        self.tokens
            .values()
            .any(|token| token.workspace == workspace)
    }

    pub(super) fn keep_upload(&mut self, id: FileId, upload: Upload) {
        if self.uploads.len() < KEPT_MOST {
            self.uploads.insert(id, upload);
        }
    }

    /// The next sequence number; the table skips some on its own.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Writes a row; none when the table is full.
    pub(super) fn log(
        &mut self,
        workspace: WorkspaceId,
        entry: Entry,
        late: Late,
    ) -> Option<String> {
        let at = self.clock.tick();
        self.log_at(workspace, entry, late, at)
    }

    pub(super) fn log_at(
        &mut self,
        workspace: WorkspaceId,
        entry: Entry,
        late: Late,
        at: Micros,
    ) -> Option<String> {
        if self.rows.len() >= ROWS_MOST {
            return None;
        }
        let row = Row {
            id: fresh_id(),
            workspace,
            at,
            seq: self.next_seq(),
            visible: self.faults.visibility(late),
            entry,
            planted: None,
        };
        let id = row.id.clone();
        let visible = row.is_visible();
        self.rows.push(row);
        if visible {
            self.announce(&id);
        }
        self.pass_locks(Instant::now());
        Some(id)
    }

    /// Puts a row in the table as a test wants it shown.
    pub(super) fn plant(&mut self, workspace: WorkspaceId, planted: Planted) -> Option<String> {
        if self.rows.len() >= ROWS_MOST {
            return None;
        }
        let mut row = Row {
            id: fresh_id(),
            workspace,
            at: self.clock.tick(),
            seq: self.next_seq(),
            visible: Visible::Now,
            entry: Entry {
                kind: super::rows::RECEIVE.to_owned(),
                method: Some("message/send".to_owned()),
                status: "ok".to_owned(),
                ..Entry::default()
            },
            planted: None,
        };
        if let Planted::Over(fields) = &planted {
            take_over(&mut row, fields);
        }
        let id = row.id.clone();
        row.planted = Some(planted);
        self.rows.push(row);
        self.announce(&id);
        Some(id)
    }

    /// Lets rows be seen whose time has come; true when there were some.
    pub(super) fn commit_due(&mut self, now: Instant) -> bool {
        let due = |row: &Row| matches!(row.visible, Visible::From(at) if at <= now);
        let came = self.commit(due);
        self.pass_locks(now);
        came
    }

    /// Counts one look at a feed against the rows that wait for looks.
    pub(super) fn looked(&mut self, workspace: WorkspaceId) {
        for row in &mut self.rows {
            if let (true, Visible::AfterLooks(left)) = (row.workspace == workspace, row.visible) {
                row.visible = Visible::AfterLooks(left.saturating_sub(1));
            }
        }
        self.commit(|row| row.visible == Visible::AfterLooks(0));
    }

    /// Lets the rows of a feed be seen that a test held back.
    pub(super) fn release(&mut self, workspace: WorkspaceId) -> bool {
        self.commit(|row| row.workspace == workspace && row.visible == Visible::Held)
    }

    fn commit(&mut self, due: impl Fn(&Row) -> bool) -> bool {
        let mut came = Vec::new();
        for row in self.rows.iter_mut().filter(|row| due(row)) {
            row.visible = Visible::Now;
            came.push(row.id.clone());
        }
        for id in &came {
            self.announce(id);
        }
        !came.is_empty()
    }

    /// When the next row comes into sight by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.rows.iter().filter_map(|row| match row.visible {
            Visible::From(at) => Some(at),
            Visible::Now | Visible::AfterLooks(_) | Visible::Held | Visible::Waiting(_) => None,
        });
        due.min()
    }

    pub(super) fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().rev().find(|row| row.id == id)
    }
}

/// The fields of a planted row that the feed itself goes by.
fn take_over(row: &mut Row, fields: &serde_json::Map<String, Value>) {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(id) = text("id") {
        row.id = id;
    }
    if let Some(at) = text("created_at").as_deref().and_then(Micros::read) {
        row.at = at;
    }
    if let Some(kind) = text("activity_type") {
        row.entry.kind = kind;
    }
    if let Some(method) = text("method") {
        row.entry.method = Some(method);
    }
    row.entry.source = text("source_id");
    row.entry.target = text("target_id");
    row.entry.request = fields.get("request_body").cloned();
    row.entry.response = fields.get("response_body").cloned();
}
