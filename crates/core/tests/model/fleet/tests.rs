//! A fleet keeps what one daemon promises, wherever a node is lost, frozen, drained or taken over.

use crate::setup::{BLIND_HOLD, Faults, FleetSetup, HostKind, NodeFaults, Setup};
use crate::{NO_FAULTS, hold};
use bridge_core::port::SinkClass;
use bridge_core::step::MidTurn;
use bridge_core::value::Sandbox;
use std::collections::BTreeSet;

pub(super) const NONE: NodeFaults = NodeFaults {
    lost: 0,
    frozen: 0,
    whole: 0,
    moved: 0,
    drained: 0,
};
pub(super) const LOST: NodeFaults = NodeFaults { lost: 1, ..NONE };
pub(super) const FROZEN: NodeFaults = NodeFaults { frozen: 1, ..NONE };
pub(super) const WHOLE: NodeFaults = NodeFaults { whole: 1, ..NONE };

/// One death of a daemon, whose Codex goes on for a while.
pub(super) const DEATH: Faults = Faults {
    daemon: 1,
    ..NO_FAULTS
};

pub(super) fn fleet(messages: u8, faults: Faults, nodes: NodeFaults) -> Setup {
    let fleet = FleetSetup {
        faults: nodes,
        ahead_ms: [0, 0],
        leave_written: false,
        brief: true,
    };
    Setup {
        fleet: Some(fleet),
        ..Setup::new(messages, HostKind::Socket, faults)
    }
}

/// With everything that a node without a lease may still be about to do.
pub(super) fn with_late_steps(setup: Setup) -> Setup {
    let fleet = setup.fleet.map(|fleet| FleetSetup {
        brief: false,
        ..fleet
    });
    Setup { fleet, ..setup }
}

#[test]
fn one_message_survives_any_take_over() {
    for nodes in [LOST, FROZEN, WHOLE] {
        hold(fleet(1, DEATH, nodes));
    }
    let sandbox = Sandbox::ReadOnly;
    let setup = fleet(1, DEATH, FROZEN);
    hold(Setup { sandbox, ..setup });
}

#[test]
fn late_steps_of_lapsed_nodes_change_nothing() {
    for nodes in [LOST, FROZEN, WHOLE] {
        hold(with_late_steps(fleet(1, NO_FAULTS, nodes)));
        hold(with_late_steps(fleet(2, NO_FAULTS, nodes)));
    }
    let unknown = Faults {
        unknown: 1,
        ..NO_FAULTS
    };
    let setup = with_late_steps(fleet(1, unknown, FROZEN));
    let sink = SinkClass::Probeable;
    hold(Setup { sink, ..setup });
}

#[test]
fn replies_of_a_fleet_arrive_once() {
    let faults = Faults {
        unknown: 1,
        refused: 1,
        ..NO_FAULTS
    };
    for sink in [SinkClass::Idempotent, SinkClass::Probeable, BLIND_HOLD] {
        let setup = fleet(1, faults, FROZEN);
        hold(Setup { sink, ..setup });
    }
}

#[test]
fn moved_and_drained_conversations_go_on() {
    for nodes in [
        NodeFaults { moved: 2, ..NONE },
        NodeFaults { moved: 1, ..LOST },
        NodeFaults { drained: 1, ..NONE },
    ] {
        hold(fleet(2, NO_FAULTS, nodes));
    }
}

pub(super) fn leave_written(setup: Setup) -> Setup {
    let fleet = setup.fleet.map(|fleet| FleetSetup {
        leave_written: true,
        ..fleet
    });
    Setup { fleet, ..setup }
}

#[test]
fn written_files_keep_conversations_home() {
    let deaths = Faults { daemon: 2, ..DEATH };
    hold(leave_written(fleet(1, deaths, NONE)));
    let drained = NodeFaults { drained: 1, ..NONE };
    let rescued = NodeFaults { moved: 2, ..LOST };
    for nodes in [FROZEN, WHOLE, drained, rescued] {
        hold(leave_written(fleet(1, DEATH, nodes)));
    }
    for nodes in [FROZEN, drained, rescued] {
        hold(leave_written(fleet(2, NO_FAULTS, nodes)));
    }
}

/// By the one who runs it: its Codex ends, and it says that it leaves.
#[test]
fn stopped_nodes_leave_no_loose_end() {
    let stop = Faults {
        stop: 1,
        ..NO_FAULTS
    };
    hold(fleet(1, Faults { stop: 2, ..stop }, NONE));
    hold(leave_written(fleet(1, stop, FROZEN)));
    hold(leave_written(fleet(2, stop, NONE)));
}

/// Steps that are taken somewhere, or the exploration is not what it says.
const TAKEN: [&str; 20] = [
    "A PERSON DRAINS IT",
    "A PERSON MOVES THE CONVERSATION",
    "ALL OF IT IS FROZEN, and its lease ends",
    "ITS DAEMON IS FROZEN, and its lease ends",
    "THE HOST IS LOST",
    "codex completes the turn",
    "commit leave",
    "commit release",
    "commit store_segments: before the answer",
    "commit store_segments: before what was seen",
    "commit store_segments: early",
    "commit take_over",
    "its lease ends",
    "look for replies",
    "restore the thread",
    "sees that its lease has ended",
    "the daemon ends its codex and leaves",
    "the daemon is told to stop",
    "the daemon starts",
    "the keeper ends codex",
];

#[test]
fn every_kind_of_fleet_step_is_taken() {
    let mut taken = BTreeSet::new();
    let people = Faults {
        cancel: 1,
        stop: 1,
        ..NO_FAULTS
    };
    for (faults, nodes) in [
        (DEATH, NodeFaults { drained: 1, ..NONE }),
        (NO_FAULTS, NodeFaults { moved: 1, ..LOST }),
        (NO_FAULTS, FROZEN),
        (NO_FAULTS, WHOLE),
        (people, NONE),
    ] {
        taken.extend(hold(fleet(1, faults, nodes)));
    }
    let missed: Vec<_> = TAKEN.iter().filter(|step| !taken.contains(*step)).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}

/// More than a lease: by such a clock every lease has ended, or none does.
pub(super) const AHEAD_MS: i64 = 60_000;

pub(super) fn apart(setup: Setup, ahead_ms: [i64; 2]) -> Setup {
    let fleet = setup.fleet.map(|fleet| FleetSetup { ahead_ms, ..fleet });
    Setup { fleet, ..setup }
}

#[test]
fn clocks_of_machines_do_not_matter() {
    for ahead_ms in [[0, AHEAD_MS], [0, -AHEAD_MS]] {
        for nodes in [LOST, FROZEN] {
            hold(apart(fleet(1, NO_FAULTS, nodes), ahead_ms));
        }
    }
}

#[test]
fn steered_messages_survive_a_take_over() {
    let faults = Faults {
        deaf: 1,
        ..NO_FAULTS
    };
    let setup = fleet(2, faults, LOST);
    hold(Setup {
        mid_turn: MidTurn::Steer,
        ..setup
    });
}

#[test]
fn stopped_messages_end_in_a_fleet() {
    let faults = Faults {
        cancel: 1,
        turn: 1,
        ..NO_FAULTS
    };
    hold(fleet(1, faults, LOST));
    let faults = Faults { turn: 0, ..faults };
    for nodes in [LOST, FROZEN] {
        hold(fleet(2, faults, nodes));
    }
}
