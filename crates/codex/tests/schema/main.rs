//! Compares our types with the schema that the installed Codex generates, so that drift shows on
//! the day of an update: names of methods, fields we write, fields we read, words, and every
//! answer we can give. The lists come from the types themselves (`each_reader`, `each_method`,
//! serialized samples), and `bites` proves that the check can fail.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod bites;
mod check;
mod install;
mod minimal;
mod probe;
mod samples;
mod schema;
mod written;

use bridge_codex::version::PINNED;
use check::{Complaint, Grade};

/// With the pinned Codex nothing may differ; another one may lack what we know. `cargo xtask matrix` reads the lines.
#[test]
fn our_types_fit_the_installed_codex() {
    let (version, schema) = install::schema();
    let complaints = check::all(&schema);
    for complaint in &complaints {
        println!("differs: {complaint}");
    }
    let borne = if version.to_string() == PINNED {
        None
    } else {
        Some(Grade::Blind)
    };
    let bad: Vec<&Complaint> = complaints
        .iter()
        .filter(|complaint| Some(complaint.grade) > borne)
        .collect();
    assert!(
        bad.is_empty(),
        "{version} and crates/codex disagree: {bad:#?}"
    );
}

#[test]
fn complaints_are_graded() {
    let grade = |text: &str| Complaint::from(text.to_owned()).grade;
    for (text, expected) in [
        (
            "TurnStatus: codex has the new word \"paused\"",
            Grade::Blind,
        ),
        ("sleep: codex has no such item", Grade::Harmless),
        ("agentMessage: codex has no such item", Grade::Breaks),
        (
            "MessagePhase: codex no longer has the word \"x\"",
            Grade::Harmless,
        ),
        (
            "turn/start.input: we write it, codex does not know it",
            Grade::Breaks,
        ),
        (
            "userMessage.clientId: we read it, codex does not send it",
            Grade::Breaks,
        ),
        ("turn/completed: codex has no such message", Grade::Breaks),
    ] {
        assert_eq!(grade(text), expected, "{text}");
    }
}
