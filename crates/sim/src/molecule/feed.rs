//! The feed: which rows of the table a call of `GET /activity` gets, in which order, and how far a workspace has
//! acknowledged. There is no inbox behind it and nothing is ever taken out by reading.

use std::time::Duration;

use serde_json::{Value, json};

use super::faults::Late;
use super::ground::Ground;
use super::ids::WorkspaceId;
use super::options::Edition;
use super::rows::{Entry, Row, put};
use super::time::Micros;
use super::wire::{Answer, Call};

/// Rows of a page when nothing sensible is asked for.
const LIMIT_DEFAULT: usize = 100;
/// Rows of a page at most.
const LIMIT_MOST: usize = 500;
/// The longest look back.
const SINCE_MOST: u64 = 30 * 24 * 3_600;

const CURSOR_GONE: &str = "since_id cursor not found (row may have been pruned or belongs to a different workspace); omit since_id to reset";
const REPORTED: [&str; 7] = [
    "a2a_send",
    "a2a_receive",
    "task_update",
    "agent_log",
    "skill_promotion",
    "memory_write",
    "error",
];

/// What a call asks of the feed.
#[derive(Debug)]
struct Wanted {
    kind: Option<String>,
    from_agents: Option<bool>,
    peer: Option<String>,
    limit: usize,
    since: Option<Micros>,
    before: Option<Micros>,
    cursor: Option<String>,
    peer_info: bool,
}

impl Wanted {
    fn read(call: &Call, edition: Edition, now: Micros) -> Result<Self, &'static str> {
        let from_agents = match call.asked("source") {
            None => None,
            Some("canvas") => Some(false),
            Some("agent") => Some(true),
            Some(_) => return Err("source must be 'canvas' or 'agent'"),
        };
        let peer = match call.asked("peer_id") {
            None => None,
            Some(id) if WorkspaceId::read(id).is_some() => Some(id.to_owned()),
            Some(_) => return Err("peer_id must be a UUID"),
        };
        let before = match call.asked("before_ts") {
            None => None,
            Some(text) => match Micros::read(text) {
                Some(at) => Some(at),
                None => {
                    return Err(
                        "before_ts must be an RFC3339 timestamp (e.g. 2026-05-01T00:00:00Z)",
                    );
                }
            },
        };
        let since = match call.asked("since_secs").map(str::parse::<u64>) {
            None => None,
            Some(Ok(seconds)) if seconds > 0 => {
                Some(now.before(Duration::from_secs(seconds.min(SINCE_MOST))))
            }
            Some(_) => return Err("since_secs must be a positive integer"),
        };
        let limit = call.asked("limit").and_then(|limit| limit.parse().ok());
        Ok(Self {
            kind: call.asked("type").map(str::to_owned),
            from_agents,
            peer,
            limit: limit
                .filter(|limit| *limit > 0)
                .unwrap_or(LIMIT_DEFAULT)
                .min(LIMIT_MOST),
            since,
            before,
            cursor: call.asked("since_id").map(str::to_owned),
            peer_info: edition != Edition::Seed && call.asked("include") == Some("peer_info"),
        })
    }

    fn fits(&self, row: &Row) -> bool {
        let is_peer = |peer: &String| {
            row.entry.source.as_ref() == Some(peer) || row.entry.target.as_ref() == Some(peer)
        };
        self.kind
            .as_ref()
            .is_none_or(|kind| *kind == row.entry.kind)
            && self
                .from_agents
                .is_none_or(|agents| agents == row.entry.source.is_some())
            && self.peer.as_ref().is_none_or(is_peer)
            && self.since.is_none_or(|since| row.at >= since)
            && self.before.is_none_or(|before| row.at < before)
    }
}

impl Ground {
    pub(super) fn activity(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let wanted = Wanted::read(call, self.edition, self.clock.now())
            .map_err(|why| Answer::error(400, why))?;
        if !self.database {
            return Err(Answer::error(500, "query failed"));
        }
        let after = match &wanted.cursor {
            None => None,
            Some(cursor) => Some(self.cursor(id, cursor)?),
        };
        let page = self.page(id, &wanted, after);
        self.looked(id);
        self.pages.insert(id, page.clone());
        Ok(Answer::ok(page))
    }

