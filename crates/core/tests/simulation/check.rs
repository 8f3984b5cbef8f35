//! One schedule from its seed to its verdict. What is promised is judged by what was seen from outside.

use crate::dials::Mutant;
use crate::world::{CALM_MS, World};
use bridge_sim::history::{Promises, Violation, judge};

/// All must be quiet so long after the last fault.
const QUIET_MS: u64 = 3_600_000;
/// What is quiet is watched for some time more: a late second reply would be one too many.
const WATCH_MS: u64 = 10 * 60_000;
/// More events than any schedule needs: a loop without a pause.
const EVENTS_MAX: u32 = 50_000;

/// What became of one schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) broken: Vec<String>,
    pub(crate) digest: u64,
    pub(crate) simulated_ms: u64,
    pub(crate) answered: usize,
    pub(crate) dead: usize,
    pub(crate) deaths: u32,
}

/// Runs the schedule of a seed.
pub(crate) fn run(seed: u64, mutant: Option<Mutant>, told: bool) -> Outcome {
    let mut world = World::new(seed, mutant, told);
    let mut quiet_at = None;
    let mut events = 0;
    while let Some((at_ms, event)) = world.queue.pop() {
        world.now_ms = at_ms;
        world.happen(event);
        events += 1;
        if quiet_at.is_none() && quiet(&world) {
            quiet_at = Some(at_ms);
        }
        let end_ms = quiet_at.map_or(CALM_MS + QUIET_MS, |at| at + WATCH_MS);
        if events > EVENTS_MAX {
            world.broken.push("it never sleeps".to_owned());
            break;
        }
        if at_ms > end_ms {
            break;
        }
    }
    if quiet_at.is_none() {
        world.broken.push("it does not come to rest".to_owned());
    }
    verdict(world)
}

/// Every row was read and has an end that somebody can see, or that the platform did not want.
fn quiet(world: &World) -> bool {
    let platform = &world.platform;
    world.calm
        && platform.rows.iter().all(|posted| {
            let over = platform.ended.contains(&posted.row);
            posted.read && (over || platform.forbidden.contains(&posted.row))
        })
}

fn verdict(world: World) -> Outcome {
    let promises = Promises {
        seen_once: true,
        single_piece: true,
    };
    let judged = judge(&world.seen, promises);
    let mut broken = world.broken;
    for violation in judged.violations {
        // What the platform refused for good is kept as a dead letter, and nobody outside sees it.
        let excused = match &violation {
            Violation::Lost { row } => world.platform.forbidden.contains(row),
            Violation::Doubled { .. }
            | Violation::OutOfOrder { .. }
            | Violation::TouchedTwice { .. }
            | Violation::AskedAgain { .. }
            | Violation::Forgot { .. }
            | Violation::Misdirected { .. }
            | Violation::Strange { .. } => false,
        };
        if !excused {
            broken.push(violation.to_string());
        }
    }
    Outcome {
        broken,
        digest: world.trace.digest(),
        simulated_ms: world.now_ms,
        answered: judged.answered,
        dead: judged.dead,
        deaths: world.life,
    }
}
