//! What tells two states apart: everything that can make a difference to what happens next or to a rule, and
//! nothing else.
//!
//! Left out: times, texts and counts of tries; the life of a message that has its answer; turns that no look can
//! see any more, and how many of them a history holds. Threads and turns are numbered anew, so that two states
//! that differ only by what was forgotten are one.

use crate::codex::{Codex, CodexTurn, Heard, Stage, number};
use crate::history::Seen;
use crate::setup::{BLIND_RESEND, Setup};
use crate::sight::Row;
use crate::world::{Join, Lane, Memory, Piece, Task, World};
use bridge_core::value::{AnswerSource, Class, Conversation, Life, MessageState, NextInput, Turn};

/// Stands for a thread, a turn or a row that is not there.
const NONE: u8 = u8::MAX;
/// Ends a list, so that two lists can't be read as one.
const END: u8 = 0xfe;
/// A turn of the past that a history shows or does not show.
const PAST_SHOWN: u8 = 0xf1;
const PAST_LOST: u8 = 0xf0;

/// A turn of the past that a history shows without its answer, where that makes a difference.
const PAST_UNSAID: u8 = 0xf2;

/// The key of a state.
pub(crate) fn of(world: &World, setup: &Setup) -> Box<[u8]> {
    if world.fleet.is_some() {
        return of_fleet(world, setup);
    }
    let mut key = Key::new(world, setup);
    key.rows();
    key.memory();
    key.done();
    key.codex();
    key.seen();
    key.bytes.into_boxed_slice()
}

/// Nodes differ by their names alone: which of the two comes first makes no difference.
fn of_fleet(world: &World, setup: &Setup) -> Box<[u8]> {
    let turned = world.clone().turned();
    let key = of_nodes([world, &turned], setup);
    key.min(of_nodes([&turned, world], setup))
}

fn of_nodes(worlds: [&World; 2], setup: &Setup) -> Box<[u8]> {
    let [first, second] = worlds;
    let nothing = Codex::default();
    let brief = setup.fleet.is_some_and(|fleet| fleet.brief);
    let [first_key, second_key] = worlds.map(|world| {
        let mut key = Key::new(world, setup);
        if brief && !world.has_lease() {
            key.memory = None;
        }
        let lives = |codex: &Codex| codex.turns.iter().any(CodexTurn::live);
        if brief && !world.is_current() && !lives(key.codex) {
            key.codex = &nothing;
        }
        key
    });
    let stored = Key {
        memory: None,
        codex: &first.fleet().stored.codex,
        ..Key::new(first, setup)
    };
    let mut keys = [first_key, second_key, stored];
    let mut threads: Vec<u8> = keys.iter().flat_map(Key::named_threads).collect();
    threads.sort_unstable();
    threads.dedup();
    for key in &mut keys {
        key.threads.clone_from(&threads);
    }
    let mut turns: Vec<u8> = keys.iter().flat_map(Key::named_turns).collect();
    turns.sort_unstable();
    turns.dedup();
    for key in &mut keys {
        key.turns.clone_from(&turns);
    }
    let [mut key, second_key, mut stored] = keys;
    key.rows();
    key.fleet(second);
    key.done();
    key.memory();
    key.codex();
    let mut second_key = Key {
        bytes: key.bytes,
        ..second_key
    };
    second_key.memory();
    second_key.codex();
    stored.bytes = second_key.bytes;
    stored.codex();
    stored.seen();
    stored.bytes.into_boxed_slice()
}

struct Key<'a> {
    world: &'a World,
    setup: &'a Setup,
    memory: Option<&'a Memory>,
    codex: &'a Codex,
    conversation: Option<&'a Conversation>,
    /// What still has a name, in order of age.
    threads: Vec<u8>,
    turns: Vec<u8>,
    bytes: Vec<u8>,
}

impl<'a> Key<'a> {
    fn new(world: &'a World, setup: &'a Setup) -> Self {
        let mut key = Self {
            world,
            setup,
            memory: world.daemon.as_ref(),
            codex: &world.codex,
            conversation: world.sight.conversation.as_ref(),
            threads: Vec::new(),
            turns: Vec::new(),
            bytes: Vec::with_capacity(160),
        };
        key.threads = key.named_threads();
        key.turns = key.named_turns();
        key
    }

    fn tasks(&self) -> impl Iterator<Item = Task> {
        self.memory.into_iter().flat_map(|memory| memory.tasks)
    }

