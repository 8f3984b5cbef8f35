//! Codex: threads, and turns that go through their sub-steps one at a time and can be cut after any of them.
//! As measured: a text is on disk before the model is called; what was shown may not be on disk yet.

use bridge_core::port::{RecordedTurn, TurnHistory, TurnStatus};
use bridge_core::value::{Class, ClientId, Failure, Turn};
use bridge_sim::history::RowId;

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Asked,
    Named,
    /// Its text is on disk.
    Kept,
    Called,
    /// The world was touched, and the disk does not know.
    Touched,
    Noted,
    /// The answer is on disk.
    Said,
    Failed,
    /// The end was shown, and the disk does not know.
    Completed,
    Durable,
}

/// What is gone of a turn's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Nothing,
    /// Everything after its own text.
    Tail,
    All,
}

/// A text that a turn was given.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) client_id: ClientId,
    pub(crate) row: RowId,
    /// It asks to look first and not to repeat what is done.
    pub(crate) continues: bool,
    pub(crate) kept: bool,
    pub(crate) served: bool,
}

impl Text {
    /// The model sees nothing but the text.
    pub(crate) fn read(client_id: ClientId, text: &str) -> Self {
        let (_, row) = text.rsplit_once("row:").unwrap();
        Self {
            client_id,
            row: RowId::read(row.trim()).unwrap(),
            continues: text.contains("Parts of it may already be done"),
            kept: false,
            served: false,
        }
    }
}

/// One turn.
#[derive(Clone, Debug)]
pub(crate) struct CodexTurn {
    pub(crate) thread: usize,
    pub(crate) stage: Stage,
    /// Its own text, then what it was given while it ran.
    pub(crate) texts: Vec<Text>,
    pub(crate) touched: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) gone: bool,
    pub(crate) lost: Lost,
}

impl CodexTurn {
    pub(crate) fn live(&self) -> bool {
        !self.gone && self.stage != Stage::Failed && self.stage != Stage::Durable
    }

    pub(crate) fn runs(&self) -> bool {
        self.live() && self.stage != Stage::Completed
    }

    pub(crate) fn kept(&self) -> bool {
        self.stage >= Stage::Kept && self.lost != Lost::All
    }

    pub(crate) fn listens(&self) -> bool {
        !self.gone && (Stage::Named..Stage::Said).contains(&self.stage)
    }

    pub(crate) fn own(&self) -> &Text {
        self.texts.first().unwrap()
    }

    pub(crate) fn answer(&self) -> String {
        format!("answer to {}", self.own().row)
    }

    pub(crate) fn heard(&self, on_disk: bool) -> Vec<ClientId> {
        let known = |text: &&Text| !on_disk || (text.kept && self.lost == Lost::Nothing);
        self.texts
            .iter()
            .filter(known)
            .map(|text| text.client_id.clone())
            .collect()
    }

    fn finding(&self, at: usize) -> RecordedTurn {
        let whole = self.lost == Lost::Nothing;
        let status = match self.stage {
            Stage::Durable if whole => TurnStatus::Completed,
            Stage::Failed if whole => TurnStatus::Failed,
            Stage::Asked
            | Stage::Named
            | Stage::Kept
            | Stage::Called
            | Stage::Touched
            | Stage::Noted
            | Stage::Said
                if !self.gone =>
            {
                TurnStatus::InProgress
            }
            Stage::Asked
            | Stage::Named
            | Stage::Kept
            | Stage::Called
            | Stage::Touched
            | Stage::Noted
            | Stage::Said
            | Stage::Failed
            | Stage::Completed
            | Stage::Durable => TurnStatus::Interrupted,
        };
        let said = whole && matches!(self.stage, Stage::Said | Stage::Completed | Stage::Durable);
        let noted = whole && self.touched && self.stage >= Stage::Noted;
        let failed = status == TurnStatus::Failed;
        RecordedTurn {
            turn_id: bridge_core::value::TurnId::new(format!("u{at}")),
            status,
            answer: (said && status != TurnStatus::InProgress).then(|| self.answer()),
            effects: noted.then(|| "rm".to_owned()).into_iter().collect(),
            received: self.heard(!self.runs()),
            failure: self.failure.clone().filter(|_| failed),
        }
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    Loaded,
    Recorded,
    Missing,
}

/// All of Codex.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codex {
    /// Counts processes.
    pub(crate) life: u32,
    pub(crate) threads: Vec<Thread>,
    pub(crate) turns: Vec<CodexTurn>,
}

