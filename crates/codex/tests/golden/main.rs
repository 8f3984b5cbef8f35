//! Replays what the real binary said through link, fold and oracle, and compares whole outcomes.
//!
//! The transcripts beside this file are of codex-cli 0.166.0 against a scripted model on loopback;
//! paths are replaced, nothing else.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod histories;
mod replay;
mod turns;

use std::path::Path;

use bridge_codex::wire::Method;
use serde_json::Value;

pub(crate) fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn read<M: Method>(value: &Value) -> M::Response {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{}: {e}", M::NAME))
}
