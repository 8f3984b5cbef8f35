//! Codex as the model sees it: threads that are on disk from their first message on, and turns that go through
//! their sub-steps one at a time and can be cut after any of them.
//!
//! It trusts what was measured: a message is on disk before the model is called, and a look at a living Codex
//! waits until the history has caught up. What a finding means is decided in the core.

use crate::setup::{Faults, Mutant, Setup};
use bridge_core::port::{Finding, Found, TurnStatus};
use bridge_core::value::{ThreadId, Turn, TurnId};

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The request is with Codex, and nothing came of it yet.
    Asked,
    /// The turn has an id, and nothing of it is on disk.
    Named,
    /// Its message is on disk.
    Kept,
    /// The model was called.
    Called,
    /// The world was touched, and the disk does not know.
    Touched,
    /// The effect's item is on disk.
    Noted,
    /// The final answer is on disk.
    Said,
    /// It failed by itself.
    Failed,
    /// It completed.
    Completed,
}

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodexTurn {
    /// The message and the attempt that are its client id.
    pub(crate) message: u8,
    pub(crate) attempt: u8,
    pub(crate) thread: u8,
    /// It was asked to go on after a cut: it looks first, and does not repeat what is done.
    pub(crate) continues: bool,
    pub(crate) stage: Stage,
    pub(crate) touched: bool,
    /// It was interrupted on request.
    pub(crate) cut: bool,
    /// The process that ran it is gone.
    pub(crate) gone: bool,
}

impl CodexTurn {
    pub(crate) fn live(&self) -> bool {
        !self.gone && !self.cut && self.stage < Stage::Failed
    }

    fn kept(&self) -> bool {
        self.stage >= Stage::Kept
    }
}

/// What a look saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Turn {
        turn: u8,
        status: TurnStatus,
        said: bool,
        noted: bool,
    },
    Absent,
    Foreign,
    Unreadable,
}

impl Seen {
    pub(crate) fn found(self) -> Found {
        match self {
            Self::Turn {
                turn,
                status,
                said,
                noted,
            } => Found::Turn(Finding {
                turn_id: turn_id(turn),
                status,
                answer: said.then(|| "the answer".to_owned()),
                effects: noted.then(|| "rm".to_owned()).into_iter().collect(),
                failure: None,
            }),
            Self::Absent => Found::Absent,
            Self::Foreign => Found::Foreign,
            Self::Unreadable => Found::Unreadable {
                why: "no record".to_owned(),
            },
        }
    }

    pub(crate) fn running(self) -> Option<u8> {
        match self {
            Self::Turn {
                turn,
                status: TurnStatus::InProgress,
                ..
            } => Some(turn),
            Self::Turn { .. } | Self::Absent | Self::Foreign | Self::Unreadable => None,
        }
    }
}

pub(crate) fn turn_id(turn: u8) -> TurnId {
    TurnId::new(format!("u{turn}"))
}

pub(crate) fn thread_id(thread: u8) -> ThreadId {
    ThreadId::new(format!("t{thread}"))
}

/// The number in an id of this model.
pub(crate) fn number(id: &str) -> u8 {
    id.get(1..).and_then(|digits| digits.parse().ok()).unwrap()
}

/// All of Codex.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codex {
    /// Counts processes.
    pub(crate) life: u8,
    pub(crate) threads: Vec<Thread>,
    pub(crate) turns: Vec<CodexTurn>,
    /// How often each message touched the world.
    pub(crate) effects: [u8; 2],
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// In the memory of the process only.
    Loaded,
    /// On disk.
    Recorded,
    /// The process died before anything of it was on disk.
    Missing,
}

/// What a sub-step did that an invariant wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    CalledModel,
    Other,
}

impl Codex {
    pub(crate) fn turn(&self, turn: u8) -> &CodexTurn {
        self.turns.get(usize::from(turn)).unwrap()
    }

    pub(crate) fn turn_mut(&mut self, turn: u8) -> &mut CodexTurn {
        self.turns.get_mut(usize::from(turn)).unwrap()
    }

    pub(crate) fn thread(&self, thread: u8) -> Thread {
        *self.threads.get(usize::from(thread)).unwrap()
    }

    pub(crate) fn open_thread(&mut self) -> u8 {
        self.threads.push(Thread::Loaded);
        u8::try_from(self.threads.len() - 1).unwrap()
    }

    pub(crate) fn ask(&mut self, message: u8, attempt: u32, thread: u8, continues: bool) -> u8 {
        self.turns.push(CodexTurn {
            message,
            attempt: u8::try_from(attempt).unwrap(),
            thread,
            continues,
            stage: Stage::Asked,
            touched: false,
            cut: false,
            gone: false,
        });
        u8::try_from(self.turns.len() - 1).unwrap()
    }

    /// The process dies, and another one takes over what is on disk.
    pub(crate) fn die(&mut self) {
        self.life += 1;
        for turn in &mut self.turns {
            turn.gone = true;
        }
        for thread in &mut self.threads {
            if *thread == Thread::Loaded {
                *thread = Thread::Missing;
            }
        }
    }

    /// The next sub-step of a live turn.
    pub(crate) fn advance(&mut self, turn: u8, setup: &Setup) -> Did {
        let before = *self.turn(turn);
        let message = usize::from(before.message);
        let done = self.effects.get_mut(message).unwrap();
        let stage = match before.stage {
            Stage::Asked => Stage::Named,
            Stage::Named => Stage::Kept,
            Stage::Kept => Stage::Called,
            Stage::Called if !setup.sandbox.can_write() => Stage::Said,
            Stage::Called if before.continues && *done > 0 => Stage::Said,
            Stage::Called => {
                *done += 1;
                Stage::Touched
            }
            Stage::Touched => Stage::Noted,
            Stage::Noted => Stage::Said,
            Stage::Said | Stage::Failed | Stage::Completed => Stage::Completed,
        };
        if stage == Stage::Kept {
            *self.threads.get_mut(usize::from(before.thread)).unwrap() = Thread::Recorded;
        }
        let now = self.turn_mut(turn);
        now.stage = stage;
        now.touched |= stage == Stage::Touched;
        match stage {
            Stage::Called => Did::CalledModel,
            Stage::Asked
            | Stage::Named
            | Stage::Kept
            | Stage::Touched
            | Stage::Noted
            | Stage::Said
            | Stage::Failed
            | Stage::Completed => Did::Other,
        }
    }

    pub(crate) fn may_fail(&self, turn: u8, faults: &Faults) -> bool {
        let turn = self.turn(turn);
        faults.turn > 0 && turn.live() && matches!(turn.stage, Stage::Called | Stage::Noted)
    }

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
                match self.turns.iter().skip(later).any(in_history) {
                    true => Seen::Foreign,
                    false => Seen::Absent,
                }
            }
        }
    }
}

fn finding(at: u8, turn: &CodexTurn) -> Seen {
    let status = match turn.stage {
        Stage::Completed => TurnStatus::Completed,
        Stage::Failed => TurnStatus::Failed,
        Stage::Asked
        | Stage::Named
        | Stage::Kept
        | Stage::Called
        | Stage::Touched
        | Stage::Noted
        | Stage::Said => match turn.live() {
            true => TurnStatus::InProgress,
            false => TurnStatus::Interrupted,
        },
    };
    Seen::Turn {
        turn: at,
        status,
        said: matches!(turn.stage, Stage::Said | Stage::Completed)
            && status != TurnStatus::InProgress,
        noted: turn.touched && turn.stage >= Stage::Noted,
    }
}
