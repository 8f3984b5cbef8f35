//! Looks up a lost turn in Codex's history while holding the thread's writer lock.
//!
//! The core's reconcile decides about the message.

use crate::app_server::Session;
use crate::error::{CallEffect, agent_error, of_call};
use crate::thread::operator_config::OperatorConfig;
use crate::thread::permissions::ReportedPermissions;
use crate::thread::release::resume;
use crate::thread::settings;
use crate::turn::mailbox::Mailbox;
use bridge_codex::oracle::{self, HistoryError, Wanted};
use bridge_codex::wire::Turn as WireTurn;
use bridge_codex::wire::method::ThreadTurnsList;
use bridge_codex::wire::thread::{
    Thread, ThreadResumeParams, ThreadTurnsListParams, TurnsPageParams,
};
use bridge_codex::wire::values::{ItemsView, SortDirection};
use bridge_core::port::{AgentError, LostTurn, ThreadFailure, TurnHistory, TurnStatus};
use bridge_core::value::{Class, ThreadId, TurnId};
use std::time::Duration;

/// Turns of a thread's history that are read at once. All their items come with them, so the page is small.
pub(crate) const HISTORY_PAGE: u32 = 5;
/// Pages that are looked at before the history counts as unreadable.
const HISTORY_PAGES_MAX: usize = 40;

/// What to do about a history that can't be understood.
const OTHER_CODEX: &str =
    "use a Codex that `codex-bridge doctor` passes, or a newer codex-bridge, and it is read again";

/// Stands for the effects of a turn whose thread does not keep them: none listed proves nothing there.
const UNLISTED: &str = "what it ran is not in this thread's history";

/// Pauses between looks at a turn that the living process may not have written down yet. Measured on 0.166: a
/// turn that is just ending is listed as `interrupted` until its end is on disk.
const SETTLE_PAUSES: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

/// Looks until the answer can be believed: the process that runs the turn writes its history behind the event.
pub(crate) async fn settled_history(
    session: &Session,
    lost: &LostTurn,
    operator: &OperatorConfig,
    mailbox: &Mailbox,
) -> Result<TurnHistory, AgentError> {
    let same_life = session.incarnation.incarnation_id == lost.incarnation;
    let mut pauses = SETTLE_PAUSES.iter().filter(|_| same_life);
    loop {
        let found = match history(session, lost, operator, mailbox).await {
            Ok(found) => found,
            Err(error) => lost_thread(error, lost.after_turn.as_ref())?,
        };
        match (may_change(&found), pauses.next()) {
            (true, Some(pause)) => tokio::time::sleep(*pause).await,
            (true, None) | (false, _) => return Ok(found),
        }
    }
}

/// Whether a living process may still turn this into something else.
fn may_change(found: &TurnHistory) -> bool {
    match found {
        TurnHistory::Turn(turn) => turn.status == TurnStatus::Interrupted,
        TurnHistory::Absent => true,
        TurnHistory::Foreign | TurnHistory::Unreadable { .. } => false,
    }
}

/// Takes the writer lock, then reads: Codex reports a running turn as interrupted to any other reader.
async fn history(
    session: &Session,
    lost: &LostTurn,
    operator: &OperatorConfig,
    mailbox: &Mailbox,
) -> Result<TurnHistory, AgentError> {
    let thread = lost.turn.thread.clone();
    let spec = &lost.turn.spec;
    let settings = settings(spec, &session.isolation, operator);
    let params = ThreadResumeParams::with_newest_turns(thread.clone(), settings, HISTORY_PAGE);
    let resumed = resume(session, params).await?;
    if resumed.initial_turns_page.is_none() {
        return Ok(unreadable(
            "this Codex does not show it when a thread is resumed",
        ));
    }
    let (opened, mut turns) = resumed.into_parts(&SortDirection::Descending);
    let threads = &session.connection.threads;
    threads.reported(&thread, &opened.thread.status);
    mailbox.compare(ReportedPermissions::from(&opened));
    mailbox.recall(&turns);
    let listed = Listed::of(&opened.thread);
    let wanted = Wanted {
        client_id: &lost.turn.client_id,
        turn_id: lost.turn_id.as_ref(),
        after: lost.after_turn.as_ref(),
    };
    let mut cursor = None;
    for _ in 0..HISTORY_PAGES_MAX {
        let found = oracle::history(&turns, wanted);
        if found != Err(HistoryError::NoAnchor) {
            return Ok(listed.mark(believed(found)?));
        }
        let page = older(session, thread.clone(), cursor.take()).await?;
        let Some((older, next)) = page else {
            return believed(found);
        };
        cursor = next;
        // Pages overlap where the first one repeats what resume returned.
        let known: Vec<_> = turns.iter().map(|turn| turn.id.clone()).collect();
        let mut all: Vec<_> = older
            .into_iter()
            .filter(|turn| !known.contains(&turn.id))
            .collect();
        all.append(&mut turns);
        turns = all;
        if cursor.is_none() {
            let found = oracle::history(&turns, wanted);
            return Ok(listed.mark(believed(found)?));
        }
    }
    Ok(unreadable("it is too long to be searched"))
}

