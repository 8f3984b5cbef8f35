//! Compares our types with the schema that the installed Codex generates, so that drift shows on
//! the day of an update: names of methods, fields we write, fields we read, words, and every
//! answer we can give. `bites` proves that the comparison can fail.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod bites;
mod install;

use bridge_codex::schema::{Finding, Schema, Severity, compare};
use bridge_codex::version::PINNED;

/// With the pinned Codex nothing may differ; another one may lack what we know. `cargo xtask matrix` reads the lines.
#[test]
fn our_types_fit_the_installed_codex() {
    let (version, files) = install::schema();
    let findings = compare(&Schema::new(files).unwrap());
    for finding in &findings {
        println!("differs: {finding}");
    }
    let borne = if version.to_string() == PINNED {
        None
    } else {
        Some(Severity::BlindSpot)
    };
    let bad: Vec<&Finding> = findings
        .iter()
        .filter(|finding| Some(finding.severity) > borne)
        .collect();
    assert!(
        bad.is_empty(),
        "{version} and crates/codex disagree: {bad:#?}"
    );
}
