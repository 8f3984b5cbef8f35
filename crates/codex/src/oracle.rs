//! Finds a message in a thread's history after a crash, after the last turn known before it. Two marks name its turn,
//! and either will do: the client id of the message, and the id that Codex gave the turn.
//!
//! Pure, and only as good as its input: the turns must come from a process that holds the thread's writer (Codex reports
//! a running turn as `interrupted` to any other reader), oldest first, with all items. Missing effects prove nothing:
//! items that were seen live were missing on disk after a kill. Whether to run again, harvest or ask is decided elsewhere.

use crate::answer::AnswerCandidates;
use crate::turn::MAX_RECEIVED;
use crate::wire::Turn;
use crate::wire::item::{Item, MessageMark};
use crate::wire::values::TurnStatus;
use bridge_core::port::{self, RecordedTurn, TurnHistory};
use bridge_core::value::{ClientId, TurnId};
use thiserror::Error;

/// Most headlines of effects that are listed.
pub const MAX_LISTED_EFFECTS: usize = 20;

/// A message that is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub client_id: &'a ClientId,
    /// Codex's id of its turn, where that was learned.
    pub turn_id: Option<&'a TurnId>,
    /// The last turn known before the message was sent, one of ours; `None` means that the thread was new.
    pub after: Option<&'a TurnId>,
}

/// Why nothing follows from a history.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// Read older pages; if there are none, this is not the history that we knew.
    #[error("the last turn known is not in it")]
    NoAnchor,
    #[error("it has an answer in an unknown form")]
    UnreadableAnswer,
    /// Whether the turn has ended, and how, is not known.
    #[error("its status `{0}` is unknown")]
    UnknownStatus(String),
    /// What looks like somebody else's may be ours.
    #[error("it does not say whose the messages in it are")]
    NoMarks,
}

/// Looks for a message in `turns`, oldest first.
pub fn history(turns: &[Turn], wanted: Wanted<'_>) -> Result<TurnHistory, HistoryError> {
    let named = find_named(turns, wanted.client_id);
    if let Some(ours) = named.or_else(|| find_turn(turns, wanted.turn_id)) {
        if !ours.has_all_items() {
            return Ok(unloaded());
        }
        let found = of_turn(ours)?;
        return match named {
            Some(_) => Ok(found),
            None => with_ours(found, ours, wanted.client_id),
        };
    }
    let later = after_anchor(turns, wanted.after).ok_or(HistoryError::NoAnchor)?;
    match absent(later) {
        TurnHistory::Foreign if !marks_are_known(turns, later, wanted.after) => {
            Err(HistoryError::NoMarks)
        }
        found => Ok(found),
    }
}

/// A client id is sent once per attempt, so more than one match is not expected; if it happens, an
/// answer that exists wins, else the latest.
fn find_named<'a>(turns: &'a [Turn], client_id: &ClientId) -> Option<&'a Turn> {
    let mine = |turn: &&Turn| turn.client_ids().any(|id| id == client_id);
    turns
        .iter()
        .rev()
        .filter(mine)
        .find(|turn| turn.status == TurnStatus::Completed)
        .or_else(|| turns.iter().rev().find(mine))
}

fn find_turn<'a>(turns: &'a [Turn], turn_id: Option<&TurnId>) -> Option<&'a Turn> {
    turns.iter().find(|turn| Some(&turn.id) == turn_id)
}

/// A turn that is ours by its id has our message, though it does not say so. Which others it was given can't be told
/// where more than one message has no mark.
fn with_ours(
    mut found: TurnHistory,
    ours: &Turn,
    client_id: &ClientId,
) -> Result<TurnHistory, HistoryError> {
    let unmarked = ours.marks().filter(|mark| **mark == MessageMark::Missing);
    if unmarked.count() > 1 {
        return Err(HistoryError::NoMarks);
    }
    if let TurnHistory::Turn(turn) = &mut found {
        turn.received.insert(0, client_id.clone());
    }
    Ok(found)
}

/// Whether a message of ours would be recognized here: Codex says of each whose it is, and our last turn, where it is
/// shown, has a name that we gave.
fn marks_are_known(turns: &[Turn], later: &[Turn], after: Option<&TurnId>) -> bool {
    let missing = |mark: &MessageMark| *mark == MessageMark::Missing;
    if later.iter().flat_map(Turn::marks).any(missing) {
        return false;
    }
    find_turn(turns, after)
        .is_none_or(|anchor| anchor.marks().count() == 0 || anchor.client_ids().next().is_some())
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
    let answer = answer(turn);
    let status = match &turn.status {
        TurnStatus::InProgress => port::TurnStatus::InProgress,
        TurnStatus::Completed => port::TurnStatus::Completed,
        TurnStatus::Interrupted => port::TurnStatus::Interrupted,
        TurnStatus::Failed => port::TurnStatus::Failed,
        // Its last word was said, whatever it is called to have ended so.
        TurnStatus::Other(_) if answer.is_some() => port::TurnStatus::Completed,
        TurnStatus::Other(status) => return Err(HistoryError::UnknownStatus(status.clone())),
    };
    let is_cut = matches!(turn.status, TurnStatus::Interrupted | TurnStatus::Failed);
    let answer = answer.filter(|_| status != port::TurnStatus::InProgress);
    let is_unread = turn.items.iter().any(Item::may_be_message);
    if is_unread && answer.is_none() && status == port::TurnStatus::Completed {
        return Err(HistoryError::UnreadableAnswer);
    }
    let effects = turn.items.iter().filter(|item| item.is_effect());
    let received = turn.client_ids();
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
    let mut candidates = AnswerCandidates::default();
    for item in &turn.items {
        candidates.consider(item);
    }
    candidates.pick(&turn.status)
}

#[cfg(test)]
mod tests;
