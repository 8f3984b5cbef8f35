//! Proof by exhaustion: every interleaving of messages, crashes and lost answers over the core's real transitions
//! and the ledger in memory, with a model of Codex and of the platform around them.
//!
//! What can't be wrong here can still be wrong at the edges: the real Codex, SQLite and processes have tests of
//! their own. What a continue-turn does is trusted (it looks before it repeats), and so is the order in which
//! Codex writes its history.

#![expect(clippy::unwrap_used, reason = "a model that cannot go on has failed")]

mod codex;
mod daemon;
mod explore;
mod fleet;
mod follow;
mod history;
mod join;
mod key;
mod lane;
mod mutants;
mod people;
mod platform;
mod reconcile;
mod restart;
mod rules;
mod setup;
mod sight;
mod steps;
mod work;
mod world;

use bridge_core::port::SinkClass;
use bridge_core::step::MidTurn;
use bridge_core::value::{CutPolicy, Sandbox};
use explore::explore;
use setup::{BLIND_HOLD, BLIND_RESEND, Faults, HostKind, Setup};
use std::collections::BTreeSet;

const NO_FAULTS: Faults = Faults {
    daemon: 0,
    stop: 0,
    codex: 0,
    reboot: 0,
    turn: 0,
    unknown: 0,
    refused: 0,
    probe: 0,
    deaf: 0,
    cancel: 0,
    redrive: 0,
};

/// What the promise of delivery is made against: two deaths of the daemon, one of Codex, a reply whose outcome nobody
/// knows, and one that is refused.
const DELIVERY: Faults = Faults {
    daemon: 2,
    codex: 1,
    unknown: 1,
    refused: 1,
    ..NO_FAULTS
};

/// Explores, says how far that went, and insists that no rule was broken.
fn hold(setup: Setup) -> BTreeSet<&'static str> {
    let report = explore(&setup);
    let found = report.violation.map(|violation| violation.to_string());
    println!("{setup}: {} states, {} quiet", report.states, report.quiet);
    assert!(found.is_none(), "{setup}: {}", found.unwrap_or_default());
    assert!(report.quiet > 0, "{setup} never comes to rest");
    report.steps
}

/// Where turns may write, and where they may not.
fn hold_with_both_powers(setup: Setup) {
    for sandbox in [Sandbox::ReadOnly, Sandbox::WorkspaceWrite] {
        hold(Setup { sandbox, ..setup });
    }
}

const HOSTS: [HostKind; 2] = [HostKind::Stdio, HostKind::Socket];

/// The promise itself, with every interleaving of two messages.
#[test]
fn two_messages_survive_faults_over_stdio() {
    hold(Setup::new(2, HostKind::Stdio, DELIVERY));
}

#[test]
fn two_messages_survive_faults_over_socket() {
    hold(Setup::new(2, HostKind::Socket, DELIVERY));
}

/// Everything else that can go wrong or be wanted, in one life of one message.
#[test]
fn one_message_survives_everything() {
    let deaths = Faults {
        daemon: 1,
        stop: 1,
        codex: 1,
        turn: 1,
        ..NO_FAULTS
    };
    let replies = Faults {
        turn: 1,
        daemon: 1,
        codex: 0,
        ..DELIVERY
    };
    for host in HOSTS {
        for faults in [deaths, replies] {
            hold_with_both_powers(Setup::new(1, host, faults));
        }
    }
}

#[test]
fn replies_honor_sink_class_guarantees() {
    for sink in [
        SinkClass::Idempotent,
        SinkClass::Probeable,
        BLIND_HOLD,
        BLIND_RESEND,
    ] {
        let faults = Faults {
            daemon: 2,
            unknown: 1,
            refused: 1,
            probe: 1,
            redrive: 1,
            ..NO_FAULTS
        };
        let setup = Setup::new(1, HostKind::Stdio, faults);
        hold(Setup { sink, ..setup });
        let faults = Faults {
            daemon: 1,
            unknown: 2,
            probe: 1,
            ..NO_FAULTS
        };
        let setup = Setup::new(2, HostKind::Socket, faults);
        hold(Setup { sink, ..setup });
    }
}

#[test]
fn reboot_losing_history_repeats_nothing() {
    let alone = Faults {
        reboot: 1,
        daemon: 1,
        codex: 1,
        ..NO_FAULTS
    };
    let power = Faults {
        reboot: 1,
        daemon: 1,
        ..NO_FAULTS
    };
    for host in HOSTS {
        hold_with_both_powers(Setup::new(1, host, alone));
        hold(Setup::new(2, host, power));
    }
}

#[test]
fn a_stopped_message_ends_cancelled_or_answered() {
    let faults = Faults {
        cancel: 1,
        daemon: 1,
        codex: 1,
        ..NO_FAULTS
    };
    let two = Faults { codex: 0, ..faults };
    for host in HOSTS {
        hold(Setup::new(2, host, two));
        let twice = Faults {
            cancel: 2,
            refused: 1,
            ..faults
        };
        hold(Setup::new(1, host, twice));
        let otherwise = Faults {
            cancel: 1,
            stop: 1,
            turn: 1,
            ..NO_FAULTS
        };
        hold(Setup::new(1, host, otherwise));
    }
}

