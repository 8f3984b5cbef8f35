//! The rule about the fault matrix: `docs/faults.md` names a test for every fault that is promised to be survived
//! and every threat that is promised to be met, every test it names exists, and every test that is named after a
//! fault is in it. A threat may have more tests than its row names.

use super::Finding;
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where the matrix is.
const MATRIX: &str = "docs/faults.md";

/// The faults that must have a test: a letter, and the numbers from one to another.
const PROMISED: [(char, u32, u32); 12] = [
    ('K', 1, 16),
    ('C', 1, 22),
    ('S', 1, 5),
    ('S', 7, 11),
    ('T', 1, 3),
    ('N', 1, 1),
    ('N', 5, 6),
    ('N', 8, 9),
    ('N', 11, 12),
    ('P', 3, 4),
    ('P', 7, 8),
    ('P', 11, 11),
];

/// The threats that must have a test, such as `threat_15_…`.
const THREATS: [u32; 21] = [
    1, 3, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18, 20, 22, 24, 25, 27, 28, 29, 32,
];

/// Begins the names of tests of threats.
const THREAT: &str = "threat";

/// Tests that are named after a fault, and where they are.
#[derive(Debug, Default)]
pub(super) struct Named(BTreeMap<String, (std::path::PathBuf, usize)>);

impl Named {
    /// Takes note of the functions of a source that are named after a fault, such as `k1_a_death…`.
    pub(super) fn note(&mut self, source: &Source) {
        for function in source.functions() {
            let is_test = source.is_test_line(function.line);
            let named = fault_of(&function.name).or_else(|| threat_of(&function.name));
            if is_test && named.is_some() {
                self.0
                    .insert(function.name, (source.path.clone(), function.line));
            }
        }
    }
}

/// `K1` of `k1_a_death_before…`.
fn fault_of(name: &str) -> Option<String> {
    let (id, _) = name.split_once('_')?;
    let (letter, number) = id.split_at_checked(1)?;
    let letter = letter.chars().next()?.to_ascii_uppercase();
    let known = PROMISED.iter().any(|(known, _, _)| *known == letter);
    let number: u32 = number.parse().ok()?;
    known.then(|| format!("{letter}{number}"))
}

/// `Threat 15` of `threat_15_a_directory…`, and of the row's own `Threat 15`.
fn threat_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix(THREAT)?.trim_start_matches(['_', ' ']);
    let (number, _) = rest.split_once('_')?;
    let number: u32 = number.parse().ok()?;
    Some(format!("Threat {number}"))
}

/// Compares the matrix with the tests there are. A tree without a matrix has promised nothing.
pub(super) fn check(root: &Path, named: &Named, findings: &mut Vec<Finding>) {
    let path = Path::new(MATRIX);
    let Ok(matrix) = std::fs::read_to_string(root.join(path)) else {
        if let Some((name, (path, line))) = named.0.iter().next() {
            let what = format!("`{name}` is named after a fault, and there is no {MATRIX}");
            findings.push(Finding::new(path, *line, &what));
        }
        return;
    };
    let mut tested: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (line, row) in matrix.lines().enumerate() {
        let Some((id, tests)) = read(row) else {
            continue;
        };
        for test in &tests {
            if !named.0.contains_key(test) {
                let what = format!("{id} names `{test}`, and there is no such test");
                findings.push(Finding::new(path, line + 1, &what));
            }
        }
        tested.entry(id).or_default().extend(tests);
    }
    for (letter, first, last) in PROMISED {
        for number in first..=last {
            let id = format!("{letter}{number}");
            if tested.get(&id).is_none_or(BTreeSet::is_empty) {
                let what = format!("{id} has no test; write one and name it here");
                findings.push(Finding::new(path, 1, &what));
            }
        }
    }
    for number in THREATS {
        let id = format!("Threat {number}");
        if tested.get(&id).is_none_or(BTreeSet::is_empty) {
            let what = format!("{id} has no test; write one and name it here");
            findings.push(Finding::new(path, 1, &what));
        }
    }
    let faults = named.0.iter().filter(|(name, _)| threat_of(name).is_none());
    for (name, (place, line)) in faults {
        let listed = tested.values().any(|tests| tests.contains(name));
        if !listed {
            let what = format!("`{name}` is named after a fault; add it to {MATRIX}");
            findings.push(Finding::new(place, *line, &what));
        }
    }
}

/// A row of the table: the fault, and the tests in its last column.
fn read(row: &str) -> Option<(String, Vec<String>)> {
    let cells: Vec<&str> = row.strip_prefix('|')?.split('|').map(str::trim).collect();
    let id = (*cells.first()?).to_owned();
    let lower = format!("{}_", id.to_ascii_lowercase());
    fault_of(&lower).or_else(|| threat_of(&lower))?;
    let tests = cells.iter().rev().find(|cell| !cell.is_empty())?;
    let tests = tests
        .split('`')
        .skip(1)
        .step_by(2)
        .map(ToOwned::to_owned)
        .collect();
    Some((id, tests))
}
