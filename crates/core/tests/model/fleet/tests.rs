//! A fleet keeps what one daemon promises, wherever a node is lost, frozen, drained or taken over.

use crate::setup::{BLIND_HOLD, Faults, FleetSetup, HostKind, NodeFaults, Setup};
use crate::{NO_FAULTS, hold};
use bridge_core::port::SinkClass;
use bridge_core::step::MidTurn;
use bridge_core::value::Sandbox;

pub(super) const NONE: NodeFaults = NodeFaults {
    lost: 0,
    frozen: 0,
    whole: 0,
    moved: 0,
    drained: 0,
};
pub(super) const LOST: NodeFaults = NodeFaults { lost: 1, ..NONE };
pub(super) const FROZEN: NodeFaults = NodeFaults { frozen: 1, ..NONE };
const WHOLE: NodeFaults = NodeFaults { whole: 1, ..NONE };

/// One death of a daemon, whose Codex goes on for a while.
pub(super) const DEATH: Faults = Faults {
    daemon: 1,
    ..NO_FAULTS
};

pub(super) fn fleet(messages: u8, faults: Faults, nodes: NodeFaults) -> Setup {
    let fleet = FleetSetup {
        faults: nodes,
        leave_written: false,
        brief: true,
    };
    Setup {
        fleet: Some(fleet),
        ..Setup::new(messages, HostKind::Socket, faults)
    }
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

/// With everything that a node without a lease may still be about to do.
#[test]
fn late_steps_of_lapsed_nodes_change_nothing() {
    for nodes in [LOST, FROZEN, WHOLE] {
        let setup = fleet(1, NO_FAULTS, nodes);
        let fleet = setup.fleet.map(|fleet| FleetSetup {
            brief: false,
            ..fleet
        });
        hold(Setup { fleet, ..setup });
    }
}

#[test]
fn two_messages_survive_any_take_over() {
    for nodes in [LOST, FROZEN, WHOLE] {
        hold(fleet(2, NO_FAULTS, nodes));
    }
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

#[test]
fn written_files_keep_conversations_home() {
    let deaths = Faults { daemon: 2, ..DEATH };
    let setup = fleet(1, deaths, NONE);
    let fleet = setup.fleet.map(|fleet| FleetSetup {
        leave_written: true,
        ..fleet
    });
    hold(Setup { fleet, ..setup });
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