/// One page of older turns, oldest first, and where the next one begins.
pub(crate) async fn older(
    session: &Session,
    thread_id: ThreadId,
    cursor: Option<String>,
) -> Result<Option<(Vec<WireTurn>, Option<String>)>, AgentError> {
    let params = ThreadTurnsListParams {
        thread_id,
        cursor,
        page: TurnsPageParams {
            items_view: ItemsView::Full,
            limit: HISTORY_PAGE,
            sort_direction: SortDirection::Descending,
        },
    };
    let page = session
        .connection
        .call::<ThreadTurnsList>(params)
        .await
        .map_err(|error| of_call(&error, CallEffect::Repeatable))?;
    if page.data.is_empty() {
        return Ok(None);
    }
    let next = page.next_cursor.clone();
    Ok(Some((
        page.into_oldest_first(&SortDirection::Descending),
        next,
    )))
}

/// Codex's id of the newest turn of a thread, where that can be read.
pub(crate) async fn newest(session: &Session, thread: ThreadId) -> Option<TurnId> {
    let (turns, _) = older(session, thread, None).await.ok()??;
    Some(turns.last()?.id.clone())
}

pub(crate) fn unreadable(why: &str) -> TurnHistory {
    TurnHistory::Unreadable {
        why: why.to_owned(),
    }
}

/// The finding for a thread that can't be loaded. Before its first turn a thread has no record.
fn lost_thread(error: AgentError, after_turn: Option<&TurnId>) -> Result<TurnHistory, AgentError> {
    match (error.thread, after_turn) {
        (None, _) => Err(error),
        (Some(ThreadFailure::Missing), None) => Ok(TurnHistory::Absent),
        (Some(_), _) => Ok(unreadable(&error.failure.reason)),
    }
}

/// Which effects of a turn its thread's history lists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed {
    All,
    /// Commands are missing, so a turn without effects may have had some.
    Some,
}

impl Listed {
    pub(crate) fn of(thread: &Thread) -> Self {
        if thread.keeps_all_items() {
            Self::All
        } else {
            Self::Some
        }
    }

    /// A turn that may have had effects that are not listed counts as one that had some.
    pub(crate) fn mark(self, mut found: TurnHistory) -> TurnHistory {
        if let (Self::Some, TurnHistory::Turn(turn)) = (self, &mut found)
            && turn.effects.is_empty()
        {
            turn.effects.push(UNLISTED.to_owned());
        }
        found
    }
}

/// Turns a history without a finding into an unreadable one or an error.
pub(crate) fn believed(
    found: Result<TurnHistory, HistoryError>,
) -> Result<TurnHistory, AgentError> {
    let what = match found {
        Ok(found) => return Ok(found),
        Err(error @ HistoryError::NoAnchor) => return Ok(unreadable(&error.to_string())),
        Err(HistoryError::UnreadableAnswer) => {
            "Codex has answered in a form this bridge does not know, so the answer can't be read"
                .to_owned()
        }
        Err(error @ (HistoryError::UnknownStatus(_) | HistoryError::NoMarks)) => {
            format!("Codex's history does not tell this bridge what became of the turn ({error})")
        }
    };
    // Running it again would end the same way, or do everything twice.
    let reason = format!("{what}: {OTHER_CODEX}; what it did is kept in Codex's thread");
    Err(agent_error(Class::Config, reason))
}
