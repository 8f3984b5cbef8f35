//! The rule about the fault matrix: `docs/faults.md` names a test for every fault that is promised to be survived
//! every finding of an adversary that is promised to be closed, and every threat that is promised to be met. Every test
//! it names exists, and every test that is named after a fault or finding, or is an attack, is in it. A threat may have
//! more tests than its row names.

use super::Finding;
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where the matrix is.
const MATRIX: &str = "docs/faults.md";

/// The faults and findings that must have a test: a letter, and the numbers from one to another.
const PROMISED: [(char, u32, u32); 15] = [
    ('D', 1, 10),
    ('F', 1, 10),
    ('K', 1, 11),
    // K12 and K13 were faults of per-message acks, which are gone.
    ('K', 14, 16),
    ('C', 1, 23),
    ('S', 1, 5),
    ('S', 7, 11),
    ('T', 1, 3),
    ('N', 1, 1),
    ('N', 5, 6),
    ('N', 8, 9),
    ('N', 11, 16),
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

/// Begins the rows of attacks that held, such as `Attack: HTTP parsing`.
const ATTACK: &str = "Attack: ";

/// The folder whose tests are attacks, each in a row.
const ATTACKS: &str = "attacks";

/// Where a test is.
type Place = (std::path::PathBuf, usize);

/// Tests that are named after a fault or are attacks, and where they are; and the names of all tests.
#[derive(Debug, Default)]
pub(super) struct Named {
    faults: BTreeMap<String, Place>,
    attacks: BTreeMap<String, Place>,
    all: BTreeSet<String>,
}

impl Named {
    /// Takes note of the functions of a source that are named after a fault, such as `k1_a_death…`.
    pub(super) fn note(&mut self, source: &Source) {
        for function in source.functions() {
            let is_test = source.is_test_line(function.line);
            let named = fault_of(&function.name).or_else(|| threat_of(&function.name));
            if is_test && named.is_some() {
                self.faults
                    .insert(function.name, (source.path.clone(), function.line));
            }
        }
        let attacks = source.path.iter().any(|part| part == ATTACKS);
        for (name, line) in tests_of(source) {
            if attacks {
                let place = (source.path.clone(), line);
                self.attacks.insert(name.clone(), place);
            }
            self.all.insert(name);
        }
    }

    fn knows(&self, id: &str, test: &str) -> bool {
        if id.starts_with(ATTACK) {
            self.all.contains(test)
        } else {
            self.faults.contains_key(test)
        }
    }
}

/// The functions that carry the mark of a test.
fn tests_of(source: &Source) -> Vec<(String, usize)> {
    let marks = source.attributes().into_iter().filter(|(_, mark)| {
        let mark = mark.split('(').next().unwrap_or_default();
        mark == "test" || mark == "tokio::test"
    });
    let functions = source.functions();
    let marked = marks.filter_map(|(line, _)| {
        let behind = functions.iter().filter(|function| function.line >= line);
        let first = behind.min_by_key(|function| function.line)?;
        Some((first.name.clone(), first.line))
    });
    marked.collect()
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
        if let Some((name, (path, line))) = named.faults.iter().next() {
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
            if !named.knows(&id, test) {
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
    let faults = named.faults.iter();
    let faults = faults.filter(|(name, _)| threat_of(name).is_none());
    for (name, place) in faults {
        check_listed(&tested, name, place, "is named after a fault", findings);
    }
    for (name, place) in &named.attacks {
        check_listed(&tested, name, place, "is an attack", findings);
    }
}

/// A test that is of this kind must be in some row.
fn check_listed(
    tested: &BTreeMap<String, BTreeSet<String>>,
    name: &str,
    (place, line): &Place,
    kind: &str,
    findings: &mut Vec<Finding>,
) {
    if !tested.values().any(|tests| tests.contains(name)) {
        let what = format!("`{name}` {kind}; add it to {MATRIX}");
        findings.push(Finding::new(place, *line, &what));
    }
}

/// A row of the table: the fault, and the tests in its last column.
fn read(row: &str) -> Option<(String, Vec<String>)> {
    let cells: Vec<&str> = row.strip_prefix('|')?.split('|').map(str::trim).collect();
    let id = (*cells.first()?).to_owned();
    let lower = format!("{}_", id.to_ascii_lowercase());
    if !id.starts_with(ATTACK) {
        fault_of(&lower).or_else(|| threat_of(&lower))?;
    }
    let tests = cells.iter().rev().find(|cell| !cell.is_empty())?;
    let tests = tests
        .split('`')
        .skip(1)
        .step_by(2)
        .map(ToOwned::to_owned)
        .collect();
    Some((id, tests))
}
