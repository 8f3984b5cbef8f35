//! What tells two states apart: everything that can make a difference to what happens next or to a rule, and
//! nothing else.
//!
//! Left out: times, texts and counts of tries; the life of a message that has its answer; turns that no look can
//! see any more, and how many of them a history holds. Threads and turns are numbered anew, so that two states
//! that differ only by what was forgotten are one.

use crate::codex::{CodexTurn, Seen, Stage, number};
use crate::setup::Setup;
use crate::world::{Lane, Task, World, conversation_id};
use bridge_core::port::Read;
use bridge_core::value::{Conversation, Message, NextInput, Turn};

/// Stands for a thread, a turn or a row that is not there.
const NONE: u8 = u8::MAX;
/// Ends a list, so that two lists can't be read as one.
const END: u8 = 0xfe;
/// A turn of the past that a history shows or does not show.
const PAST_SHOWN: u8 = 0xf1;
const PAST_LOST: u8 = 0xf0;

/// The key of a state.
pub(crate) fn of(world: &World, setup: &Setup) -> Box<[u8]> {
    let key = Key::new(world, setup);
    key.write()
}

struct Key<'a> {
    world: &'a World,
    conversation: Option<Conversation>,
    rows: Vec<Option<(Message, Option<Turn>)>>,
    /// What still has a name, in order of age.
    threads: Vec<u8>,
    turns: Vec<u8>,
    bytes: Vec<u8>,
}

impl<'a> Key<'a> {
    fn new(world: &'a World, setup: &Setup) -> Self {
        let row = |message| {
            let row = world.message(message)?;
            let turn = world.rows.turn(&row.message_id, row.life.attempt).unwrap();
            let turn = turn.filter(|_| row.life.state.name().awaits_answer());
            Some((row, turn))
        };
        let mut key = Self {
            world,
            conversation: world.rows.conversation(&conversation_id()).unwrap(),
            rows: (0..setup.messages).map(row).collect(),
            threads: Vec::new(),
            turns: Vec::new(),
            bytes: Vec::with_capacity(96),
        };
        key.threads = key.named_threads();
        key.turns = key.named_turns();
        key
    }

    fn tasks(&self) -> impl Iterator<Item = Task> {
        let memory = self.world.daemon.as_ref();
        memory.into_iter().flat_map(|memory| memory.tasks)
    }

    fn row_turns(&self) -> impl Iterator<Item = &Turn> {
        self.rows
            .iter()
            .flatten()
            .filter_map(|(_, turn)| turn.as_ref())
    }

    fn named_threads(&self) -> Vec<u8> {
        let bound = self
            .conversation
            .as_ref()
            .and_then(|row| row.thread.as_ref());
        let mut named: Vec<u8> = bound.map(|id| number(id.as_str())).into_iter().collect();
        named.extend(self.row_turns().map(|turn| number(turn.thread.as_str())));
        named.extend(self.tasks().filter_map(task_thread));
        let live = self.world.codex.turns.iter().filter(|turn| turn.live());
        named.extend(live.map(|turn| turn.thread));
        named.sort_unstable();
        named.dedup();
        named
    }

    fn anchors(&self) -> Vec<u8> {
        let last = self
            .conversation
            .as_ref()
            .and_then(|row| row.last_turn.as_ref());
        let after = self.row_turns().filter_map(|turn| turn.after_turn.as_ref());
        last.into_iter()
            .chain(after)
            .map(|id| number(id.as_str()))
            .collect()
    }

    /// Whether a look or a task can still meet this turn itself, not only its trace in the history.
    fn present(&self, at: u8, turn: &CodexTurn) -> bool {
        let lost = self
            .rows
            .get(usize::from(turn.message))
            .and_then(Option::as_ref);
        let current = lost.is_some_and(|(row, lost)| {
            lost.is_some() && row.life.attempt == u32::from(turn.attempt)
        });
        turn.live() || current || self.tasks().any(|task| task_turn(task) == Some(at))
    }

    fn named_turns(&self) -> Vec<u8> {
        let anchors = self.anchors();
        let mut named = Vec::new();
        let mut past_thread = None;
        for (at, turn) in (0_u8..).zip(&self.world.codex.turns) {
            if self.present(at, turn) || anchors.contains(&at) {
                named.push(at);
                past_thread = None;
            } else if turn.stage >= Stage::Kept
                && self.threads.contains(&turn.thread)
                && past_thread != Some(turn.thread)
            {
                named.push(at);
                past_thread = Some(turn.thread);
            }
        }
        named
    }

    fn thread(&self, thread: u8) -> u8 {
        name(&self.threads, thread)
    }

    fn turn(&self, turn: u8) -> u8 {
        name(&self.turns, turn)
    }

    fn write(mut self) -> Box<[u8]> {
        let faults = &self.world.faults;
        self.bytes
            .extend([faults.daemon, faults.stop, faults.codex]);
        self.bytes
            .extend([faults.turn, faults.unknown, faults.refused]);
        let broken = self.world.broken.map_or(NONE, |broken| broken as u8);
        self.bytes.push(broken);
        for at in 0..self.rows.len() {
            self.message(at);
        }
        self.conversation();
        self.memory();
        self.codex();
        for shown in &self.world.platform.shown {
            let ordinal = u8::try_from(shown.ordinal).unwrap();
            self.bytes
                .extend([shown.message, ordinal, shown.kind as u8]);
        }
        self.bytes.into_boxed_slice()
    }

