//! The model of two nodes bites: a defect planted in how nodes share a ledger breaks the rule that is there to catch it.

use super::tests::{
    AHEAD_MS, DEATH, FROZEN, LOST, NONE, WHOLE, apart, fleet, leave_written, with_late_steps,
};
use crate::NO_FAULTS;
use crate::mutants::{SEEN_TWICE, STUCK, TWICE, TWO_LIVE, caught};
use crate::setup::{Mutant, NodeFaults, Setup};
use bridge_core::port::SinkClass;

const GIVEN_UP: &str = "a thread that is stored was given up";
const LEFT: &str = "a conversation left the node that has its files";
const LACKS: &str = "a node goes on with a thread that lacks an answered turn";

/// Two messages, and everything that a node without a lease may still be about to do.
fn two(nodes: NodeFaults) -> Setup {
    with_late_steps(fleet(2, NO_FAULTS, nodes))
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
fn catches_turn_after_the_lease() {
    caught(Mutant::LateTurn, two(WHOLE), TWICE);
}

/// Whichever of the two machines is wrong.
#[test]
fn catches_leases_by_the_machine_s_clock() {
    for ahead_ms in [[0, AHEAD_MS], [0, -AHEAD_MS]] {
        let setup = apart(two(NONE), ahead_ms);
        caught(Mutant::MachineClock, setup, GIVEN_UP);
    }
}

#[test]
fn catches_clock_that_slept() {
    caught(Mutant::SleepingClock, two(WHOLE), TWICE);
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
fn catches_written_files_released() {
    let drained = NodeFaults { drained: 1, ..NONE };
    caught(Mutant::WrittenReleased, leave_written(two(drained)), LEFT);
}

#[test]
fn catches_start_taking_everything() {
    let (setup, faults) = (two(NONE), DEATH);
    caught(Mutant::StartTakesAll, Setup { faults, ..setup }, TWO_LIVE);
}
