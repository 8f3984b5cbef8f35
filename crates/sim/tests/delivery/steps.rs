//! Everything that can happen next in a state: the world's own steps, the faults, and what the daemon may do.
//!
//! One step is one transition or one effect, so a crash is tried between any two of them.

use crate::codex::Did;
use crate::codex::Stage;
use crate::setup::{HostKind, Setup};
use crate::world::{Broken, Memory, World, message_id};
use crate::{daemon, lane, restart};
use bridge_core::port::Read;
use std::fmt;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) what: &'static str,
    message: Option<u8>,
    pub(crate) fault: bool,
}

impl Step {
    pub(crate) fn of(what: &'static str, message: u8) -> Self {
        Self {
            what,
            message: Some(message),
            fault: false,
        }
    }

    pub(crate) fn plain(what: &'static str) -> Self {
        Self {
            what,
            message: None,
            fault: false,
        }
    }

    pub(crate) fn fault(self) -> Self {
        Self {
            fault: true,
            ..self
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message {
            Some(message) => write!(f, "m{message}: {}", self.what),
            None => f.write_str(self.what),
        }
    }
}

/// A step and where it leads.
pub(crate) struct Next {
    pub(crate) step: Step,
    pub(crate) world: World,
}

/// Collects what can happen next.
pub(crate) struct Nexts<'a> {
    pub(crate) from: &'a World,
    pub(crate) setup: &'a Setup,
    pub(crate) all: Vec<Next>,
}

impl Nexts<'_> {
    /// One more thing that can happen.
    pub(crate) fn add(&mut self, step: Step, change: impl FnOnce(&mut World)) {
        let mut world = self.from.clone();
        change(&mut world);
        self.all.push(Next { step, world });
    }
}

/// Everything that can happen in this state.
pub(crate) fn all(world: &World, setup: &Setup) -> Vec<Next> {
    let mut nexts = Nexts {
        from: world,
        setup,
        all: Vec::new(),
    };
    codex_works(&mut nexts);
    codex_dies(&mut nexts);
    match &world.daemon {
        None => nexts.add(Step::plain("the daemon starts"), |world| {
            restart::start(world, setup);
        }),
        Some(memory) => {
            daemon_ends(&mut nexts, memory);
            daemon::steps(&mut nexts, memory);
            lane::steps(&mut nexts, memory);
        }
    }
    nexts.all
}

fn codex_works(nexts: &mut Nexts<'_>) {
    let (world, setup) = (nexts.from, nexts.setup);
    for (at, turn) in (0_u8..).zip(&world.codex.turns) {
        if !turn.live() {
            continue;
        }
        let message = turn.message;
        nexts.add(Step::of(progress(turn.stage), message), |world| {
            let did = world.codex.advance(at, setup);
            let answer = world.rows.answer(&message_id(message)).unwrap();
            if did == Did::CalledModel && answer.is_some() {
                world.broken = Some(Broken::CalledAfterAnswer);
            }
        });
        if world.codex.may_fail(at, &world.faults) {
            nexts.add(Step::of("the turn fails", message).fault(), |world| {
                world.faults.turn -= 1;
                world.codex.turn_mut(at).stage = Stage::Failed;
            });
        }
    }
}

fn progress(from: Stage) -> &'static str {
    match from {
        Stage::Asked => "codex names the turn",
        Stage::Named => "codex keeps the message",
        Stage::Kept => "codex calls the model",
        Stage::Called => "codex does what the model wants",
        Stage::Touched => "codex keeps the effect's item",
        Stage::Noted => "codex keeps the final answer",
        Stage::Said | Stage::Failed | Stage::Completed => "codex completes the turn",
    }
}

fn codex_dies(nexts: &mut Nexts<'_>) {
    let codex = &nexts.from.codex;
    if nexts.from.faults.codex > 0 && !codex.threads.is_empty() {
        nexts.add(Step::plain("CODEX DIES").fault(), |world| {
            world.faults.codex -= 1;
            world.codex.die();
        });
    }
}

fn daemon_ends(nexts: &mut Nexts<'_>, memory: &Memory) {
    let host = nexts.setup.host;
    if nexts.from.faults.daemon > 0 {
        nexts.add(Step::plain("THE DAEMON DIES").fault(), |world| {
            world.faults.daemon -= 1;
            world.daemon = None;
            match host {
                HostKind::Stdio => world.codex.die(),
                HostKind::Socket => {}
            }
        });
    }
    if nexts.from.faults.stop > 0 && !memory.stopping {
        nexts.add(Step::plain("the daemon is told to stop").fault(), |world| {
            world.faults.stop -= 1;
            if let Some(memory) = &mut world.daemon {
                memory.stopping = true;
            }
        });
    }
    if memory.stopping {
        nexts.add(Step::plain("the daemon ends with its codex"), |world| {
            world.daemon = None;
            world.codex.die();
        });
    }
}
