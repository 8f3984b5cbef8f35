//! Threads that travel: what a node stores of a thread's file, and how another one restores it.

use super::NOT_HERE;
use crate::codex::{Codex, CodexTurn, Heard, Stage, Thread, Why, number, thread_id};
use crate::daemon::{commit, set};
use crate::setup::{MESSAGES_MAX, Mutant};
use crate::steps::{Nexts, Step};
use crate::world::{NOW, Task, World, message_id};
use bridge_core::port::FleetRead;
use bridge_core::step::StoreSegments;
use bridge_core::value::Segment;
use bridge_testkit::MemoryRows;
use std::sync::Arc;

/// Bytes of one line of a thread's file.
const LINE: usize = 9 + MESSAGES_MAX;

/// What the stored segments say, as a Codex would read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) codex: Codex,
}

impl Stored {
    fn of(rows: &MemoryRows, threads: usize) -> Self {
        let mut codex = Codex::default();
        for thread in (0_u8..).take(threads) {
            let bytes = stored_bytes(rows, thread);
            codex.threads.push(if bytes.is_empty() {
                Thread::Missing
            } else {
                Thread::Recorded
            });
            for line in bytes.chunks(LINE) {
                let (at, turn) = read(line, thread);
                let needed = codex.turns.len().max(usize::from(at) + 1);
                codex.turns.resize(needed, NOT_HERE);
                *codex.turn_mut(at) = turn;
            }
        }
        Self { codex }
    }

    fn turn(&self, at: u8) -> CodexTurn {
        let turn = self.codex.turns.get(usize::from(at));
        turn.copied().unwrap_or(NOT_HERE)
    }

    pub(crate) fn has(&self, thread: u8) -> bool {
        self.codex.threads.get(usize::from(thread)) == Some(&Thread::Recorded)
    }
}

fn stored_bytes(rows: &MemoryRows, thread: u8) -> Vec<u8> {
    let (thread, path) = (thread_id(thread), path(thread));
    let mut bytes = Vec::new();
    while let Some(segment) = rows.segment(&thread, &path, end(&bytes)).unwrap() {
        bytes.extend(segment.bytes);
    }
    bytes
}

fn path(thread: u8) -> String {
    format!("rollout-{thread}")
}

fn end(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap()
}

/// What the file says of a turn; nothing while its message is not in it.
fn on_disk(turn: &CodexTurn) -> Option<CodexTurn> {
    let (stage, touched) = match turn.stage {
        Stage::Touched => (Stage::Called, false),
        stage => (stage, turn.touched && stage >= Stage::Noted),
    };
    turn.kept().then(|| CodexTurn {
        stage,
        touched,
        heard: turn.heard.map(|heard| match heard {
            Heard::Told { .. } => Heard::Nothing,
            kept => kept,
        }),
        cut: false,
        gone: true,
        ..*turn
    })
}

const STAGES: [Stage; 9] = [
    Stage::Asked,
    Stage::Named,
    Stage::Kept,
    Stage::Called,
    Stage::Touched,
    Stage::Noted,
    Stage::Said,
    Stage::Failed,
    Stage::Completed,
];
const WHYS: [Why; 3] = [Why::Passing, Why::Limit, Why::Final];

fn line(at: u8, turn: &CodexTurn) -> Vec<u8> {
    let mut line = vec![at, turn.message, turn.attempt, turn.stage as u8];
    line.extend([u8::from(turn.touched), turn.why as u8]);
    line.extend([u8::from(turn.continues), 0, 0]);
    line.extend(turn.heard.map(|heard| match heard {
        Heard::Nothing | Heard::Told { .. } => 0,
        Heard::Kept { attempt } => attempt << 1,
        Heard::Done { attempt } => attempt << 1 | 1,
    }));
    line
}

fn read(line: &[u8], thread: u8) -> (u8, CodexTurn) {
    let [
        at,
        message,
        attempt,
        stage,
        touched,
        why,
        continues,
        _,
        _,
        heard @ ..,
    ] = line
    else {
        unreachable!("half a line");
    };
    let heard: [u8; MESSAGES_MAX] = heard.try_into().unwrap();
    let turn = CodexTurn {
        message: *message,
        attempt: *attempt,
        thread,
        continues: *continues == 1,
        stage: *STAGES.get(usize::from(*stage)).unwrap(),
        heard: heard.map(|heard| match (heard >> 1, heard & 1) {
            (0, _) => Heard::Nothing,
            (attempt, 0) => Heard::Kept { attempt },
            (attempt, _) => Heard::Done { attempt },
        }),
        touched: *touched == 1,
        why: *WHYS.get(usize::from(*why)).unwrap(),
        ..NOT_HERE
    };
    (*at, turn)
}

