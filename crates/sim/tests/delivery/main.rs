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
mod follow;
mod key;
mod lane;
mod mutants;
mod platform;
mod reconcile;
mod restart;
mod rules;
mod setup;
mod steps;
mod work;
mod world;

use bridge_core::value::Sandbox;
use explore::explore;
use setup::{Faults, HostKind, Setup};
use std::collections::BTreeSet;

/// Everything that can go wrong, in one life of one message.
const ALL: Faults = Faults {
    daemon: 2,
    stop: 1,
    codex: 1,
    turn: 1,
    unknown: 1,
    refused: 1,
};

/// What two messages are explored with: the deaths and everything that can happen to a reply.
const DEATHS_AND_REPLIES: Faults = Faults {
    stop: 0,
    turn: 0,
    ..ALL
};

/// What two messages are explored with besides: a stop and a turn that fails, around a death of the daemon.
const STOP_AND_FAILURE: Faults = Faults {
    daemon: 1,
    codex: 0,
    unknown: 0,
    refused: 0,
    ..ALL
};

/// Steps that are taken somewhere, or the exploration is not what it says.
const TAKEN: [&str; 29] = [
    "CODEX DIES",
    "THE DAEMON DIES",
    "codex completes the turn",
    "codex keeps the effect's item",
    "commit answer",
    "commit attach",
    "commit claim: buried",
    "commit confirm",
    "commit fail: nobody knows",
    "commit fail: not begun",
    "commit fail: the turn failed",
    "commit lose",
    "commit note",
    "commit reconcile: another turn is there",
    "commit reconcile: it completed",
    "commit reconcile: it failed",
    "commit reconcile: it is absent",
    "commit reconcile: it runs",
    "commit reconcile: it was cut",
    "commit reconcile: it was cut after its answer",
    "commit refuse: later",
    "commit refuse: never",
    "commit refuse: nobody knows",
    "commit suspend",
    "commit unbind",
    "the daemon ends with its codex",
    "the platform takes the reply, and nobody hears of it",
    "the reply is lost on its way",
    "the turn fails",
];

/// Explores with both powers, says how far that went, and insists that no rule was broken.
fn holds(messages: u8, host: HostKind, faults: Faults) -> BTreeSet<&'static str> {
    let mut taken = BTreeSet::new();
    for sandbox in [Sandbox::ReadOnly, Sandbox::WorkspaceWrite] {
        let setup = Setup {
            messages,
            host,
            sandbox,
            faults,
            mutant: None,
        };
        let report = explore(&setup);
        println!(
            "{setup:?}: {} states, {} quiet",
            report.states, report.quiet
        );
        let found = report.violation.map(|violation| violation.to_string());
        assert!(found.is_none(), "{setup:?}: {}", found.unwrap_or_default());
        assert!(report.quiet > 0, "{setup:?} never comes to rest");
        taken.extend(report.steps);
    }
    taken
}

#[test]
fn one_message_survives_everything() {
    let mut taken = holds(1, HostKind::Stdio, ALL);
    taken.extend(holds(1, HostKind::Socket, ALL));
    let missed: Vec<_> = TAKEN.iter().filter(|step| !taken.contains(*step)).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}

#[test]
fn two_messages_survive_deaths_and_lost_replies_when_codex_ends_with_the_daemon() {
    holds(2, HostKind::Stdio, DEATHS_AND_REPLIES);
}

#[test]
fn two_messages_survive_deaths_and_lost_replies_when_codex_goes_on() {
    holds(2, HostKind::Socket, DEATHS_AND_REPLIES);
}

#[test]
fn two_messages_survive_stops_and_failed_turns() {
    holds(2, HostKind::Stdio, STOP_AND_FAILURE);
    holds(2, HostKind::Socket, STOP_AND_FAILURE);
}
