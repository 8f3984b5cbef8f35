//! The world of one schedule: virtual time, what is planned, the ledger's rows, and who lives. What is not the
//! daemon's doing happens here.

use crate::codex::{Codex, Lost, Stage, Thread};
use crate::dials::{Dials, Host, Mutant};
use crate::platform::{Platform, Posted};
use crate::queue::{Duty, Event, Queue};
use crate::trace::Trace;
use crate::{codex, daemon, restart};
use bridge_core::value::{BootId, ConversationId, MessageId, Sandbox, Timestamp};
use bridge_sim::Dice;
use bridge_sim::history::{self, Fact, RowId};
use bridge_testkit::MemoryRows;
use std::collections::BTreeMap;
use std::fmt;

/// Where the wall clock stands when the world begins.
const WALL_START_MS: i64 = 1_700_000_000_000;
/// Faults happen before this time.
pub(crate) const CALM_MS: u64 = 180_000;
/// The wall clock jumps at most so far, in either direction.
const JUMP_MAX_MS: u64 = 4 * 3_600_000;
/// Messages of one schedule.
const MESSAGES: u64 = 6;
/// Deaths of the daemon in one schedule; more of them only bury messages.
const DEATHS_MAX: u32 = 8;

/// A turn that the daemon follows.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub(crate) message_id: MessageId,
    pub(crate) noted: bool,
    /// A transition of it is on its way to the ledger.
    pub(crate) busy: bool,
}

/// What one life of the daemon keeps in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) clock_base: i64,
    pub(crate) clock_steady: u64,
    pub(crate) polls: u64,
    pub(crate) wakes: u64,
    pub(crate) lanes: BTreeMap<ConversationId, bool>,
    /// Turns whose id is waited for.
    pub(crate) asked: BTreeMap<usize, MessageId>,
    pub(crate) following: BTreeMap<usize, Followed>,
}

