//! The model of two nodes bites: a defect planted in how nodes share a ledger breaks the rule that is there to catch it.

use super::tests::{DEATH, FROZEN, LOST, NONE, fleet};
use crate::NO_FAULTS;
use crate::mutants::{SEEN_TWICE, STUCK, TWICE, TWO_LIVE, caught};
use crate::setup::{FleetSetup, Mutant, NodeFaults, Setup};
use bridge_core::port::SinkClass;

const LACKS: &str = "a node goes on with a thread that lacks an answered turn";

/// Two messages, and everything that a node without a lease may still be about to do.
fn two(nodes: NodeFaults) -> Setup {
    let setup = fleet(2, NO_FAULTS, nodes);
    let fleet = setup.fleet.map(|fleet| FleetSetup {
        brief: false,
        ..fleet
    });
    Setup { fleet, ..setup }
}

fn probeable(nodes: NodeFaults) -> Setup {
    let sink = SinkClass::Probeable;
    Setup { sink, ..two(nodes) }
}

#[test]
fn catches_missing_fence() {
    caught(Mutant::NoFencing, two(FROZEN), STUCK);
}

#[test]
fn catches_claim_without_home() {
    caught(Mutant::ClaimAnywhere, two(FROZEN), STUCK);
}

#[test]
fn catches_take_over_of_living_node() {
    caught(Mutant::TakeOverLiving, two(LOST), STUCK);
}

#[test]
fn catches_replies_sent_elsewhere() {
    caught(Mutant::SendAnywhere, probeable(LOST), SEEN_TWICE);
}

#[test]
fn catches_reply_after_the_lease() {
    caught(Mutant::LateReply, probeable(FROZEN), SEEN_TWICE);
}

#[test]
fn catches_answer_before_its_segment() {
    caught(Mutant::AnswerBeforeSegment, two(LOST), LACKS);
}

#[test]
fn catches_projection_of_old_branch() {
    let setup = two(NodeFaults { moved: 1, ..NONE });
    let faults = DEATH;
    caught(Mutant::ProjectionKept, Setup { faults, ..setup }, LACKS);
}

#[test]
fn catches_thread_not_restored() {
    caught(Mutant::NotRestored, two(LOST), LACKS);
}

#[test]
fn catches_lost_turn_counted_clean() {
    caught(Mutant::LostCountsClean, two(LOST), TWICE);
}

#[test]
fn catches_start_taking_everything() {
    let (setup, faults) = (two(NONE), DEATH);
    caught(Mutant::StartTakesAll, Setup { faults, ..setup }, TWO_LIVE);
}
