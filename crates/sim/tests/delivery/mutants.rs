//! The model bites: a defect planted in the driver breaks the rule that is there to catch it.
//! What the driver does without a defect is explored in `main`.

use crate::NO_FAULTS;
use crate::explore::explore;
use crate::setup::{Faults, HostKind, Mutant, Setup};
use bridge_core::port::SinkClass;
use bridge_core::step::MidTurn;

/// Insists that the defect breaks this rule first, and shows how.
fn caught(mutant: Mutant, setup: Setup, rule: &str) {
    let setup = Setup {
        mutant: Some(mutant),
        ..setup
    };
    let report = explore(&setup);
    let violation = report.violation.unwrap();
    println!("{mutant:?} ({} states): {violation}", report.states);
    assert_eq!(violation.rule, rule, "{mutant:?}");
}

/// One message and the faults that a message alone can meet.
fn one(host: HostKind) -> Setup {
    let faults = Faults {
        daemon: 1,
        codex: 1,
        unknown: 1,
        refused: 1,
        ..NO_FAULTS
    };
    Setup::new(1, host, faults)
}

/// Two messages, of which the second is given to the turn of the first.
fn together(host: HostKind) -> Setup {
    let faults = Faults {
        daemon: 1,
        codex: 1,
        deaf: 1,
        ..NO_FAULTS
    };
    Setup {
        mid_turn: MidTurn::Steer,
        ..Setup::new(2, host, faults)
    }
}

const TWICE: &str = "an effect was executed twice";
const SEEN_TWICE: &str = "a reply is seen twice";
const TWO_LIVE: &str = "two turns of one thread are live";
const STUCK: &str = "nothing more happens and a message is not finished";
const UNSEEN: &str = "a message is done and its answer was never seen";
const ACKED_EARLY: &str = "the source was told before anything was seen";
const UNHEARD: &str = "a message has the answer of a turn that never heard it";
const CALLED_AGAIN: &str = "the model was called for a message that has an answer";
const DUPLICATE: &str = "a row that was shown twice became two messages";

#[test]
fn a_finished_turn_that_is_not_harvested_is_caught() {
    caught(Mutant::NoHarvest, one(HostKind::Stdio), TWICE);
    caught(Mutant::NoHarvest, one(HostKind::Socket), TWICE);
}

#[test]
fn a_lost_turn_that_is_run_again_blindly_is_caught() {
    caught(Mutant::BlindRerun, one(HostKind::Stdio), TWICE);
}

#[test]
fn a_restart_that_forgets_what_was_in_flight_is_caught() {
    caught(Mutant::RestartForgets, one(HostKind::Stdio), TWICE);
    caught(Mutant::RestartForgets, one(HostKind::Socket), TWO_LIVE);
}

#[test]
fn a_restart_that_leaves_what_was_in_flight_is_caught() {
    caught(Mutant::RestartLeaves, one(HostKind::Stdio), STUCK);
    caught(Mutant::RestartLeaves, one(HostKind::Socket), STUCK);
}

#[test]
fn a_reply_without_intent_and_with_a_new_key_each_time_is_caught() {
    caught(Mutant::FreshKey, one(HostKind::Stdio), SEEN_TWICE);
}

#[test]
fn an_ack_at_the_answer_is_caught() {
    caught(Mutant::AckAtAnswered, one(HostKind::Stdio), ACKED_EARLY);
}

#[test]
fn a_reply_that_counts_as_sent_before_the_platform_took_it_is_caught() {
    caught(Mutant::ConfirmEarly, one(HostKind::Stdio), UNSEEN);
}

#[test]
fn a_new_turn_beside_one_that_runs_is_caught() {
    caught(Mutant::NoReattach, one(HostKind::Socket), TWO_LIVE);
}

#[test]
fn a_turn_that_is_started_before_its_intent_is_on_disk_is_caught() {
    caught(Mutant::StartBeforeBegin, one(HostKind::Stdio), TWICE);
    caught(Mutant::StartBeforeBegin, one(HostKind::Socket), TWO_LIVE);
}

/// The rule that a measurement overthrew: an effect may be done and its item not on disk.
#[test]
fn a_clean_retry_because_no_effect_is_on_disk_is_caught() {
    caught(Mutant::CleanRetry, one(HostKind::Stdio), TWICE);
    caught(Mutant::CleanRetry, one(HostKind::Socket), TWICE);
}

#[test]
fn a_look_that_does_not_wait_for_the_history_is_caught() {
    caught(Mutant::HastyLook, one(HostKind::Socket), TWO_LIVE);
}

#[test]
fn an_answer_that_is_sent_before_it_is_journaled_is_caught() {
    caught(Mutant::AnswerNotJournaled, one(HostKind::Stdio), SEEN_TWICE);
}

#[test]
fn a_turn_that_a_reboot_took_and_that_counts_as_never_run_is_caught() {
    let faults = Faults {
        reboot: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(1, HostKind::Stdio, faults);
    caught(Mutant::RebootIgnored, setup, TWICE);
}

#[test]
fn a_row_shown_twice_that_becomes_two_messages_is_caught() {
    caught(Mutant::DuplicateTaken, one(HostKind::Stdio), DUPLICATE);
}

#[test]
fn a_reply_that_is_sent_again_without_a_look_is_caught() {
    let sink = SinkClass::Probeable;
    let setup = one(HostKind::Stdio);
    caught(Mutant::ProbeSkipped, Setup { sink, ..setup }, SEEN_TWICE);
}

#[test]
fn a_failed_look_that_counts_as_a_refusal_is_caught() {
    let faults = Faults {
        unknown: 1,
        probe: 1,
        ..NO_FAULTS
    };
    let setup = Setup {
        sink: SinkClass::Probeable,
        ..Setup::new(1, HostKind::Stdio, faults)
    };
    caught(Mutant::ProbeFailureRefuses, setup, SEEN_TWICE);
}

#[test]
fn a_follower_that_is_answered_although_nobody_heard_it_is_caught() {
    caught(Mutant::UnheardAnswered, together(HostKind::Stdio), UNHEARD);
}

#[test]
fn a_follower_that_stays_when_its_turn_dies_is_caught() {
    caught(Mutant::FollowerKept, together(HostKind::Stdio), STUCK);
}

#[test]
fn a_follower_that_starts_afresh_after_its_turn_was_cut_is_caught() {
    caught(Mutant::FollowerFresh, together(HostKind::Stdio), TWICE);
}

#[test]
fn a_text_that_a_turn_hears_before_the_intent_is_on_disk_is_caught() {
    caught(Mutant::SteerBeforeJoin, together(HostKind::Socket), TWICE);
}

#[test]
fn a_stop_that_forgets_the_running_turn_is_caught() {
    let faults = Faults {
        cancel: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(2, HostKind::Socket, faults);
    caught(Mutant::CancelForgetsTurn, setup, TWO_LIVE);
}

#[test]
fn a_dead_letter_with_an_answer_that_is_run_again_is_caught() {
    let faults = Faults {
        refused: 1,
        redrive: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(1, HostKind::Stdio, faults);
    caught(Mutant::RedriveReruns, setup, CALLED_AGAIN);
}
