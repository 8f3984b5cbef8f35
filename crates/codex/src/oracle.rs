//! Reads a thread's history: what became of the message with client id C after turn L.
//!
//! Pure, and only as good as its input: the turns must come from a process that holds the
//! thread's writer (a reader without it is told `interrupted` of a running turn), oldest first,
//! with all items. Whether to run again, harvest or ask is decided elsewhere.

use crate::answer::{AgentText, Candidates};
use crate::turn::MAX_RECEIVED;
use crate::wire::Turn;
use crate::wire::ids::{ClientId, TurnId};
use crate::wire::item::Item;
use crate::wire::turn::TurnError;
use crate::wire::values::TurnStatus;

/// Most headlines of effects that are listed; the count goes on.
pub const MAX_LISTED_EFFECTS: usize = 20;

/// Most foreign turns that are named; a person only needs to see that there are some.
pub const MAX_LISTED_TURNS: usize = 20;

/// What the history says.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The message is in the history: Codex took it.
    Ours(Box<OurTurn>),
    /// A turn is just beginning and has no message yet: look again. It may be ours.
    Beginning { turn_id: TurnId },
    /// Nothing but turns that were cut before any message was written: the model was never called.
    Absent { empty_turns: usize },
    /// Somebody else used the thread since.
    Foreign { turn_ids: Vec<TurnId> },
    /// A turn came without all its items, so nothing follows from what is missing: ask again with
    /// `itemsView: full`.
    Unloaded { turn_id: TurnId },
    /// Turn L is not among these turns: ask for more pages, or the history is not the one we knew.
    NoAnchor,
}

/// The turn that holds our message.
#[derive(Debug, Clone, PartialEq)]
pub struct OurTurn {
    pub turn_id: TurnId,
    /// False when the message was steered into a turn that another one opened.
    pub opened_by_us: bool,
    pub state: OurState,
    pub effects: Effects,
    /// Client ids of the user messages that Codex took into the turn, in order, at most [`MAX_RECEIVED`].
    pub received: Vec<ClientId>,
    /// A message of Codex is there in a form we can't read, so a missing answer proves nothing.
    pub unread: bool,
}

/// How our turn stands.
#[derive(Debug, Clone, PartialEq)]
pub enum OurState {
    InProgress,
    Completed {
        answer: Option<AgentText>,
    },
    /// Interrupted or failed. A `final_answer` is whole and can be harvested.
    Cut {
        failed: bool,
        error: Option<TurnError>,
        final_answer: Option<AgentText>,
    },
    /// A status we have no name for: a person must look.
    Unclear {
        status: String,
    },
}

/// Items that may have touched the world. Absent ones prove nothing: items seen live were missing
/// on disk after a kill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    pub count: usize,
    /// The first of them, in a person's words.
    pub headlines: Vec<String>,
}

/// Looks for `client_id` in `turns` (oldest first). `after` is the last turn known before the
/// message was sent; `None` means that the thread was new.
pub fn history(turns: &[Turn], client_id: &ClientId, after: Option<&TurnId>) -> Found {
    if let Some(ours) = find_ours(turns, client_id) {
        if !ours.has_all_items() {
            return unloaded(ours);
        }
        return Found::Ours(Box::new(our_turn(ours, client_id)));
    }
    match after_anchor(turns, after) {
        Some(later) => absent(later),
        None => Found::NoAnchor,
    }
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

fn absent(later: &[Turn]) -> Found {
    if let Some(turn) = later.iter().find(|turn| !turn.has_all_items()) {
        return unloaded(turn);
    }
    let foreign: Vec<TurnId> = later
        .iter()
        .filter(|turn| !turn.items.is_empty() || !is_open_or_cut(&turn.status))
        .map(|turn| turn.id.clone())
        .take(MAX_LISTED_TURNS)
        .collect();
    if !foreign.is_empty() {
        return Found::Foreign { turn_ids: foreign };
    }
    match later
        .iter()
        .find(|turn| turn.status == TurnStatus::InProgress)
    {
        Some(turn) => Found::Beginning {
            turn_id: turn.id.clone(),
        },
        None => Found::Absent {
            empty_turns: later.len(),
        },
    }
}

fn unloaded(turn: &Turn) -> Found {
    Found::Unloaded {
        turn_id: turn.id.clone(),
    }
}

/// An empty turn in one of these states says nothing about whose it was.
fn is_open_or_cut(status: &TurnStatus) -> bool {
    match status {
        TurnStatus::InProgress | TurnStatus::Interrupted => true,
        TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Other(_) => false,
    }
}

fn our_turn(turn: &Turn, client_id: &ClientId) -> OurTurn {
    OurTurn {
        opened_by_us: turn.client_ids().next() == Some(Some(client_id)),
        ..of_turn(turn)
    }
}

/// What a turn says of itself, for whoever knows by other means that it is theirs: `codex exec` takes no client id.
pub fn of_turn(turn: &Turn) -> OurTurn {
    OurTurn {
        turn_id: turn.id.clone(),
        opened_by_us: true,
        state: our_state(turn),
        effects: effects(turn),
        received: turn
            .client_ids()
            .flatten()
            .take(MAX_RECEIVED)
            .cloned()
            .collect(),
        unread: turn.items.iter().any(Item::is_unread_message),
    }
}

fn our_state(turn: &Turn) -> OurState {
    let answer = answer(turn);
    let cut = |failed| OurState::Cut {
        failed,
        error: turn.error.clone(),
        final_answer: answer.clone(),
    };
    match &turn.status {
        TurnStatus::InProgress => OurState::InProgress,
        TurnStatus::Completed => OurState::Completed { answer },
        TurnStatus::Interrupted => cut(false),
        TurnStatus::Failed => cut(true),
        TurnStatus::Other(status) => OurState::Unclear {
            status: status.clone(),
        },
    }
}

fn answer(turn: &Turn) -> Option<AgentText> {
    let mut candidates = Candidates::default();
    for item in &turn.items {
        candidates.consider(item);
    }
    candidates.pick(&turn.status)
}

fn effects(turn: &Turn) -> Effects {
    let mut effects = Effects::default();
    for item in turn.items.iter().filter(|item| item.is_effect()) {
        effects.count += 1;
        if effects.headlines.len() < MAX_LISTED_EFFECTS {
            effects.headlines.push(item.headline());
        }
    }
    effects
}

#[cfg(test)]
mod tests;