#[test]
fn steered_message_is_answered_once() {
    let faults = Faults {
        daemon: 1,
        codex: 1,
        deaf: 1,
        ..NO_FAULTS
    };
    for host in HOSTS {
        let mid_turn = MidTurn::Steer;
        let setup = Setup::new(2, host, faults);
        hold_with_both_powers(Setup { mid_turn, ..setup });
        for (cancel, turn, daemon) in [(1, 0, 1), (0, 1, 0)] {
            let ends = Faults {
                cancel,
                turn,
                daemon,
                deaf: 1,
                ..NO_FAULTS
            };
            let setup = Setup::new(2, host, ends);
            hold(Setup { mid_turn, ..setup });
        }
        let alone = Faults {
            deaf: 1,
            ..NO_FAULTS
        };
        let setup = Setup::new(3, host, alone);
        hold(Setup { mid_turn, ..setup });
    }
    // The third one waits while nobody knows whether the second one's text arrived before the daemon died.
    let dies = Faults {
        daemon: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(3, HostKind::Socket, dies);
    hold(Setup {
        mid_turn: MidTurn::Steer,
        ..setup
    });
}

#[test]
fn redriven_dead_letter_completes() {
    let faults = Faults {
        redrive: 1,
        refused: 1,
        turn: 1,
        daemon: 1,
        unknown: 1,
        ..NO_FAULTS
    };
    for host in HOSTS {
        hold_with_both_powers(Setup::new(1, host, faults));
    }
    let fewer = Faults {
        unknown: 0,
        daemon: 0,
        ..faults
    };
    hold(Setup::new(2, HostKind::Stdio, fewer));
}

#[test]
fn interrupted_turn_follows_cut_policy() {
    let faults = Faults {
        daemon: 1,
        turn: 1,
        redrive: 1,
        ..NO_FAULTS
    };
    for host in HOSTS {
        for on_cut in [CutPolicy::Ask, CutPolicy::Bury] {
            let setup = Setup::new(1, host, faults);
            hold(Setup { on_cut, ..setup });
        }
    }
}

/// Steps that are taken somewhere, or the exploration is not what it says.
const TAKEN: [&str; 49] = [
    "A PERSON SENDS IT AGAIN",
    "A PERSON STOPS IT",
    "CODEX DIES",
    "THE DAEMON DIES",
    "THE MACHINE REBOOTS, and a turn is lost",
    "THE MACHINE REBOOTS, and a turn's tail is lost",
    "codex completes the turn",
    "codex deals with the text that it was given",
    "codex keeps the effect's item",
    "commit answer",
    "commit attach",
    "commit claim: buried",
    "commit claim: nobody said how it goes on",
    "commit confirm",
    "commit fail: it was stopped",
    "commit fail: nobody knows",
    "commit fail: not begun",
    "commit fail: the turn failed",
    "commit join",
    "commit join_unknown",
    "commit leave",
    "commit lose",
    "commit note",
    "commit receive: shown again",
    "commit reconcile: another turn is there",
    "commit reconcile: it completed",
    "commit reconcile: it failed",
    "commit reconcile: it is absent",
    "commit reconcile: it runs",
    "commit reconcile: it was cut",
    "commit reconcile: it was cut after its answer",
    "commit reconcile: unreadable",
    "commit send_failed: later",
    "commit send_failed: never",
    "commit send_failed: nobody knows",
    "commit suspend",
    "commit unbind",
    "nobody hears what became of the text",
    "the daemon ends with its codex",
    "the lane does not find the reply",
    "the lane finds the reply",
    "the look for the reply fails",
    "the platform takes the reply, and nobody hears of it",
    "the reply is lost on its way",
    "the running turn takes the text",
    "the text is lost, and nobody knows",
    "the turn meets a limit",
    "the turn for the text is over",
    "the turn takes the text, and nobody knows",
];

#[test]
fn every_kind_of_step_is_taken_somewhere() {
    let deaths = Faults {
        daemon: 1,
        stop: 1,
        codex: 1,
        turn: 1,
        ..NO_FAULTS
    };
    let mut taken = hold(Setup::new(1, HostKind::Stdio, deaths));
    taken.extend(hold(Setup::new(1, HostKind::Socket, DELIVERY)));
    let people = Faults {
        cancel: 1,
        redrive: 1,
        codex: 1,
        probe: 1,
        unknown: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(1, HostKind::Socket, people);
    taken.extend(hold(Setup {
        sink: SinkClass::Probeable,
        on_cut: CutPolicy::Ask,
        ..setup
    }));
    let together = Faults {
        codex: 1,
        deaf: 1,
        daemon: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(2, HostKind::Socket, together);
    taken.extend(hold(Setup {
        mid_turn: MidTurn::Steer,
        ..setup
    }));
    let power = Faults {
        reboot: 1,
        ..NO_FAULTS
    };
    taken.extend(hold(Setup::new(2, HostKind::Stdio, power)));
    let missed: Vec<_> = TAKEN.iter().filter(|step| !taken.contains(*step)).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}
