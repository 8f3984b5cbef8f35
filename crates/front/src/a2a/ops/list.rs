//! The tasks of a caller, newest change first, by pages.
//!
//! The status of a task is derived, so a filter by status reads tasks one by one, up to a bound per call. A page that ends
//! there may have fewer tasks than requested, and has a token for the next one.

use crate::BridgeService;
use crate::a2a::call::A2aCall;
use crate::a2a::error::A2aError;
use crate::a2a::task::{self, Detail};
use a2a::{ListTasksRequest, ListTasksResponse, TaskState};
use bridge_core::port::{Read, RowsError, TaskQuery, readable};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{ChannelId, ConversationId, TaskId, Timestamp};

/// Default page size.
const PAGE_DEFAULT: u32 = 50;
/// Tasks that one call reads when it filters by status; later ones are on the next page, and not counted yet.
const READ_MAX: u32 = 1_000;
/// Tasks per read of the ledger.
const READ_ONCE: u32 = 100;

/// The position of a task in the list.
type ListPosition = (Timestamp, TaskId);

/// One page.
#[derive(Default)]
struct ListPage {
    views: Vec<TaskSnapshot>,
    next: String,
    total: u64,
}

pub(super) async fn list<D: BridgeService>(
    call: &A2aCall<D>,
    request: ListTasksRequest,
) -> Result<ListTasksResponse, A2aError> {
    let size = request.page_size.map_or(PAGE_DEFAULT, i32::unsigned_abs);
    let (before, counted) = match request.page_token.as_deref() {
        None | Some("") => (None, 0),
        Some(token) => {
            let (place, counted) = read_token(token)?;
            (Some(place), counted)
        }
    };
    let mut query = TaskQuery {
        owner: call.caller.name.clone(),
        conversation: None,
        since: request
            .status_timestamp_after
            .map(|at| Timestamp(at.timestamp_millis())),
        before,
        limit: size,
    };
    let context = request.context_id.filter(|context| !context.is_empty());
    let talk = context.map(|context| call.context.service.talk(&call.caller, &context));
    let status = request
        .status
        .filter(|status| *status != TaskState::Unspecified);
    let service = &call.context.service;
    let known = match talk {
        Some(talk) => {
            query.conversation = conversation(service, talk).await?;
            query.conversation.is_some()
        }
        None => true,
    };
    let page = match status {
        _ if !known => ListPage::default(),
        Some(status) => filtered(service, query, status, counted).await?,
        None => service.read(move |rows| plain(rows, &query)).await?,
    };
    let detail = Detail {
        history: request.history_length,
        artifacts: request.include_artifacts == Some(true),
    };
    let mut tasks = Vec::with_capacity(page.views.len());
    for view in &page.views {
        tasks.push(task::task(service, &call.base, view, detail).await);
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.status.timestamp));
    Ok(ListTasksResponse {
        tasks,
        next_page_token: page.next,
        page_size: i32::try_from(size).unwrap_or(i32::MAX),
        total_size: i32::try_from(page.total).unwrap_or(i32::MAX),
    })
}

/// The conversation of a context, if there is one.
async fn conversation<D: BridgeService>(
    service: &D,
    (channel, key): (ChannelId, String),
) -> Result<Option<ConversationId>, A2aError> {
    let read = move |rows: &dyn Read| rows.conversation_by_key(&channel, &key);
    let found = service.read(read).await?;
    Ok(found.map(|conversation| conversation.conversation_id))
}

fn plain(rows: &dyn Read, query: &TaskQuery) -> Result<ListPage, RowsError> {
    let one_more = TaskQuery {
        limit: query.limit.saturating_add(1),
        ..query.clone()
    };
    let mut found = rows.agent_tasks(&one_more)?;
    let size = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let more = found.len() > size;
    found.truncate(size);
    let last = found.last().filter(|_| more);
    let next = last.map_or_else(String::new, |(task, at)| token(*at, &task.task_id));
    let mut views = Vec::with_capacity(found.len());
    for (task, _) in &found {
        views.extend(readable(TaskSnapshot::load(rows, &task.task_id))?.flatten());
    }
    Ok(ListPage {
        views,
        next,
        total: rows.agent_tasks_count(query)?,
    })
}

/// A page of tasks with this status, in several reads, so that others can use the ledger in between.
async fn filtered<D: BridgeService>(
    service: &D,
    mut query: TaskQuery,
    status: TaskState,
    counted: u64,
) -> Result<ListPage, A2aError> {
    let size = usize::try_from(query.limit).unwrap_or(usize::MAX);
    query.limit = READ_ONCE;
    let (mut views, mut total, mut looked): (Vec<TaskSnapshot>, u64, u32) =
        (Vec::new(), counted, 0);
    let mut end = None;
    loop {
        let (behind, wanted) = (query.clone(), status.clone());
        let room = size.saturating_sub(views.len());
        let look = service
            .read(move |rows| look(rows, &behind, &wanted, room))
            .await?;
        end = look.end.or(end);
        views.extend(look.views);
        total = total.saturating_add(look.fit);
        looked = looked.saturating_add(READ_ONCE);
        let listed = counted.saturating_add(u64::try_from(views.len()).unwrap_or(u64::MAX));
        let next = match (look.last, &end) {
            // There are no more.
            (None, Some(end)) if total > listed => Some(end.clone()),
            (None, _) => None,
            (Some(_), Some(end)) if looked >= READ_MAX && views.len() >= size => Some(end.clone()),
            (Some(last), _) if looked >= READ_MAX => Some(last),
            (Some(last), _) => {
                query.before = Some(last);
                continue;
            }
        };
        let next = next.map_or_else(String::new, |(at, id)| {
            format!("{}~{listed}", token(at, &id))
        });
        return Ok(ListPage { views, next, total });
    }
}

/// Result of one read.
struct ListRead {
    /// Tasks with the status, as many as there is room for.
    views: Vec<TaskSnapshot>,
    /// Number of tasks with the status.
    fit: u64,
    /// The place of the last one in `views`.
    end: Option<ListPosition>,
    /// The place of the last task that was read; `None` if there are no more.
    last: Option<ListPosition>,
}

fn look(
    rows: &dyn Read,
    query: &TaskQuery,
    status: &TaskState,
    room: usize,
) -> Result<ListRead, RowsError> {
    let found = rows.agent_tasks(query)?;
    let more = found.len() >= usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut look = ListRead {
        views: Vec::new(),
        fit: 0,
        end: None,
        last: None,
    };
    for (task, at) in found {
        let place = (at, task.task_id);
        let view = readable(TaskSnapshot::load(rows, &place.1))?.flatten();
        look.last = Some(place.clone()).filter(|_| more);
        let Some(view) = view.filter(|view| task::state(view.now().state) == *status) else {
            continue;
        };
        look.fit += 1;
        if look.views.len() < room {
            look.views.push(view);
            look.end = Some(place);
        }
    }
    Ok(look)
}

/// The token of the page after this task.
fn token(at: Timestamp, id: &TaskId) -> String {
    format!("{}~{id}", at.0)
}

/// The place, and how many tasks were listed before it, where that is known.
fn read_token(token: &str) -> Result<(ListPosition, u64), A2aError> {
    let read = || {
        let mut words = token.split('~');
        let (at, id) = (words.next()?.parse().ok()?, words.next()?);
        let listed = match words.next() {
            Some(listed) => listed.parse::<u32>().ok()?,
            None => 0,
        };
        let place = (Timestamp(at), TaskId::new(id));
        words.next().is_none().then_some((place, u64::from(listed)))
    };
    read().ok_or_else(|| A2aError::invalid("pageToken", "is none that this server gave"))
}
