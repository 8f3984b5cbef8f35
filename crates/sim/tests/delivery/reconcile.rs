//! A turn lost from sight: one look at the history, then what the core makes of it. Between the two the world goes on.

use crate::codex::Seen;
use crate::daemon::{PACE, end_with, set};
use crate::setup::Mutant;
use crate::steps::{Nexts, Step};
use crate::world::{Task, message_id};
use bridge_core::port::{Read, TurnStatus};
use bridge_core::step::Reconcile;
use bridge_core::value::BootId;

pub(crate) fn look(nexts: &mut Nexts<'_>, message: u8) {
    let world = nexts.from;
    let attempt = world.message(message).map_or(0, |row| row.life.attempt);
    let lost = world.rows.turn(&message_id(message), attempt).unwrap();
    let Some(lost) = lost else {
        return nexts.add(Step::of("nothing to look for", message), |world| {
            set(world, message, Task::None);
        });
    };
    let Some(seen) = world.codex.look(&lost, message, nexts.setup) else {
        return;
    };
    nexts.add(Step::of("look at the history", message), |world| {
        set(world, message, Task::Looked(seen));
    });
}

pub(crate) fn reconcile(nexts: &mut Nexts<'_>, message: u8, seen: Seen) {
    let believed = match seen {
        Seen::Turn { status, noted, .. } => match status {
            TurnStatus::InProgress if nexts.setup.has(Mutant::NoReattach) => Seen::Absent,
            TurnStatus::Completed if nexts.setup.has(Mutant::NoHarvest) => Seen::Absent,
            TurnStatus::Interrupted if !noted && nexts.setup.has(Mutant::CleanRetry) => {
                Seen::Absent
            }
            TurnStatus::InProgress
            | TurnStatus::Completed
            | TurnStatus::Interrupted
            | TurnStatus::Failed => seen,
        },
        Seen::Absent | Seen::Foreign | Seen::Unreadable => seen,
    };
    nexts.add(Step::of(decided(believed), message), |world| {
        let reconcile = Reconcile {
            message_id: message_id(message),
            found: believed.found(),
            boot_id: BootId::new("boot"),
            reply_max_chars: None,
            pace: PACE,
        };
        let follows = end_with(world, message, reconcile);
        if let (Some(true), Some(turn)) = (follows, believed.running()) {
            set(world, message, Task::Following { turn });
        }
    });
}

fn decided(seen: Seen) -> &'static str {
    match seen {
        Seen::Turn { status, said, .. } => match status {
            TurnStatus::InProgress => "commit reconcile: it runs",
            TurnStatus::Completed => "commit reconcile: it completed",
            TurnStatus::Failed => "commit reconcile: it failed",
            TurnStatus::Interrupted if said => "commit reconcile: it was cut after its answer",
            TurnStatus::Interrupted => "commit reconcile: it was cut",
        },
        Seen::Absent => "commit reconcile: it is absent",
        Seen::Foreign => "commit reconcile: another turn is there",
        Seen::Unreadable => "commit reconcile: unreadable",
    }
}
