//! The tasks of a caller, newest change first, by pages.
//!
//! How a task stands is derived, so that a filter by status looks at tasks one by one, up to a bound for one call.

use super::Call;
use crate::Desk;
use crate::a2a::fault::Fault;
use crate::a2a::task::{self, Detail};
use a2a::{ListTasksRequest, ListTasksResponse, TaskState};
use bridge_core::errand::ErrandView;
use bridge_core::port::{ErrandQuery, Ledger, Read, RowsError};
use bridge_core::value::{ChannelId, ErrandId, Timestamp};

/// Tasks of a page where nobody says how many.
const PAGE_DEFAULT: u32 = 50;
/// Tasks that one call looks at when it filters by status; what is behind them is not counted.
const LOOKED_AT_MAX: u32 = 2_000;

/// One page.
struct Page {
    views: Vec<ErrandView>,
    next: String,
    total: u64,
}

pub(super) async fn list<D: Desk>(
    call: &Call<D>,
    request: ListTasksRequest,
) -> Result<ListTasksResponse, Fault> {
    let size = request.page_size.map_or(PAGE_DEFAULT, i32::unsigned_abs);
    let before = match request.page_token.as_deref() {
        None | Some("") => None,
        Some(token) => Some(read_token(token)?),
    };
    let query = ErrandQuery {
        owner: call.caller.name.clone(),
        conversation: None,
        since: request
            .status_timestamp_after
            .map(|at| Timestamp(at.timestamp_millis())),
        before,
        limit: size,
    };
    let context = request.context_id.filter(|context| !context.is_empty());
    let talk = context.map(|context| call.context.desk.talk(&call.caller, &context));
    let status = request
        .status
        .filter(|status| *status != TaskState::Unspecified);
    let desk = &call.context.desk;
    let read = desk
        .ledger()
        .read(move |rows| page(rows, talk, query, status));
    let page = read.await?;
    let detail = Detail {
        history: request.history_length,
        artifacts: request.include_artifacts == Some(true),
    };
    let mut tasks = Vec::with_capacity(page.views.len());
    for view in &page.views {
        tasks.push(task::task(desk, &call.base, view, detail).await);
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.status.timestamp));
    Ok(ListTasksResponse {
        tasks,
        next_page_token: page.next,
        page_size: i32::try_from(size).unwrap_or(i32::MAX),
        total_size: i32::try_from(page.total).unwrap_or(i32::MAX),
    })
}

fn page(
    rows: &dyn Read,
    talk: Option<(ChannelId, String)>,
    mut query: ErrandQuery,
    status: Option<TaskState>,
) -> Result<Page, RowsError> {
    if let Some((channel, key)) = talk {
        let found = rows.conversation_by_key(&channel, &key)?;
        let Some(conversation) = found else {
            return Ok(Page {
                views: Vec::new(),
                next: String::new(),
                total: 0,
            });
        };
        query.conversation = Some(conversation.conversation_id);
    }
    match status {
        Some(status) => filtered(rows, query, &status),
        None => plain(rows, &query),
    }
}

fn plain(rows: &dyn Read, query: &ErrandQuery) -> Result<Page, RowsError> {
    let one_more = ErrandQuery {
        limit: query.limit.saturating_add(1),
        ..query.clone()
    };
    let mut found = rows.errands(&one_more)?;
    let size = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let more = found.len() > size;
    found.truncate(size);
    let last = found.last().filter(|_| more);
    let next = last.map_or_else(String::new, |(errand, at)| token(*at, &errand.errand_id));
    let mut views = Vec::with_capacity(found.len());
    for (errand, _) in &found {
        views.extend(ErrandView::load(rows, &errand.errand_id)?);
    }
    Ok(Page {
        views,
        next,
        total: rows.errands_count(query)?,
    })
}

/// Looks at all tasks from the beginning, because those of earlier pages count too.
fn filtered(rows: &dyn Read, query: ErrandQuery, status: &TaskState) -> Result<Page, RowsError> {
    let size = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let before = query.before.clone();
    let everything = ErrandQuery {
        before: None,
        limit: LOOKED_AT_MAX,
        ..query
    };
    let (mut views, mut total) = (Vec::new(), 0);
    let mut last: Option<(Timestamp, ErrandId)> = None;
    let mut next = String::new();
    for (errand, at) in rows.errands(&everything)? {
        let Some(view) = ErrandView::load(rows, &errand.errand_id)? else {
            continue;
        };
        if task::state(view.now().state) != *status {
            continue;
        }
        total += 1;
        let place = (at, errand.errand_id);
        if before.as_ref().is_some_and(|before| place >= *before) {
            continue;
        }
        if views.len() < size {
            views.push(view);
            last = Some(place);
        } else if let Some((at, id)) = &last {
            next = token(*at, id);
        }
    }
    Ok(Page { views, next, total })
}

/// Where the next page begins: behind this one.
fn token(at: Timestamp, id: &ErrandId) -> String {
    format!("{}~{id}", at.0)
}

fn read_token(token: &str) -> Result<(Timestamp, ErrandId), Fault> {
    let read = token.split_once('~').and_then(|(at, id)| {
        let at = at.parse().ok()?;
        Some((Timestamp(at), ErrandId::new(id)))
    });
    read.ok_or_else(|| Fault::invalid("pageToken", "is none that this server gave"))
}
