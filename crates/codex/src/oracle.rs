//! Finds a message in a thread's history after a crash: the turn with client id C after turn L.
//!
//! Pure, and only as good as its input: the turns must come from a process that holds the thread's writer (Codex reports
//! a running turn as `interrupted` to any other reader), oldest first, with all items. Missing effects prove nothing:
//! items that were seen live were missing on disk after a kill. Whether to run again, harvest or ask is decided elsewhere.

use crate::answer::Candidates;
use crate::turn::MAX_RECEIVED;
use crate::wire::Turn;
use crate::wire::item::Item;
use crate::wire::values::TurnStatus;
use bridge_core::port::{self, RecordedTurn, TurnHistory};
use bridge_core::value::{ClientId, TurnId};
use thiserror::Error;

/// Most headlines of effects that are listed.
pub const MAX_LISTED_EFFECTS: usize = 20;

/// Why nothing follows from a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// Read older pages; if there are none, this is not the history that we knew.
    #[error("the last turn known is not in it")]
    NoAnchor,
    #[error("it has an answer in an unknown form")]
    UnreadableAnswer,
}

/// Looks for `client_id` in `turns` (oldest first). `after` is the last turn known before the
/// message was sent; `None` means that the thread was new.
pub fn history(
    turns: &[Turn],
    client_id: &ClientId,
    after: Option<&TurnId>,
) -> Result<TurnHistory, HistoryError> {
    if let Some(ours) = find_ours(turns, client_id) {
        if !ours.has_all_items() {
            return Ok(unloaded());
        }
        return of_turn(ours);
    }
    let later = after_anchor(turns, after).ok_or(HistoryError::NoAnchor)?;
    Ok(absent(later))
}

/// A client id is sent once per attempt, so more than one match is not expected; if it happens, an
/// answer that exists wins, else the latest.
fn find_ours<'a>(turns: &'a [Turn], client_id: &ClientId) -> Option<&'a Turn> {
    let mine = |turn: &&Turn| turn.client_ids().any(|id| id == Some(client_id));
    turns
        .iter()
        .rev()
        .filter(mine)
        .find(|turn| turn.status == TurnStatus::Completed)
        .or_else(|| turns.iter().rev().find(mine))
}

fn after_anchor<'a>(turns: &'a [Turn], after: Option<&TurnId>) -> Option<&'a [Turn]> {
    let Some(after) = after else {
        return Some(turns);
    };
    let anchor = turns.iter().position(|turn| turn.id == *after)?;
    turns.get(anchor + 1..)
}

/// Without our message: a turn that is just beginning may be ours and has no message yet; turns that were cut before
/// any message was written never called the model; all others belong to somebody else.
fn absent(later: &[Turn]) -> TurnHistory {
    if !later.iter().all(Turn::has_all_items) {
        return unloaded();
    }
    let is_foreign = |turn: &Turn| !turn.items.is_empty() || !is_open_or_cut(&turn.status);
    if later.iter().any(is_foreign) {
        return TurnHistory::Foreign;
    }
    let beginning = |turn: &&Turn| turn.status == TurnStatus::InProgress;
    match later.iter().find(beginning) {
        Some(turn) => TurnHistory::Turn(RecordedTurn {
            turn_id: turn.id.clone(),
            status: port::TurnStatus::InProgress,
            answer: None,
            effects: Vec::new(),
            received: Vec::new(),
            failure: None,
        }),
        None => TurnHistory::Absent,
    }
}

/// Nothing follows from items that are missing; `itemsView: full` gives all.
fn unloaded() -> TurnHistory {
    TurnHistory::Unreadable {
        why: "Codex did not give all its items".to_owned(),
    }
}

/// An empty turn in one of these states says nothing about whose it was.
fn is_open_or_cut(status: &TurnStatus) -> bool {
    match status {
        TurnStatus::InProgress | TurnStatus::Interrupted => true,
        TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Other(_) => false,
    }
}

/// The finding for a turn that is known to be ours by other means: `codex exec` takes no client id.
pub fn of_turn(turn: &Turn) -> Result<TurnHistory, HistoryError> {
    let status = match &turn.status {
        TurnStatus::InProgress => port::TurnStatus::InProgress,
        TurnStatus::Completed => port::TurnStatus::Completed,
        TurnStatus::Interrupted => port::TurnStatus::Interrupted,
        TurnStatus::Failed => port::TurnStatus::Failed,
        TurnStatus::Other(status) => {
            let why = format!("its status `{status}` is unknown");
            return Ok(TurnHistory::Unreadable { why });
        }
    };
    let is_cut = matches!(turn.status, TurnStatus::Interrupted | TurnStatus::Failed);
    let answer = answer(turn).filter(|_| status != port::TurnStatus::InProgress);
    let is_unread = turn.items.iter().any(Item::is_unread_message);
    if is_unread && answer.is_none() && status == port::TurnStatus::Completed {
        return Err(HistoryError::UnreadableAnswer);
    }
    let effects = turn.items.iter().filter(|item| item.is_effect());
    let received = turn.client_ids().flatten();
    let error = turn.error.as_ref().filter(|_| is_cut);
    Ok(TurnHistory::Turn(RecordedTurn {
        turn_id: turn.id.clone(),
        status,
        answer,
        effects: effects
            .map(Item::headline)
            .take(MAX_LISTED_EFFECTS)
            .collect(),
        received: received.take(MAX_RECEIVED).cloned().collect(),
        failure: error.map(|error| error.failure(None)),
    }))
}

fn answer(turn: &Turn) -> Option<String> {
    let mut candidates = Candidates::default();
    for item in &turn.items {
        candidates.consider(item);
    }
    candidates.pick(&turn.status)
}

#[cfg(test)]
mod tests;