/// Everything.
pub(crate) struct World {
    pub(crate) dials: Dials,
    pub(crate) dice: Dice,
    pub(crate) now_ms: u64,
    wall_offset_ms: i64,
    pub(crate) calm: bool,
    pub(crate) queue: Queue,
    pub(crate) rows: MemoryRows,
    pub(crate) life: u32,
    pub(crate) daemon: Option<Memory>,
    boots: u32,
    pub(crate) codex: Codex,
    pub(crate) platform: Platform,
    pub(crate) ids: u64,
    pub(crate) seen: Vec<history::Event>,
    /// What is wrong beside what the outside history says.
    pub(crate) broken: Vec<String>,
    pub(crate) trace: Trace,
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>, told: bool) -> Self {
        let mut dice = Dice::new(seed);
        let dials = Dials::of(seed, &mut dice, mutant);
        let mut world = Self {
            dials,
            dice,
            now_ms: 0,
            wall_offset_ms: WALL_START_MS,
            calm: false,
            queue: Queue::default(),
            rows: MemoryRows::default(),
            life: 0,
            daemon: None,
            boots: 1,
            codex: Codex::default(),
            platform: Platform::default(),
            ids: 0,
            seen: Vec::new(),
            broken: Vec::new(),
            trace: Trace::new(told),
        };
        world.note(format_args!("{dials:?}"));
        world.plan();
        world
    }

    fn plan(&mut self) {
        let counts = self.dials.counts;
        self.queue.push(0, Event::DaemonStarts);
        self.queue.push(CALM_MS, Event::Calm);
        let mut at = 0;
        for row in 1..=MESSAGES {
            at += self.dice.between(1, 20_000);
            self.queue.push(at, Event::Post(RowId(row)));
        }
        for _ in 0..counts.daemon_dies {
            let at = self.dice.between(1, CALM_MS / 2);
            self.queue.push(at, Event::DaemonDies);
        }
        for _ in 0..counts.codex_dies {
            let at = self.dice.between(1, CALM_MS / 2);
            self.queue.push(at, Event::CodexDies);
        }
        for _ in 0..counts.reboots {
            let at = self.dice.between(1, CALM_MS / 2);
            self.queue.push(at, Event::Reboot);
        }
        for _ in 0..counts.clock_jumps {
            let at = self.dice.between(1, CALM_MS / 2);
            let by_ms = i64::try_from(self.dice.below(2 * JUMP_MAX_MS)).unwrap()
                - i64::try_from(JUMP_MAX_MS).unwrap();
            self.queue.push(at, Event::ClockJumps { by_ms });
        }
    }

    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now_ms, what);
    }

    pub(crate) fn record(&mut self, fact: Fact) {
        self.note(format_args!("    * {fact:?}"));
        let at_ms = self.now_ms;
        self.seen.push(history::Event { at_ms, fact });
    }

    /// Whether a fault happens now.
    pub(crate) fn fault(&mut self, permille: u16) -> bool {
        !self.calm && permille > 0 && self.dice.chance(permille)
    }

    pub(crate) fn jitter(&mut self) -> u16 {
        u16::try_from(self.dice.below(1001)).unwrap()
    }

    pub(crate) fn wall(&self) -> i64 {
        self.wall_offset_ms + i64::try_from(self.now_ms).unwrap()
    }

    /// The ledger's clock, as the daemon reads it.
    pub(crate) fn clock(&self) -> Timestamp {
        let memory = self.daemon.as_ref().unwrap();
        let gone = i64::try_from(self.now_ms - memory.clock_steady).unwrap();
        Timestamp(memory.clock_base + gone)
    }

    pub(crate) fn boot_id(&self) -> BootId {
        BootId::new(format!("boot{}", self.boots))
    }

    /// Plans a duty of the daemon that lives now.
    pub(crate) fn duty(&mut self, low_ms: u64, high_ms: u64, duty: Duty) {
        let at = self.now_ms + self.dice.between(low_ms, high_ms);
        let life = self.life;
        self.queue.push(at, Event::Duty { life, duty });
    }

    pub(crate) fn soon(&mut self, duty: Duty) {
        self.duty(1, 15, duty);
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Post(row) => self.post(row),
            Event::Advance { turn } => self.advance(turn),
            Event::CodexDies if self.calm => {}
            Event::CodexDies => self.codex_dies(),
            Event::DaemonDies if self.calm => {}
            Event::DaemonDies => self.daemon_dies("is killed"),
            Event::Reboot if self.calm => {}
            Event::Reboot => self.reboot(),
            Event::DaemonStarts => restart::start(self),
            Event::ClockJumps { by_ms } => {
                self.note(format_args!("THE WALL CLOCK JUMPS by {by_ms} ms"));
                self.wall_offset_ms += by_ms;
            }
            Event::Redeliver(row) => self.redeliver(row),
            Event::Calm => self.calm_down(),
            Event::Duty { life, duty } if life == self.life && self.daemon.is_some() => {
                daemon::act(self, duty);
            }
            Event::Duty { .. } => {}
        }
    }

    /// A commit whose outcome was not heard may leave a row to the next start: there is one more of them.
    fn calm_down(&mut self) {
        self.note(format_args!("FROM HERE ON ALL IS CALM"));
        let doubted = self.dials.rates.ledger_unknown > 0;
        let restarted = doubted && !self.dials.has(Mutant::NeverRestarted);
        if restarted && self.daemon.is_some() {
            self.end_daemon("is restarted by its operator");
        }
        self.calm = true;
    }

    fn post(&mut self, row: RowId) {
        let conversation = self.dice.below(3);
        let sender = if self.dice.chance(500) { "ada" } else { "bob" };
        self.platform.rows.push(Posted {
            row,
            conversation,
            sender,
            read: false,
            show_at: self.now_ms,
            shown: 0,
        });
        let conversation = format!("k{conversation}");
        self.record(Fact::Posted { row, conversation });
        daemon::wake_poll(self);
    }

    fn redeliver(&mut self, row: RowId) {
        let now = self.now_ms;
        let posted = self.platform.row_mut(row);
        (posted.read, posted.show_at) = (false, now);
        self.record(Fact::Redelivered { row });
        daemon::wake_poll(self);
    }

    pub(crate) fn daemon_dies(&mut self, how: &str) {
        if self.daemon.is_some() && self.life < DEATHS_MAX {
            self.end_daemon(how);
        }
    }

    pub(crate) fn end_daemon(&mut self, how: &str) {
        self.note(format_args!("THE DAEMON {how}"));
        self.daemon = None;
        self.life += 1;
        if self.dials.host == Host::Stdio {
            self.codex_dies();
        }
        let at = self.now_ms + self.dice.between(10, 5_000);
        self.queue.push(at, Event::DaemonStarts);
    }

    pub(crate) fn codex_dies(&mut self) {
        self.note(format_args!("CODEX DIES"));
        let permille = self.dials.rates.tail_lost;
        let dice = &mut self.dice;
        self.codex.die(|| permille > 0 && dice.chance(permille));
        let turns: Vec<usize> = match &self.daemon {
            Some(memory) => memory
                .asked
                .keys()
                .chain(memory.following.keys())
                .copied()
                .collect(),
            None => Vec::new(),
        };
        for turn in turns {
            daemon::news_of(self, turn);
        }
    }

    fn reboot(&mut self) {
        self.note(format_args!("THE MACHINE REBOOTS"));
        self.daemon_dies("ends with the machine");
        self.codex_dies();
        self.boots += 1;
        let lost = match self.dice.below(3) {
            0 => Lost::Nothing,
            1 => Lost::Tail,
            _ => Lost::All,
        };
        self.note(format_args!("the newest record loses {lost:?}"));
        self.codex.power_loss(lost);
    }

    /// The next sub-step of a live turn.
    fn advance(&mut self, at: usize) {
        let turn = self.codex.turn(at);
        if !turn.live() {
            return;
        }
        let mut next = self.next_stage(at);
        let may_fail = matches!(turn.stage, Stage::Called | Stage::Noted);
        if may_fail && self.fault(self.dials.rates.turn_fails) {
            next = Stage::Failed;
            let reset = self.reset();
            let failure = codex::failure(self.dice.below(5), reset);
            self.codex.turn_mut(at).failure = Some(failure);
        }
        self.codex.turn_mut(at).stage = next;
        let row = self.codex.turn(at).own().row;
        self.note(format_args!("codex: turn u{at} of {row} is {next:?}"));
        self.enter(at, next);
        if self.codex.turn(at).live() {
            let later = self.now_ms + self.dice.between(5, 2_500);
            self.queue.push(later, Event::Advance { turn: at });
        }
        daemon::news_of(self, at);
    }

    /// When a limit ends, in the time of the ledger: the edge knows both clocks.
    fn reset(&mut self) -> Timestamp {
        let in_ms = i64::try_from(self.dice.below(600_000)).unwrap();
        let believed = self.dials.has(Mutant::WallClockBelieved);
        match &self.daemon {
            Some(_) if !believed => self.clock().plus_ms(in_ms),
            Some(_) | None => Timestamp(self.wall()).plus_ms(in_ms),
        }
    }

    fn next_stage(&self, at: usize) -> Stage {
        let turn = self.codex.turn(at);
        match turn.stage {
            Stage::Asked => Stage::Named,
            Stage::Named => Stage::Kept,
            Stage::Kept => Stage::Called,
            Stage::Called if self.dials.sandbox == Sandbox::ReadOnly => Stage::Said,
            Stage::Called if turn.own().continues && self.done(turn.own().row) => Stage::Said,
            Stage::Called => Stage::Touched,
            Stage::Touched => Stage::Noted,
            Stage::Noted => Stage::Said,
            Stage::Said => Stage::Completed,
            Stage::Completed | Stage::Failed | Stage::Durable => Stage::Durable,
        }
    }

    fn done(&self, row: RowId) -> bool {
        let touched = Fact::Touched { row };
        self.seen.iter().any(|event| event.fact == touched)
    }

    fn enter(&mut self, at: usize, stage: Stage) {
        let row = self.codex.turn(at).own().row;
        match stage {
            Stage::Kept => {
                let thread = self.codex.turn(at).thread;
                *self.codex.thread_mut(thread) = Thread::Recorded;
            }
            Stage::Called => self.record(Fact::Asked { row }),
            Stage::Touched => {
                self.codex.turn_mut(at).touched = true;
                self.record(Fact::Touched { row });
            }
            Stage::Said => self.serve(at),
            Stage::Asked
            | Stage::Named
            | Stage::Noted
            | Stage::Failed
            | Stage::Completed
            | Stage::Durable => {}
        }
        if stage >= Stage::Kept {
            for text in &mut self.codex.turn_mut(at).texts {
                text.kept = true;
            }
        }
    }

    /// What the turn was given while it ran is dealt with before its answer.
    fn serve(&mut self, at: usize) {
        let given: Vec<_> = self.codex.turn(at).texts.iter().skip(1).cloned().collect();
        for text in given.iter().filter(|text| !text.served) {
            let row = text.row;
            self.record(Fact::Asked { row });
            if self.dials.sandbox.can_write() && !(text.continues && self.done(row)) {
                self.codex.turn_mut(at).touched = true;
                self.record(Fact::Touched { row });
            }
        }
        for text in &mut self.codex.turn_mut(at).texts {
            text.served = true;
        }
    }
}