    fn row_turns(&self) -> impl Iterator<Item = &'a Turn> {
        let rows = self.world.sight.rows.iter().flatten();
        rows.filter_map(open_turn)
    }

    fn named_threads(&self) -> Vec<u8> {
        let bound = self.conversation.and_then(|row| row.thread.as_ref());
        let mut named: Vec<u8> = bound.map(|id| number(id.as_str())).into_iter().collect();
        named.extend(self.row_turns().map(|turn| number(turn.thread.as_str())));
        named.extend(self.tasks().filter_map(task_thread));
        let live = self.codex.turns.iter().filter(|turn| turn.live());
        named.extend(live.map(|turn| turn.thread));
        named.sort_unstable();
        named.dedup();
        named
    }

    fn anchors(&self) -> Vec<u8> {
        let last = self.conversation.and_then(|row| row.last_turn.as_ref());
        let after = self.row_turns().filter_map(|turn| turn.after_turn.as_ref());
        last.into_iter()
            .chain(after)
            .map(|id| number(id.as_str()))
            .collect()
    }

    /// Whether a look or a task can still meet this turn itself, not only its trace in the history.
    fn present(&self, at: u8, turn: &CodexTurn) -> bool {
        let current = self.world.row(turn.message).is_some_and(|row| {
            open_turn(row).is_some_and(|lost| lost.attempt == u32::from(turn.attempt))
        });
        let told = |memory: &Memory| memory.joins.contains(&Join::Telling { turn: at });
        turn.live()
            || current
            || self.tasks().any(|task| task_turn(task) == Some(at))
            || self.memory.is_some_and(told)
    }

    fn named_turns(&self) -> Vec<u8> {
        let anchors = self.anchors();
        let mut named = Vec::new();
        let mut past_thread = None;
        for (at, turn) in (0_u8..).zip(&self.codex.turns) {
            if self.present(at, turn) || anchors.contains(&at) {
                named.push(at);
                past_thread = None;
            } else if turn.kept()
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

    fn rows(&mut self) {
        let world = self.world;
        self.bytes.extend(world.faults.bytes());
        self.bytes
            .push(world.broken.map_or(NONE, |broken| broken as u8));
        for row in &world.sight.rows {
            self.message(row.as_ref());
        }
        self.conversation();
    }

    /// What only a fleet has, and what its nodes have beside their daemons and their Codexes.
    fn fleet(&mut self, other: &World) {
        let fleet = self.world.fleet();
        self.bytes.extend(fleet.faults.bytes());
        self.bytes.extend(fleet.unfenced);
        for world in [self.world, other] {
            let (fleet, side) = (world.fleet(), world.fleet().side());
            self.bytes.push(world.node_state(fleet.at) as u8);
            self.bytes.push(bits(&[
                world.has_lease(),
                side.is_ahead(),
                side.lost,
                side.whole,
                world.daemon.is_some(),
                world.is_home(),
                world.is_current(),
                fleet.wrote_at == Some(fleet.at),
            ]));
        }
    }

    fn seen(&mut self) {
        let world = self.world;
        if self.setup.sink == BLIND_RESEND {
            self.bytes.push(world.platform.doubts);
        }
        self.bytes.push(bits(&world.redriven));
        for shown in &world.platform.shown {
            let ordinal = u8::try_from(shown.ordinal).unwrap();
            let seq = u8::try_from(shown.seq).unwrap();
            self.bytes
                .extend([shown.message, ordinal, shown.kind as u8, seq]);
        }
    }

    fn message(&mut self, row: Option<&Row>) {
        let Some(row) = row else {
            return self.bytes.push(NONE);
        };
        let message = &row.message;
        let state = message.life.state.name();
        let mut bytes = vec![state as u8, u8::from(message.life.stop.is_some())];
        if state.awaits_answer() || (self.world.faults.redrive > 0 && row.answer.is_none()) {
            bytes.extend(life(&message.life));
        }
        bytes.push(u8::try_from(message.seq.0).unwrap());
        bytes.push(
            row.answer
                .map_or(NONE, |from| u8::from(from == AnswerSource::Shared)),
        );
        if let Some(turn) = open_turn(row) {
            let after = turn.after_turn.as_ref().map(|id| number(id.as_str()));
            bytes.extend([turn.state as u8, u8::from(turn.touched)]);
            bytes.push(u8::from(turn.boot_id == self.world.boot_id()));
            bytes.push(self.thread(number(turn.thread.as_str())));
            bytes.push(after.map_or(NONE, |turn| self.turn(turn)));
        }
        for reply in &row.replies {
            let seq = u8::try_from(reply.seq.0).unwrap();
            bytes.extend([END, reply.kind as u8, reply.state.name() as u8, seq]);
        }
        bytes.push(END);
        self.bytes.extend(bytes);
    }

    fn conversation(&mut self) {
        let row = self.conversation;
        let bound = row.and_then(|row| row.thread.as_ref());
        let last = row.and_then(|row| row.last_turn.as_ref());
        let bound = bound.map_or(NONE, |id| self.thread(number(id.as_str())));
        let last = last.map_or(NONE, |id| self.turn(number(id.as_str())));
        self.bytes.extend([bound, last]);
    }

    fn memory(&mut self) {
        let Some(memory) = self.memory else {
            return self.bytes.push(NONE);
        };
        self.bytes.push(u8::from(memory.stopping));
        for task in memory.tasks {
            let bytes = self.task(task);
            self.bytes.extend(bytes);
        }
        for join in memory.joins {
            let bytes = self.join(join);
            self.bytes.extend(bytes);
        }
        let place = |piece: Piece| [piece.message, u8::try_from(piece.ordinal).unwrap()];
        let (stage, [message, ordinal]) = match memory.lane {
            Lane::Closed => (0, [0, 0]),
            Lane::Open => (1, [0, 0]),
            Lane::Sending { piece, again } => (2 + u8::from(again), place(piece)),
            Lane::Handing(piece) => (4, place(piece)),
            Lane::Heard(piece, verdict) => (5 + verdict as u8, place(piece)),
        };
        self.bytes.extend([stage, message, ordinal]);
    }

    fn join(&self, join: Join) -> [u8; 2] {
        match join {
            Join::None => [0, 0],
            Join::Wanted => [1, 0],
            Join::Telling { turn } => [2, self.turn(turn)],
            Join::Refused => [3, 0],
            Join::Late => [4, 0],
            Join::Unknown => [5, 0],
        }
    }

    fn task(&self, task: Task) -> [u8; 3] {
        let stale = |life: u8| u8::from(life != self.codex.life);
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
                why,
                ..
            }) => [
                11 + why as u8,
                turn,
                (status as u8) << 2 | u8::from(said) << 1 | u8::from(noted),
            ],
            Task::Looked(Seen::Absent) => [14, 0, 0],
            Task::Looked(Seen::Foreign) => [15, 0, 0],
            Task::Looked(Seen::Unreadable) => [16, 0, 0],
        }
    }

    /// What all Codexes did.
    fn done(&mut self) {
        self.bytes.extend(self.world.codex.effects);
        self.bytes.push(bits(&self.world.codex.said));
    }

    fn codex(&mut self) {
        let codex = self.codex;
        for thread in &self.threads {
            let state = codex.threads.get(usize::from(*thread));
            self.bytes.push(state.map_or(NONE, |state| *state as u8));
        }
        self.bytes.push(END);
        for at in &self.turns {
            let Some(turn) = codex.turns.get(usize::from(*at)) else {
                self.bytes.push(NONE);
                continue;
            };
            let thread = self.thread(turn.thread);
            let unsaid = self.world.fleet.is_some() && turn.stage < Stage::Said;
            match self.present(*at, turn) {
                true => self.bytes.extend(self.turn_bytes(turn)),
                false if turn.kept() && unsaid => self.bytes.push(PAST_UNSAID),
                false if turn.kept() => self.bytes.push(PAST_SHOWN),
                false => self.bytes.push(PAST_LOST),
            }
            self.bytes.push(thread);
        }
        self.bytes.push(END);
    }

    fn turn_bytes(&self, turn: &CodexTurn) -> Vec<u8> {
        let flags = [turn.continues, turn.touched, turn.cut, turn.gone];
        let mut bytes = vec![turn.stage as u8, turn.message, bits(&flags)];
        bytes.extend([turn.why as u8, turn.lost as u8]);
        for (row, heard) in self.world.sight.rows.iter().zip(turn.heard) {
            let now = row.as_ref().map_or(0, |row| row.message.life.attempt);
            let current = |attempt: u8| u8::from(u32::from(attempt) == now);
            bytes.push(match heard {
                Heard::Nothing => 0,
                Heard::Told { attempt } => 2 | current(attempt),
                Heard::Kept { attempt } => 4 | current(attempt),
                Heard::Done { attempt } => 6 | current(attempt),
            });
        }
        bytes
    }
}

/// The turn of a message that has no answer.
fn open_turn(row: &Row) -> Option<&Turn> {
    let open = row.message.life.state.name().awaits_answer();
    row.turn.as_ref().filter(|_| open)
}

fn bits(flags: &[bool]) -> u8 {
    flags
        .iter()
        .fold(0, |bits, flag| bits << 1 | u8::from(*flag))
}

fn life(life: &Life) -> [u8; 6] {
    let class = life.failure.as_ref().map(|failure| match failure.class {
        Class::Transient => 0,
        Class::Capacity { .. } => 1,
        Class::Config => 2,
        Class::Permanent => 3,
        Class::Ambiguous => 4,
        Class::Bug => 5,
    });
    let leader = match &life.state {
        MessageState::Steered { leader } => number(leader.as_str()),
        _ => NONE,
    };
    let flags = [
        life.suspect,
        life.input == NextInput::Continue,
        life.state.hold().is_some(),
    ];
    [
        u8::try_from(life.spent).unwrap(),
        u8::try_from(life.continues).unwrap(),
        bits(&flags),
        class.unwrap_or(NONE),
        leader,
        END,
    ]
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