    fn message(&mut self, at: usize) {
        let Some((row, turn)) = self.rows.get(at).and_then(Option::as_ref) else {
            return self.bytes.push(NONE);
        };
        let life = &row.life;
        let mut bytes = vec![life.state.name() as u8];
        if life.state.name().awaits_answer() {
            for count in [life.spent, life.continues] {
                bytes.push(u8::try_from(count).unwrap());
            }
            bytes.push(u8::from(life.input == NextInput::Continue));
        }
        if let Some(turn) = turn {
            let after = turn.after_turn.as_ref().map(|id| number(id.as_str()));
            bytes.extend([turn.state as u8, u8::from(turn.touched)]);
            bytes.push(self.thread(number(turn.thread.as_str())));
            bytes.push(after.map_or(NONE, |turn| self.turn(turn)));
        }
        for reply in self.world.rows.replies(&row.message_id).unwrap() {
            bytes.extend([END, reply.kind as u8, reply.state.name() as u8]);
        }
        bytes.push(END);
        self.bytes.extend(bytes);
    }

    fn conversation(&mut self) {
        let row = self.conversation.as_ref();
        let bound = row.and_then(|row| row.thread.as_ref());
        let last = row.and_then(|row| row.last_turn.as_ref());
        let bound = bound.map_or(NONE, |id| self.thread(number(id.as_str())));
        let last = last.map_or(NONE, |id| self.turn(number(id.as_str())));
        self.bytes.extend([bound, last]);
    }

    fn memory(&mut self) {
        let Some(memory) = &self.world.daemon else {
            return self.bytes.push(NONE);
        };
        self.bytes.push(u8::from(memory.stopping));
        for task in memory.tasks {
            let bytes = self.task(task);
            self.bytes.extend(bytes);
        }
        let place = |message, ordinal| [message, u8::try_from(ordinal).unwrap()];
        let (stage, [message, ordinal]) = match memory.lane {
            Lane::Closed => (0, [0, 0]),
            Lane::Open => (1, [0, 0]),
            Lane::Sending { message, ordinal } => (2, place(message, ordinal)),
            Lane::Heard {
                message,
                ordinal,
                verdict,
            } => (3 + verdict as u8, place(message, ordinal)),
        };
        self.bytes.extend([stage, message, ordinal]);
    }

    fn task(&self, task: Task) -> [u8; 3] {
        let stale = |life: u8| u8::from(life != self.world.codex.life);
        let thread = task_thread(task).map_or(NONE, |thread| self.thread(thread));
        let turn = task_turn(task).map_or(NONE, |turn| self.turn(turn));
        match task {
            Task::None => [0, 0, 0],
            Task::Work => [1, 0, 0],
            Task::Opened { life, .. } => [2, thread, stale(life)],
            Task::Ready { life, .. } => [3, thread, stale(life)],
            Task::Begun { life, .. } => [4, thread, stale(life)],
            Task::Asked { .. } => [5, turn, 0],
            Task::AskedEarly { .. } => [6, turn, 0],
            Task::Started { .. } => [7, turn, 0],
            Task::Following { .. } => [8, turn, 0],
            Task::Told { .. } => [9, turn, 0],
            Task::Reconcile => [10, 0, 0],
            Task::Looked(Seen::Turn {
                status,
                said,
                noted,
                ..
            }) => [
                11,
                turn,
                (status as u8) << 2 | u8::from(said) << 1 | u8::from(noted),
            ],
            Task::Looked(Seen::Absent) => [12, 0, 0],
            Task::Looked(Seen::Foreign) => [13, 0, 0],
            Task::Looked(Seen::Unreadable) => [14, 0, 0],
        }
    }

    fn codex(&mut self) {
        let codex = &self.world.codex;
        self.bytes.extend(codex.effects);
        for thread in &self.threads {
            self.bytes.push(codex.thread(*thread) as u8);
        }
        self.bytes.push(END);
        for at in &self.turns {
            let turn = codex.turn(*at);
            let flags = [turn.continues, turn.touched, turn.cut, turn.gone];
            let flags = flags
                .iter()
                .fold(0, |bits, flag| bits << 1 | u8::from(*flag));
            let bytes = match self.present(*at, turn) {
                true => [turn.stage as u8, turn.message, flags],
                false if turn.stage >= Stage::Kept => [PAST_SHOWN, 0, 0],
                false => [PAST_LOST, 0, 0],
            };
            let thread = self.thread(turn.thread);
            self.bytes.extend(bytes);
            self.bytes.push(thread);
        }
        self.bytes.push(END);
    }
}

fn name(names: &[u8], number: u8) -> u8 {
    let at = names.iter().position(|named| *named == number);
    at.map_or(NONE, |at| u8::try_from(at).unwrap())
}

fn task_thread(task: Task) -> Option<u8> {
    match task {
        Task::Opened { thread, .. } | Task::Ready { thread, .. } | Task::Begun { thread, .. } => {
            Some(thread)
        }
        Task::None
        | Task::Work
        | Task::Asked { .. }
        | Task::AskedEarly { .. }
        | Task::Started { .. }
        | Task::Following { .. }
        | Task::Told { .. }
        | Task::Reconcile
        | Task::Looked(_) => None,
    }
}

fn task_turn(task: Task) -> Option<u8> {
    match task {
        Task::Asked { turn }
        | Task::AskedEarly { turn }
        | Task::Started { turn }
        | Task::Following { turn }
        | Task::Told { turn }
        | Task::Looked(Seen::Turn { turn, .. }) => Some(turn),
        Task::None
        | Task::Work
        | Task::Opened { .. }
        | Task::Ready { .. }
        | Task::Begun { .. }
        | Task::Reconcile
        | Task::Looked(Seen::Absent | Seen::Foreign | Seen::Unreadable) => None,
    }
}
