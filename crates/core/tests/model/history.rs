//! What Codex's history says of a turn that was lost from sight.

use crate::codex::{Codex, CodexTurn, Lost, Stage, Thread, Why, number, turn_id};
use crate::setup::{Mutant, Setup};
use bridge_core::port::{RecordedTurn, TurnHistory, TurnStatus};
use bridge_core::value::{ClientId, Turn};

/// What a look saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Turn {
        turn: u8,
        status: TurnStatus,
        said: bool,
        noted: bool,
        why: Why,
    },
    Absent,
    Foreign,
    Unreadable,
}

impl Seen {
    pub(crate) fn found(self, received: Vec<ClientId>) -> TurnHistory {
        match self {
            Self::Turn {
                turn,
                status,
                said,
                noted,
                why,
            } => TurnHistory::Turn(RecordedTurn {
                turn_id: turn_id(turn),
                status,
                answer: said.then(|| "the answer".to_owned()),
                effects: noted.then(|| "rm".to_owned()).into_iter().collect(),
                received,
                failure: (status == TurnStatus::Failed).then(|| why.failure()),
            }),
            Self::Absent => TurnHistory::Absent,
            Self::Foreign => TurnHistory::Foreign,
            Self::Unreadable => TurnHistory::Unreadable {
                why: "no record".to_owned(),
            },
        }
    }

    pub(crate) fn turn(self) -> Option<u8> {
        match self {
            Self::Turn { turn, .. } => Some(turn),
            Self::Absent | Self::Foreign | Self::Unreadable => None,
        }
    }
}

impl Codex {
    /// What the history says about a lost turn; nothing while it must be waited for.
    pub(crate) fn look(&self, lost: &Turn, message: u8, setup: &Setup) -> Option<Seen> {
        let ours = (0_u8..)
            .zip(&self.turns)
            .find(|(_, turn)| turn.message == message && u32::from(turn.attempt) == lost.attempt);
        match ours {
            Some((_, turn)) if turn.live() && turn.stage == Stage::Asked => {
                setup.has(Mutant::HastyLook).then_some(Seen::Absent)
            }
            Some((at, turn)) if turn.live() || turn.kept() => Some(finding(at, turn)),
            Some(_) | None => Some(self.without_ours(lost)),
        }
    }

    fn without_ours(&self, lost: &Turn) -> Seen {
        let thread = number(lost.thread.as_str());
        let after = lost.after_turn.as_ref().map(|id| number(id.as_str()));
        let in_history = |turn: &CodexTurn| turn.thread == thread && turn.kept();
        match (self.thread(thread), after) {
            (Thread::Missing, None) => Seen::Absent,
            (Thread::Missing, Some(_)) => Seen::Unreadable,
            (Thread::Loaded | Thread::Recorded, Some(anchor)) if !in_history(self.turn(anchor)) => {
                Seen::Unreadable
            }
            (Thread::Loaded | Thread::Recorded, after) => {
                let later = after.map_or(0, |anchor| usize::from(anchor) + 1);
                if self.turns.iter().skip(later).any(in_history) {
                    Seen::Foreign
                } else {
                    Seen::Absent
                }
            }
        }
    }
}

fn finding(at: u8, turn: &CodexTurn) -> Seen {
    let whole = turn.lost == Lost::Nothing;
    let status = match turn.stage {
        Stage::Completed if whole => TurnStatus::Completed,
        Stage::Failed if whole => TurnStatus::Failed,
        Stage::Completed | Stage::Failed => TurnStatus::Interrupted,
        Stage::Asked
        | Stage::Named
        | Stage::Kept
        | Stage::Called
        | Stage::Touched
        | Stage::Noted
        | Stage::Said => {
            if turn.live() {
                TurnStatus::InProgress
            } else {
                TurnStatus::Interrupted
            }
        }
    };
    Seen::Turn {
        turn: at,
        status,
        said: whole
            && matches!(turn.stage, Stage::Said | Stage::Completed)
            && status != TurnStatus::InProgress,
        noted: whole && turn.touched && turn.stage >= Stage::Noted,
        why: turn.why,
    }
}
