//! Everything that can happen next in a state: the world's own steps, the faults, and what the daemon may do.
//!
//! One step is one transition or one effect, so a crash is tried between any two of them.

use crate::codex::{Did, Lost, Stage, Why};
use crate::setup::{HostKind, Setup};
use crate::world::{Broken, Memory, World};
use crate::{daemon, lane, people, restart};
use std::fmt;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) what: &'static str,
    pub(crate) message: Option<u8>,
    /// On which node of a fleet.
    pub(crate) node: Option<u8>,
    pub(crate) fault: bool,
}

impl Step {
    pub(crate) fn of(what: &'static str, message: u8) -> Self {
        Self {
            what,
            message: Some(message),
            node: None,
            fault: false,
        }
    }

    pub(crate) fn plain(what: &'static str) -> Self {
        Self {
            what,
            message: None,
            node: None,
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
        if let Some(node) = self.node {
            write!(f, "{} ", crate::fleet::node_id(node))?;
        }
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
    if setup.fleet.is_some() {
        return crate::fleet::all(world, setup);
    }
    let mut nexts = Nexts {
        from: world,
        setup,
        all: Vec::new(),
    };
    codex_dies(&mut nexts);
    reboot(&mut nexts);
    codex_works(&mut nexts);
    match &world.daemon {
        None => nexts.add(Step::plain("the daemon starts"), |world| {
            restart::start(world, setup);
        }),
        Some(memory) => {
            daemon_ends(&mut nexts, memory);
            daemon::steps(&mut nexts, memory);
            lane::steps(&mut nexts, memory);
            people::steps(&mut nexts);
        }
    }
    nexts.all
}

pub(crate) fn codex_works(nexts: &mut Nexts<'_>) {
    let (world, setup) = (nexts.from, nexts.setup);
    for (at, turn) in (0_u8..).zip(&world.codex.turns) {
        if !turn.live() {
            continue;
        }
        let message = turn.message;
        if world.codex.may_advance(at, setup) {
            nexts.add(Step::of(progress(turn.stage), message), |world| {
                let did = world.codex.advance(at, setup);
                let answer = world.row(message).and_then(|row| row.answer);
                if did == Did::CalledModel && answer.is_some() {
                    world.broken = Some(Broken::CalledAfterAnswer);
                }
            });
        }
        if let Some(follower) = turn.unserved().filter(|_| turn.stage >= Stage::Called) {
            let step = Step::of("codex deals with the text that it was given", follower);
            nexts.add(step, |world| world.codex.serve(at, follower, setup));
        }
        if world.faults.turn > 0 && matches!(turn.stage, Stage::Called | Stage::Noted) {
            turn_fails(nexts, at, message);
        }
    }
}

fn turn_fails(nexts: &mut Nexts<'_>, at: u8, message: u8) {
    for (what, why) in [
        ("the turn fails", Why::Passing),
        ("the turn meets a limit", Why::Limit),
        ("the turn fails for good", Why::Final),
    ] {
        nexts.add(Step::of(what, message).fault(), |world| {
            world.faults.turn -= 1;
            let turn = world.codex.turn_mut(at);
            turn.stage = Stage::Failed;
            turn.why = why;
        });
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

pub(crate) fn codex_dies(nexts: &mut Nexts<'_>) {
    let codex = &nexts.from.codex;
    if nexts.from.faults.codex > 0 && !codex.threads.is_empty() {
        nexts.add(Step::plain("CODEX DIES").fault(), |world| {
            world.faults.codex -= 1;
            world.codex.die();
        });
    }
}

fn reboot(nexts: &mut Nexts<'_>) {
    if nexts.from.faults.reboot == 0 || nexts.from.codex.threads.is_empty() {
        return;
    }
    for (what, lost) in [
        ("THE MACHINE REBOOTS", Lost::Nothing),
        ("THE MACHINE REBOOTS, and a turn's tail is lost", Lost::Tail),
        ("THE MACHINE REBOOTS, and a turn is lost", Lost::All),
    ] {
        nexts.add(Step::plain(what).fault(), |world| {
            world.faults.reboot -= 1;
            world.boot += 1;
            world.daemon_ends();
            world.codex.reboot(lost);
        });
    }
}

fn daemon_ends(nexts: &mut Nexts<'_>, memory: &Memory) {
    let host = nexts.setup.host;
    if nexts.from.faults.daemon > 0 {
        nexts.add(Step::plain("THE DAEMON DIES").fault(), |world| {
            world.faults.daemon -= 1;
            world.daemon_ends();
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
            world.daemon_ends();
            world.codex.die();
        });
    }
}
