//! The record of what people did by hand: its JSON form, the same as that of `audit --json`, and its pages. Whoever reads
//! all of it can verify chain and signature without us (`docs/formats.md`).

use super::extract::{PAGE_DEFAULT, Params};
use super::{Context, ProblemResponse};
use crate::{BridgeService, Time};
use axum::Json;
use axum::extract::State;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{AuditFilter, AuditPage, AuditQuery};
use bridge_core::value::{AuditEnds, AuditEntry, AuditLink, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the record, with what verifies it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AuditPartView {
    /// Whose signature it is.
    pub public_key: Option<String>,
    /// Ed25519 over the ends, base64.
    pub signature: Option<String>,
    pub ends: Option<AuditEndsView>,
    /// The sum that the oldest entry here is summed with.
    pub before: Option<String>,
    /// Newest first.
    pub entries: Vec<AuditEntryView>,
}

/// The two ends of the record, which are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEndsView {
    /// The sum of the newest entry that retention removed.
    pub removed: Option<String>,
    /// The sum of the newest entry.
    pub newest: Option<String>,
    /// Entries up to this number were there before the ledger's key signed for the first time.
    pub base: i64,
}

/// One act of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntryView {
    /// Its number.
    pub row: i64,
    /// When.
    pub at: Time,
    /// The same in milliseconds since 1970, as the sum has it.
    #[serde(default)]
    pub at_ms: i64,
    /// Who.
    pub actor: String,
    /// What was done, one word.
    pub what: String,
    /// To what: an id.
    pub subject: String,
    /// The rest, one line.
    pub detail: String,
    /// Its sum; entries of older versions have none.
    pub sum: Option<String>,
}

/// Answer to `GET /v1/audit`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditList {
    /// The entries. With a filter `before` is absent, because entries between them are missing.
    #[serde(flatten)]
    pub part: AuditPartView,
    /// What to give as `before` for the next page; absent on the last one. With a filter a page may have few entries, or
    /// none, and a next one all the same.
    pub next: Option<i64>,
}

impl From<&AuditEnds> for AuditEndsView {
    fn from(ends: &AuditEnds) -> Self {
        Self {
            removed: ends.removed.clone(),
            newest: ends.newest.clone(),
            base: ends.base,
        }
    }
}

impl From<AuditEndsView> for AuditEnds {
    fn from(view: AuditEndsView) -> Self {
        Self {
            removed: view.removed,
            newest: view.newest,
            base: view.base,
        }
    }
}

impl From<&AuditLink> for AuditEntryView {
    fn from(link: &AuditLink) -> Self {
        let entry = link.entry.clone();
        Self {
            row: link.row,
            at: entry.at.into(),
            at_ms: entry.at.0,
            actor: entry.actor,
            what: entry.what,
            subject: entry.subject,
            detail: entry.detail,
            sum: link.sum.clone(),
        }
    }
}

/// Goes by `at`: exports of older versions have no `at_ms`.
impl From<AuditEntryView> for AuditLink {
    fn from(view: AuditEntryView) -> Self {
        Self {
            row: view.row,
            entry: AuditEntry {
                at: Timestamp(view.at.ms()),
                actor: view.actor,
                what: view.what,
                subject: view.subject,
                detail: view.detail,
            },
            sum: view.sum,
        }
    }
}

impl From<AuditPage> for AuditList {
    fn from(page: AuditPage) -> Self {
        Self {
            part: AuditPartView {
                public_key: page.public_key,
                signature: page.signature,
                ends: Some((&page.ends).into()),
                before: page.before,
                entries: page.links.iter().map(AuditEntryView::from).collect(),
            },
            next: page.next,
        }
    }
}

/// Which acts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditParams {
    /// How many, at most; 50 when absent.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<i64>,
    /// By this one: the name of a token or sender, or `local owner`.
    actor: Option<String>,
    /// Only this act, by its one word.
    what: Option<String>,
    /// What the subject's id begins with.
    subject: Option<String>,
    /// At this time or later.
    since: Option<Time>,
    /// Before this time.
    until: Option<Time>,
}

impl From<AuditParams> for AuditQuery {
    fn from(params: AuditParams) -> Self {
        let time = |time: Time| Timestamp(time.ms());
        Self {
            before: params.before,
            filter: AuditFilter {
                actor: params.actor,
                what: params.what,
                subject: params.subject,
                since: params.since.map(time),
                until: params.until.map(time),
            },
            limit: params.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX),
        }
    }
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(params): Params<AuditParams>,
) -> Result<Json<AuditList>, ProblemResponse> {
    let query = AuditQuery::from(params);
    let page = service.read(move |rows| rows.audit_page(&query)).await?;
    Ok(Json(page.into()))
}
