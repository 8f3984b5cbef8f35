//! Reads what a kit wrote and says what of it counts: its exit status is non-zero for anything optional too, and its
//! console adds what it did not test to what failed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::waivers::{KIT_03, KIT_10, Waiver};

/// How many of one level passed, failed, were skipped or not tested.
type Counts = BTreeMap<String, usize>;

/// Prints the figures of the 1.0 kit; the MUSTs that failed and have no waiver.
pub(super) fn judge_10(report: &Path) -> anyhow::Result<Vec<String>> {
    let read = read(report)?;
    let requirements = read.get("per_requirement").and_then(Value::as_object);
    let requirements = requirements.context("the report has no per_requirement")?;
    let mut levels: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, requirement) in requirements {
        let level = text(requirement, "level");
        let status = text(requirement, "status").to_ascii_lowercase();
        if status.starts_with("fail") {
            println!("failed: {name} ({level}): {}", errors(requirement));
            if level.eq_ignore_ascii_case("must") {
                failed.push(name.clone());
            }
        }
        *levels.entry(level).or_default().entry(status).or_default() += 1;
    }
    for (level, counts) in &levels {
        println!("{level}: {}", shown(counts));
    }
    Ok(unexcused(failed, KIT_10))
}

/// Prints the figures of the 0.3 kit's mandatory category; the tests that failed and have no waiver.
pub(super) fn judge_03(report: &Path) -> anyhow::Result<Vec<String>> {
    let read = read(report)?;
    let tests = read.get("tests").and_then(Value::as_array);
    let tests = tests.context("the report has no tests")?;
    let mut counts = Counts::new();
    let mut failed = Vec::new();
    for test in tests {
        let (name, outcome) = (text(test, "nodeid"), text(test, "outcome"));
        *counts.entry(outcome.to_owned()).or_default() += 1;
        if outcome == "failed" || outcome == "error" {
            println!("failed: {name}");
            failed.push(name.rsplit("::").next().unwrap_or(name).to_owned());
        }
    }
    println!("0.3 mandatory: {}", shown(&counts));
    Ok(unexcused(failed, KIT_03))
}

fn read(report: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(report).with_context(|| report.display().to_string())?;
    serde_json::from_str(&text).with_context(|| report.display().to_string())
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn errors(requirement: &Value) -> String {
    requirement
        .get("errors")
        .map(Value::to_string)
        .unwrap_or_default()
}

fn shown(counts: &Counts) -> String {
    let words: Vec<String> = counts
        .iter()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    words.join(", ")
}

/// What is left when those with a waiver are taken out; both lists are told of where they disagree.
fn unexcused(failed: Vec<String>, waivers: &[Waiver]) -> Vec<String> {
    for waiver in waivers {
        if failed.iter().any(|name| name == waiver.requirement) {
            println!("waived: {}: {}", waiver.requirement, waiver.reason)
        } else {
            println!("the waiver for {} was not needed", waiver.requirement)
        }
    }
    let excused = |name: &String| waivers.iter().any(|waiver| waiver.requirement == name);
    failed.into_iter().filter(|name| !excused(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_waiver_names_is_left() {
        let waiver = Waiver {
            requirement: "A-1",
            reason: "section 1 says otherwise",
        };
        let failed = vec!["A-1".to_owned(), "B-2".to_owned()];
        assert_eq!(unexcused(failed, &[waiver]), ["B-2"]);
    }

    #[test]
    fn report_counts_only_failed_musts() {
        let place = std::env::temp_dir().join(format!("cb-verdict-{}", std::process::id()));
        let report = serde_json::json!({"per_requirement": {
            "X-1": {"level": "MUST", "status": "FAIL", "errors": ["no"]},
            "X-2": {"level": "SHOULD", "status": "FAIL", "errors": []},
            "X-3": {"level": "MUST", "status": "PASS", "errors": []},
            "X-4": {"level": "MUST", "status": "NOT TESTED", "errors": []},
        }});
        fs::write(&place, report.to_string()).unwrap();
        let judged = judge_10(&place);
        fs::remove_file(&place).unwrap();
        assert_eq!(judged.unwrap(), ["X-1"]);
    }
}
