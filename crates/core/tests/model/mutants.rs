//! The model bites: a defect planted in the driver breaks the rule that is there to catch it.
//! What the driver does without a defect is explored in `main`.

use crate::NO_FAULTS;
use crate::explore::explore;
use crate::setup::{Faults, HostKind, Mutant, Setup};
use bridge_core::port::SinkClass;
use bridge_core::step::MidTurn;

/// Insists that the defect breaks this rule first, and shows how.
pub(crate) fn caught(mutant: Mutant, setup: Setup, rule: &str) {
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

pub(crate) const TWICE: &str = "an effect was executed twice";
pub(crate) const SEEN_TWICE: &str = "a reply is seen twice";
pub(crate) const TWO_LIVE: &str = "two turns of one thread are live";
pub(crate) const STUCK: &str = "nothing more happens and a message is not finished";
const UNSEEN: &str = "a message is done and its answer was never seen";
const UNHEARD: &str = "a message has the answer of a turn that never heard it";
const CALLED_AGAIN: &str = "the model was called for a message that has an answer";
const OUT_OF_ORDER: &str = "replies are out of order";
const DUPLICATE: &str = "a row that was shown twice became two messages";

#[test]
fn catches_missing_harvest() {
    caught(Mutant::NoHarvest, one(HostKind::Stdio), TWICE);
    caught(Mutant::NoHarvest, one(HostKind::Socket), TWICE);
}

#[test]
fn catches_blind_rerun() {
    caught(Mutant::BlindRerun, one(HostKind::Stdio), TWICE);
}

#[test]
fn catches_restart_forgetting_in_flight_rows() {
    caught(Mutant::RestartForgets, one(HostKind::Stdio), TWICE);
    caught(Mutant::RestartForgets, one(HostKind::Socket), TWO_LIVE);
}

#[test]
fn catches_restart_leaving_in_flight_rows() {
    caught(Mutant::RestartLeaves, one(HostKind::Stdio), STUCK);
    caught(Mutant::RestartLeaves, one(HostKind::Socket), STUCK);
}

#[test]
fn catches_fresh_reply_keys() {
    caught(Mutant::FreshKey, one(HostKind::Stdio), SEEN_TWICE);
}

#[test]
fn catches_early_reply_confirmation() {
    caught(Mutant::ConfirmEarly, one(HostKind::Stdio), UNSEEN);
}

#[test]
fn catches_missing_reattach() {
    caught(Mutant::NoReattach, one(HostKind::Socket), TWO_LIVE);
}

#[test]
fn catches_turn_start_before_intent() {
    caught(Mutant::StartBeforeBegin, one(HostKind::Stdio), TWICE);
    caught(Mutant::StartBeforeBegin, one(HostKind::Socket), TWO_LIVE);
}

/// The rule that a measurement overthrew: an effect may be done and its item not on disk.
#[test]
fn catches_clean_retry_after_cut() {
    caught(Mutant::CleanRetry, one(HostKind::Stdio), TWICE);
    caught(Mutant::CleanRetry, one(HostKind::Socket), TWICE);
}

#[test]
fn catches_hasty_history_lookup() {
    caught(Mutant::HastyLook, one(HostKind::Socket), TWO_LIVE);
}

#[test]
fn catches_reply_sent_before_journal() {
    caught(Mutant::AnswerNotJournaled, one(HostKind::Stdio), SEEN_TWICE);
}

#[test]
fn catches_ignored_reboot() {
    let faults = Faults {
        reboot: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(1, HostKind::Stdio, faults);
    caught(Mutant::RebootIgnored, setup, TWICE);
}

#[test]
fn catches_duplicate_rows_taken() {
    caught(Mutant::DuplicateTaken, one(HostKind::Stdio), DUPLICATE);
}

#[test]
fn catches_resend_without_probe() {
    let sink = SinkClass::Probeable;
    let setup = one(HostKind::Stdio);
    caught(Mutant::ProbeSkipped, Setup { sink, ..setup }, SEEN_TWICE);
}

#[test]
fn catches_probe_failure_counted_as_refusal() {
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
fn catches_answering_undelivered_follower() {
    caught(Mutant::UnheardAnswered, together(HostKind::Stdio), UNHEARD);
}

#[test]
fn catches_follower_kept_after_turn_death() {
    caught(Mutant::FollowerKept, together(HostKind::Stdio), STUCK);
}

#[test]
fn catches_fresh_follower_after_cut() {
    caught(Mutant::FollowerFresh, together(HostKind::Stdio), TWICE);
}

#[test]
fn catches_steer_before_intent() {
    caught(Mutant::SteerBeforeJoin, together(HostKind::Socket), TWICE);
}

/// Three messages: the third one joins behind a text that was lost with the daemon, or on its way.
#[test]
fn catches_join_behind_unknown_receipt() {
    let dies = Faults {
        daemon: 1,
        ..NO_FAULTS
    };
    let lost = Faults {
        deaf: 1,
        ..NO_FAULTS
    };
    for faults in [dies, lost] {
        let setup = Setup {
            mid_turn: MidTurn::Steer,
            ..Setup::new(3, HostKind::Socket, faults)
        };
        caught(Mutant::UnknownForgotten, setup, OUT_OF_ORDER);
    }
}

#[test]
fn catches_cancel_forgetting_turn() {
    let faults = Faults {
        cancel: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(2, HostKind::Socket, faults);
    caught(Mutant::CancelForgetsTurn, setup, TWO_LIVE);
}

#[test]
fn catches_redrive_rerunning_answered_message() {
    let faults = Faults {
        refused: 1,
        redrive: 1,
        ..NO_FAULTS
    };
    let setup = Setup::new(1, HostKind::Stdio, faults);
    caught(Mutant::RedriveReruns, setup, CALLED_AGAIN);
}
