//! A turn lost from sight: one look at the history, then what the core makes of it. Between the two the world goes on.

use crate::daemon::{PACE, end_with, set};
use crate::fleet;
use crate::follow::heard;
use crate::history::Seen;
use crate::setup::{Mutant, Setup};
use crate::steps::{Nexts, Step};
use crate::world::{NOW, Task, World, message_id};
use bridge_core::port::{Change, Read, Rows, TurnStatus};
use bridge_core::step::Reconcile;
use bridge_core::value::{Life, Message, NextInput, StateName};

pub(crate) fn look(nexts: &mut Nexts<'_>, message: u8) {
    if fleet::restores(nexts, message) {
        return;
    }
    let world = nexts.from;
    let lost = world.row(message).and_then(|row| row.turn.as_ref());
    let Some(lost) = lost else {
        return nexts.add(Step::of("nothing to look for", message), |world| {
            set(world, message, Task::None);
        });
    };
    let Some(seen) = world.codex.look(lost, message, nexts.setup) else {
        return;
    };
    nexts.add(Step::of("look at the history", message), |world| {
        set(world, message, Task::Looked(seen));
    });
}

pub(crate) fn reconcile(nexts: &mut Nexts<'_>, message: u8, seen: Seen) {
    if seen.turn().is_some()
        && fleet::stores(
            nexts,
            message,
            "commit store_segments: before what was seen",
        )
    {
        return;
    }
    let setup = nexts.setup;
    let believed = believed(seen, setup);
    nexts.add(Step::of(decided(believed), message), |world| {
        let heard = match believed.turn() {
            Some(turn) => {
                let turn = world.codex.turn(turn);
                heard(world, turn, !turn.live(), setup)
            }
            None => Vec::new(),
        };
        let followers = followers(world, setup);
        let reconcile = Reconcile {
            attachments: Vec::new(),
            message_id: message_id(message),
            found: believed.found(heard),
            boot_id: boot_id(world, message, setup),
            reply_max_chars: None,
            on_cut: setup.on_cut,
            pace: PACE,
        };
        let follows = end_with(world, message, reconcile);
        if let (Some(true), Some(turn)) = (follows, believed.turn()) {
            set(world, message, Task::Following { turn });
        }
        spoil(world, followers, setup);
    });
}

fn believed(seen: Seen, setup: &Setup) -> Seen {
    match seen {
        Seen::Turn { status, noted, .. } => match status {
            TurnStatus::InProgress if setup.has(Mutant::NoReattach) => Seen::Absent,
            TurnStatus::Completed if setup.has(Mutant::NoHarvest) => Seen::Absent,
            TurnStatus::Interrupted if !noted && setup.has(Mutant::CleanRetry) => Seen::Absent,
            TurnStatus::InProgress
            | TurnStatus::Completed
            | TurnStatus::Interrupted
            | TurnStatus::Failed => seen,
        },
        Seen::Absent | Seen::Foreign | Seen::Unreadable => seen,
    }
}

fn boot_id(world: &World, message: u8, setup: &Setup) -> bridge_core::value::BootId {
    let turn = world.row(message).and_then(|row| row.turn.as_ref());
    match turn {
        Some(turn) if setup.has(Mutant::RebootIgnored) => turn.boot_id.clone(),
        Some(_) | None => world.boot_id(),
    }
}

fn followers(world: &World, setup: &Setup) -> Vec<Message> {
    (0..setup.messages)
        .filter_map(|at| world.message(at))
        .filter(|row| row.life.state.name() == StateName::Steered)
        .cloned()
        .collect()
}

/// Defects in what becomes of those that were given to a turn that died, or that was found again.
fn spoil(world: &mut World, followers: Vec<Message>, setup: &Setup) {
    for before in followers {
        let row = world.rows.message(&before.message_id).unwrap().unwrap();
        let from = row.life.state.name();
        let life = match (from, setup.mutant) {
            (StateName::Received, Some(Mutant::FollowerKept)) => {
                before.life.moved(before.life.state.clone(), NOW)
            }
            (StateName::Received, Some(Mutant::FollowerFresh)) => Life {
                input: NextInput::Message,
                ..row.life
            },
            (StateName::Steered, Some(Mutant::UnknownForgotten)) => Life {
                failure: None,
                ..row.life
            },
            _ => continue,
        };
        let change = Change::UpdateState {
            message_id: row.message_id,
            from,
            life,
        };
        world.rows.apply(&change).unwrap();
        world.wrote();
    }
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
