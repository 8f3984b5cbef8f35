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

#[test]
fn our_types_fit_the_installed_codex() {
    let (version, schema) = install::schema();
    let complaints = check::all(&schema);
    assert!(
        complaints.is_empty(),
        "{version} and crates/codex disagree in {} places:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
