//! The model bites: a defect planted in the driver breaks the rule that is there to catch it.
//! What the driver does without a defect is explored in `main`.

use crate::ALL;
use crate::explore::explore;
use crate::setup::{HostKind, Mutant, Setup};
use bridge_core::value::Sandbox;

/// Insists that the defect breaks this rule first, and shows how.
fn caught(mutant: Mutant, host: HostKind, rule: &str) {
    let setup = Setup {
        messages: 1,
        host,
        sandbox: Sandbox::WorkspaceWrite,
        faults: ALL,
        mutant: Some(mutant),
    };
    let report = explore(&setup);
    let violation = report.violation.unwrap();
    println!("{mutant:?} ({} states): {violation}", report.states);
    assert_eq!(violation.rule, rule, "{mutant:?}");
}

const TWICE: &str = "an effect was executed twice";
const SEEN_TWICE: &str = "a reply is seen twice";
const TWO_LIVE: &str = "two turns of one thread are live";
const STUCK: &str = "nothing more happens and a message is not finished";

#[test]
fn a_lost_turn_that_is_run_again_blindly_is_caught() {
    caught(Mutant::BlindRerun, HostKind::Stdio, TWICE);
}

#[test]
fn a_restart_that_forgets_what_was_in_flight_is_caught() {
    caught(Mutant::RestartForgets, HostKind::Stdio, TWICE);
    caught(Mutant::RestartForgets, HostKind::Socket, TWO_LIVE);
}

#[test]
fn a_restart_that_leaves_what_was_in_flight_is_caught() {
    caught(Mutant::RestartLeaves, HostKind::Stdio, STUCK);
    caught(Mutant::RestartLeaves, HostKind::Socket, STUCK);
}

#[test]
fn a_reply_without_intent_and_with_a_new_key_each_time_is_caught() {
    caught(Mutant::FreshKey, HostKind::Stdio, SEEN_TWICE);
}

#[test]
fn a_turn_that_is_started_before_its_intent_is_on_disk_is_caught() {
    caught(Mutant::StartBeforeBegin, HostKind::Stdio, TWICE);
    caught(Mutant::StartBeforeBegin, HostKind::Socket, TWO_LIVE);
}

#[test]
fn a_new_turn_beside_one_that_runs_is_caught() {
    caught(Mutant::NoReattach, HostKind::Socket, TWO_LIVE);
}

#[test]
fn an_answer_that_is_sent_before_it_is_journaled_is_caught() {
    caught(Mutant::AnswerNotJournaled, HostKind::Stdio, SEEN_TWICE);
}

/// The rule that a measurement overthrew: an effect may be done and its item not on disk.
#[test]
fn a_clean_retry_because_no_effect_is_on_disk_is_caught() {
    caught(Mutant::CleanRetry, HostKind::Stdio, TWICE);
    caught(Mutant::CleanRetry, HostKind::Socket, TWICE);
}

#[test]
fn a_look_that_does_not_wait_for_the_history_is_caught() {
    caught(Mutant::HastyLook, HostKind::Socket, TWO_LIVE);
}

#[test]
fn a_finished_turn_that_is_not_harvested_is_caught() {
    caught(Mutant::NoHarvest, HostKind::Stdio, TWICE);
    caught(Mutant::NoHarvest, HostKind::Socket, TWICE);
}