    fn cursor(&self, id: WorkspaceId, cursor: &str) -> Result<(Micros, u64), Answer> {
        if WorkspaceId::read(cursor).is_none() {
            return Err(Answer::error(500, "cursor lookup failed"));
        }
        let row = self
            .rows
            .iter()
            .find(|row| row.id == cursor && row.workspace == id && row.is_visible());
        row.map(|row| (row.at, row.seq))
            .ok_or_else(|| Answer::error(410, CURSOR_GONE))
    }

    fn page(&self, id: WorkspaceId, wanted: &Wanted, after: Option<(Micros, u64)>) -> Value {
        let is_after = |row: &Row| match (after, self.edition) {
            (None, _) => true,
            (Some((at, _)), Edition::Seed) => row.at > at,
            (Some(mark), Edition::New | Edition::August) => (row.at, row.seq) > mark,
        };
        let mut rows: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.workspace == id && row.is_visible())
            .filter(|row| wanted.fits(row) && is_after(row))
            .collect();
        rows.sort_by_key(|row| (row.at, row.seq));
        if after.is_none() {
            rows.reverse();
        }
        let shown = rows.into_iter().take(wanted.limit);
        shown.map(|row| self.show(row, wanted.peer_info)).collect()
    }

    fn show(&self, row: &Row, peer_info: bool) -> Value {
        let mut shown = row.show(self.edition != Edition::Seed);
        if !peer_info {
            return shown;
        }
        if let Some(source) = &row.entry.source
            && let Some(peer) = self.office(source)
        {
            let card = format!("{}/registry/discover/{source}", self.base);
            put(&mut shown, "peer_name", json!(peer.name));
            put(&mut shown, "peer_role", json!(peer.role));
            put(&mut shown, "agent_card_url", json!(card));
        }
        let attachments = attachments(row);
        if !attachments.is_empty() {
            put(&mut shown, "attachments", json!(attachments));
        }
        shown
    }

    pub(super) fn ack(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let acked = call.json().and_then(|body| body.get("acked_seq")?.as_i64());
        let acked = acked.ok_or_else(|| Answer::error(400, "acked_seq is required"))?;
        let acked =
            u64::try_from(acked).map_err(|_| Answer::error(400, "acked_seq must be >= 0"))?;
        let Some(office) = self.offices.get_mut(&id) else {
            return Err(Answer::error(404, "workspace not found"));
        };
        office.acked = office.acked.max(acked);
        Ok(Answer::ok(json!({ "last_acked_seq": office.acked })))
    }

    /// A workspace writes into its own feed.
    pub(super) fn report(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let body = call
            .json()
            .ok_or_else(|| Answer::error(400, "invalid request body"))?;
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = text("activity_type").unwrap_or_default();
        if !REPORTED.contains(&kind.as_str()) {
            let known = REPORTED.join(", ");
            let why = format!("invalid activity_type, must be one of: {known}");
            return Err(Answer::error(400, &why));
        }
        if text("source_id").is_some_and(|source| source != id.to_string()) {
            let why = "source_id must match authenticated workspace";
            return Err(Answer::error(403, why));
        }
        let entry = Entry {
            kind,
            method: text("method"),
            source: text("source_id"),
            target: text("target_id"),
            summary: text("summary"),
            status: text("status").unwrap_or_else(|| "ok".to_owned()),
            error: text("error_detail"),
            request: body.get("request_body").cloned(),
            response: body.get("response_body").cloned(),
            message_id: None,
        };
        self.log(id, entry, Late::Never);
        Ok(Answer::ok(json!({ "status": "logged" })))
    }
}

/// The files of a row, as `include=peer_info` lists them: a media type is told for uploads only.
fn attachments(row: &Row) -> Vec<Value> {
    let Some(request) = &row.entry.request else {
        return Vec::new();
    };
    if row.entry.method.as_deref() == Some("chat_upload_receive") {
        return vec![json!({
            "kind": "file",
            "uri": request.get("uri"),
            "name": request.get("name"),
            "mime_type": request.get("mimeType"),
        })];
    }
    let parts = request
        .pointer("/params/message/parts")
        .and_then(Value::as_array);
    let files = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("file"));
    files
        .map(|file| json!({"kind": "file", "uri": file.get("uri"), "name": file.get("name")}))
        .collect()
}