/// The number in an id.
pub(crate) fn number(id: &str) -> usize {
    id.get(1..).and_then(|digits| digits.parse().ok()).unwrap()
}

/// Why a turn fails.
pub(crate) fn failure(kind: u64, reset: bridge_core::value::Timestamp) -> Failure {
    let class = match kind {
        0 => Class::Transient,
        1 | 2 => Class::Capacity { until: Some(reset) },
        3 => Class::Capacity { until: None },
        _ => Class::Config,
    };
    Failure::new(class, "the provider failed")
}

impl Codex {
    pub(crate) fn turn(&self, at: usize) -> &CodexTurn {
        self.turns.get(at).unwrap()
    }

    pub(crate) fn turn_mut(&mut self, at: usize) -> &mut CodexTurn {
        self.turns.get_mut(at).unwrap()
    }

    pub(crate) fn thread_mut(&mut self, at: usize) -> &mut Thread {
        self.threads.get_mut(at).unwrap()
    }

    pub(crate) fn ask(&mut self, thread: usize, text: Text) -> usize {
        self.turns.push(CodexTurn {
            thread,
            stage: Stage::Asked,
            texts: vec![text],
            touched: false,
            failure: None,
            gone: false,
            lost: Lost::Nothing,
        });
        self.turns.len() - 1
    }

    /// The process dies. Of the turns that it ran, some lose the tail of their record.
    pub(crate) fn die(&mut self, mut tail_lost: impl FnMut() -> bool) {
        self.life += 1;
        for turn in self.turns.iter_mut().filter(|turn| turn.live()) {
            turn.gone = true;
            if turn.stage > Stage::Kept && tail_lost() {
                turn.lost = Lost::Tail;
            }
        }
        for thread in &mut self.threads {
            if *thread == Thread::Loaded {
                *thread = Thread::Missing;
            }
        }
    }

    /// The machine loses what was never synced: the newest turn's record, or its tail.
    pub(crate) fn power_loss(&mut self, lost: Lost) {
        let Some(newest) = self.turns.iter().rposition(CodexTurn::kept) else {
            return;
        };
        let thread = self.turn(newest).thread;
        self.turn_mut(newest).lost = lost;
        let any = self.turns.iter().any(|t| t.thread == thread && t.kept());
        if !any {
            *self.thread_mut(thread) = Thread::Missing;
        }
    }

    /// What the history says about a lost turn; nothing while it must be waited for.
    pub(crate) fn look(&self, lost: &Turn) -> Option<(TurnHistory, Option<usize>)> {
        let ours = |turn: &CodexTurn| turn.own().client_id == lost.client_id;
        let Some(at) = self.turns.iter().position(ours) else {
            return Some((self.without_ours(lost), None));
        };
        let turn = self.turn(at);
        match turn.live() {
            true if matches!(turn.stage, Stage::Asked | Stage::Completed) => None,
            true => Some((TurnHistory::Turn(turn.finding(at)), Some(at))),
            false if turn.kept() => Some((TurnHistory::Turn(turn.finding(at)), Some(at))),
            false => Some((self.without_ours(lost), None)),
        }
    }

    fn without_ours(&self, lost: &Turn) -> TurnHistory {
        let thread = number(lost.thread.as_str());
        let after = lost.after_turn.as_ref().map(|id| number(id.as_str()));
        let in_history = |turn: &CodexTurn| turn.thread == thread && turn.kept();
        let unreadable = || TurnHistory::Unreadable {
            why: "no record".to_owned(),
        };
        match (self.threads.get(thread).unwrap(), after) {
            (Thread::Missing, None) => TurnHistory::Absent,
            (Thread::Missing, Some(_)) => unreadable(),
            (Thread::Loaded | Thread::Recorded, Some(anchor)) if !in_history(self.turn(anchor)) => {
                unreadable()
            }
            (Thread::Loaded | Thread::Recorded, after) => {
                let later = after.map_or(0, |anchor| anchor + 1);
                if self.turns.iter().skip(later).any(in_history) {
                    TurnHistory::Foreign
                } else {
                    TurnHistory::Absent
                }
            }
        }
    }
}
