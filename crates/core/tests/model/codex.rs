//! Codex as the model sees it: threads that are on disk from their first message on, and turns that go through
//! their sub-steps one at a time and can be cut after any of them.
//!
//! It trusts what was measured: a message is on disk before the model is called, and a look at a living Codex
//! waits until the history has caught up. What a look sees is in `history`; what it means is decided in the core.

use crate::setup::{MESSAGES_MAX, Setup};
use bridge_core::value::{Class, ClientId, Failure, ThreadId, TurnId};

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

/// What a turn made of the text of another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// It has the text, and the disk does not.
    Told {
        attempt: u8,
    },
    /// The text is on disk.
    Kept {
        attempt: u8,
    },
    /// What the text asks for is done.
    Done {
        attempt: u8,
    },
}

/// Why a turn failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Passing,
    Limit,
    Final,
}

impl Why {
    pub(crate) fn failure(self) -> Failure {
        let class = match self {
            Self::Passing => Class::Transient,
            Self::Limit => Class::Capacity { until: None },
            Self::Final => Class::Permanent,
        };
        Failure::new(class, "the turn failed")
    }
}

/// What a reboot took from a turn's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Nothing,
    /// Everything after its message.
    Tail,
    All,
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
    pub(crate) heard: [Heard; MESSAGES_MAX],
    pub(crate) touched: bool,
    pub(crate) why: Why,
    /// It was interrupted on request.
    pub(crate) cut: bool,
    /// The process that ran it is gone.
    pub(crate) gone: bool,
    pub(crate) lost: Lost,
}

impl CodexTurn {
    pub(crate) fn live(&self) -> bool {
        !self.gone && !self.cut && self.stage < Stage::Failed
    }

    pub(crate) fn kept(&self) -> bool {
        self.stage >= Stage::Kept && self.lost != Lost::All
    }

    /// The client ids of what it was given, as far as the disk, or whoever listens, knows.
    pub(crate) fn heard(&self, on_disk: bool) -> Vec<ClientId> {
        let own = client_id(self.message, self.attempt);
        let others = (0_u8..).zip(self.heard).filter_map(|(at, heard)| {
            let attempt = match heard {
                Heard::Nothing => return None,
                Heard::Told { .. } if on_disk => return None,
                Heard::Told { attempt } | Heard::Kept { attempt } | Heard::Done { attempt } => {
                    attempt
                }
            };
            (self.lost != Lost::Tail || !on_disk).then(|| client_id(at, attempt))
        });
        std::iter::once(own).chain(others).collect()
    }

    /// A text that the turn has and has not dealt with yet.
    pub(crate) fn unserved(&self) -> Option<u8> {
        let at = self.heard.iter().position(|heard| match heard {
            Heard::Told { .. } | Heard::Kept { .. } => true,
            Heard::Nothing | Heard::Done { .. } => false,
        });
        at.map(|at| u8::try_from(at).unwrap())
    }
}

fn client_id(message: u8, attempt: u8) -> ClientId {
    ClientId::of(&crate::world::message_id(message), u32::from(attempt))
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
    pub(crate) effects: [u8; MESSAGES_MAX],
    /// Messages that a turn with an answer had heard.
    pub(crate) said: [bool; MESSAGES_MAX],
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// In the memory of the process only.
    Loaded,
    /// On disk.
    Recorded,
    /// The process died before anything of it was on disk, or a reboot took it.
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

    fn set_thread(&mut self, thread: u8, state: Thread) {
        *self.threads.get_mut(usize::from(thread)).unwrap() = state;
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
            heard: [Heard::Nothing; MESSAGES_MAX],
            touched: false,
            why: Why::Passing,
            cut: false,
            gone: false,
            lost: Lost::Nothing,
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

    /// The machine loses its memory: what the newest kept turn had on disk may be gone, as it was never synced.
    pub(crate) fn reboot(&mut self, lost: Lost) {
        self.die();
        let Some(newest) = self.turns.iter().rposition(CodexTurn::kept) else {
            return;
        };
        let turn = self.turns.get_mut(newest).unwrap();
        turn.lost = lost;
        let thread = turn.thread;
        let any = self.turns.iter().any(|t| t.thread == thread && t.kept());
        if !any {
            self.set_thread(thread, Thread::Missing);
        }
    }

    fn touch(&mut self, message: u8) {
        *self.effects.get_mut(usize::from(message)).unwrap() += 1;
    }

    /// Whether the turn's own next sub-step may come: no answer while it has a text that it has not dealt with.
    pub(crate) fn may_advance(&self, turn: u8, setup: &Setup) -> bool {
        let turn = self.turn(turn);
        turn.live() && (turn.unserved().is_none() || self.next(turn, setup) != Stage::Said)
    }

    fn next(&self, turn: &CodexTurn, setup: &Setup) -> Stage {
        let done = self.effects.get(usize::from(turn.message));
        match turn.stage {
            Stage::Asked => Stage::Named,
            Stage::Named => Stage::Kept,
            Stage::Kept => Stage::Called,
            Stage::Called if !setup.sandbox.can_write() => Stage::Said,
            Stage::Called if turn.continues && done > Some(&0) => Stage::Said,
            Stage::Called => Stage::Touched,
            Stage::Touched => Stage::Noted,
            Stage::Noted => Stage::Said,
            Stage::Said | Stage::Failed | Stage::Completed => Stage::Completed,
        }
    }

    /// The next sub-step of a live turn.
    pub(crate) fn advance(&mut self, at: u8, setup: &Setup) -> Did {
        let before = *self.turn(at);
        let stage = self.next(&before, setup);
        self.turn_mut(at).stage = stage;
        match stage {
            Stage::Kept => self.set_thread(before.thread, Thread::Recorded),
            Stage::Touched => {
                self.touch(before.message);
                self.turn_mut(at).touched = true;
            }
            Stage::Said => self.answers(&before),
            Stage::Called => return Did::CalledModel,
            Stage::Asked | Stage::Named | Stage::Noted | Stage::Failed | Stage::Completed => {}
        }
        Did::Other
    }

    fn answers(&mut self, turn: &CodexTurn) {
        for (at, heard) in (0_u8..).zip(turn.heard) {
            if turn.message == at || heard != Heard::Nothing {
                *self.said.get_mut(usize::from(at)).unwrap() = true;
            }
        }
    }

    /// A running turn is given the text of another message.
    pub(crate) fn tell(&mut self, at: u8, message: u8, attempt: u32) {
        let attempt = u8::try_from(attempt).unwrap();
        let turn = self.turn_mut(at);
        *turn.heard.get_mut(usize::from(message)).unwrap() = Heard::Told { attempt };
    }

    /// Whether a turn takes more text now.
    pub(crate) fn listens(&self, at: u8) -> bool {
        let turn = self.turn(at);
        turn.live() && (Stage::Named..Stage::Said).contains(&turn.stage)
    }

    /// The next sub-step of a text that a live turn was given.
    pub(crate) fn serve(&mut self, at: u8, message: u8, setup: &Setup) {
        let heard = self.turn_mut(at).heard.get_mut(usize::from(message));
        let heard = heard.unwrap();
        match *heard {
            Heard::Told { attempt } => *heard = Heard::Kept { attempt },
            Heard::Kept { attempt } => {
                *heard = Heard::Done { attempt };
                if setup.sandbox.can_write() {
                    self.touch(message);
                    self.turn_mut(at).touched = true;
                }
            }
            Heard::Nothing | Heard::Done { .. } => {}
        }
    }
}