/// What the thread of a message grew by since its bytes were stored.
fn grown(world: &World, message: u8) -> Option<Segment> {
    let turn = world.row(message)?.turn.as_ref()?;
    let thread = number(turn.thread.as_str());
    let fleet = world.fleet();
    let turns = (0_u8..).zip(&world.codex.turns);
    let of_thread = turns.filter(|(_, turn)| turn.thread == thread);
    let lines = of_thread.filter_map(|(at, turn)| {
        let now = on_disk(turn)?;
        (fleet.stored.turn(at) != now).then(|| line(at, &now))
    });
    let bytes: Vec<u8> = lines.flatten().collect();
    let files = world.rows.thread_files(&turn.thread).unwrap();
    (!bytes.is_empty()).then(|| Segment {
        thread: turn.thread.clone(),
        path: path(thread),
        generation: fleet.side().generation,
        offset: files.first().map_or(0, |file| file.length),
        bytes,
        digest: [0; 32],
    })
}

/// The bytes of a turn must be stored before what comes next. False: they are.
pub(crate) fn stores(nexts: &mut Nexts<'_>, message: u8, what: &'static str) -> bool {
    if nexts.from.fleet.is_none() || nexts.setup.has(Mutant::AnswerBeforeSegment) {
        return false;
    }
    store(nexts, Step::of(what, message))
}

/// During a turn, before it asks for an approval and after the item of an effect.
pub(crate) fn stores_early(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    let asks = matches!(
        nexts.from.codex.turn(turn).stage,
        Stage::Called | Stage::Noted
    );
    if nexts.from.fleet.is_some() && asks {
        store(nexts, Step::of("commit store_segments: early", message));
    }
}

fn store(nexts: &mut Nexts<'_>, step: Step) -> bool {
    let Some(message) = step.message else {
        return false;
    };
    let Some(segment) = grown(nexts.from, message) else {
        return false;
    };
    nexts.add(step, |world| {
        let store = StoreSegments {
            message_id: message_id(message),
            anew: None,
            segments: vec![segment],
        };
        match commit(world, store, NOW) {
            Some(()) => {
                let threads = world.codex.threads.len();
                let stored = Stored::of(&world.rows, threads);
                world.fleet_mut().stored = Arc::new(stored);
            }
            // Somebody else has the conversation.
            None => set(world, message, Task::None),
        }
    });
    true
}

/// A node that has come to a conversation makes the thread's file what is stored of it, and removes what its Codex
/// remembers of an older branch. False: it has nothing to restore.
pub(crate) fn restores(nexts: &mut Nexts<'_>, message: u8) -> bool {
    let world = nexts.from;
    if world.fleet.is_none() || !world.is_home() || world.is_current() {
        return false;
    }
    let setup = nexts.setup;
    nexts.add(Step::of("restore the thread", message), |world| {
        let stored = Arc::clone(&world.fleet().stored);
        for thread in (0_u8..).take(world.codex.threads.len()) {
            let ours = |turn: &CodexTurn| turn.thread == thread && turn.kept();
            let known = world.codex.turns.iter().any(ours);
            if known && setup.has(Mutant::ProjectionKept) || setup.has(Mutant::NotRestored) {
                continue;
            }
            restore(&mut world.codex, &stored, thread);
        }
        let generation = world.home().map_or(0, |home| home.generation);
        world.fleet_mut().side_mut().generation = generation;
    });
    true
}

/// What an older generation has here goes aside, unless it only goes on behind what is stored.
fn restore(codex: &mut Codex, stored: &Stored, thread: u8) {
    if goes_on(codex, stored, thread) {
        return;
    }
    let here = codex.threads.get_mut(usize::from(thread)).unwrap();
    *here = if stored.has(thread) {
        Thread::Recorded
    } else {
        Thread::Missing
    };
    for (at, turn) in (0_u8..).zip(&mut codex.turns) {
        let theirs = stored.turn(at);
        if turn.thread == thread || theirs.thread == thread {
            *turn = theirs;
        }
    }
}

/// Whether the file here begins with what is stored of it.
fn goes_on(codex: &Codex, stored: &Stored, thread: u8) -> bool {
    let mut stored = (0_u8..)
        .zip(&stored.codex.turns)
        .filter(|(_, turn)| turn.thread == thread);
    let begins = |(at, theirs): (u8, &CodexTurn)| {
        let here = codex.turns.get(usize::from(at));
        here.is_some_and(|here| here.thread == thread && here.kept() && here.stage >= theirs.stage)
    };
    codex.thread(thread) == Thread::Recorded && stored.all(begins)
}
