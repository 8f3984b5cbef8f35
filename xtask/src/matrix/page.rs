//! The page that says on which versions of Codex what was tested.

use super::core::{CORE, Counts, TRAITS};
use bridge_host::version::{FLOOR, PINNED, Version};
use std::fmt::Write as _;

/// The result of one version.
pub(super) struct Tested {
    pub(super) version: Version,
    /// The day of its release, if the registry said.
    pub(super) released: Option<String>,
    pub(super) tested: String,
    /// In the order of the groups.
    pub(super) counts: Vec<Counts>,
    /// Which of the traits it has, in their order.
    pub(super) traits: Vec<bool>,
    /// Tests that failed, also when they were tried again.
    pub(super) failed: Vec<String>,
    /// Whether all that we write and read is as it was, beside what is harmless or new.
    pub(super) fits: bool,
    /// How its schema differs from what we know.
    pub(super) differences: Vec<String>,
}

impl Tested {
    pub(super) fn passed(&self) -> bool {
        self.failed.is_empty() && self.fits
    }

    fn differs(&self) -> bool {
        !self.differences.is_empty() || !self.failed.is_empty() || self.traits.contains(&false)
    }

    /// What people see where it lacks a trait.
    fn otherwise(&self) -> impl Iterator<Item = &'static str> {
        let traits = TRAITS.iter().zip(&self.traits);
        traits
            .filter(|(_, has)| !**has)
            .map(|(one, _)| one.otherwise)
    }
}

const HEAD: &str = "# Versions of Codex

Written by `cargo xtask matrix`, which asks npm's registry which versions there are and runs the same tests of the suite on each, with the real Codex and the scripted model: the oldest supported version, every second minor version after it, the pinned one, the newest stable one and the newest alpha. `cargo xtask test` runs everything on the pinned version and a short core on the oldest.
A cell says how many of its tests passed; one that failed was tried once more, alone (*again*). The schema that the binary generates is compared with the types of this bridge: `fits` means that everything which is written and read is there.
Linux, x86_64; no account and no real model, so logins and limits of accounts are not covered.
";

/// The whole page.
pub(super) fn page(tested: &[Tested]) -> String {
    let groups = CORE.iter().map(|group| group.name);
    let names: Vec<&str> = groups.chain(TRAITS.iter().map(|one| one.name)).collect();
    let mut text = format!(
        "{HEAD}\n| Codex | released | tested | {} | schema |\n|{}\n",
        names.join(" | "),
        " --- |".repeat(names.len() + 4)
    );
    for row in tested {
        text += &self::row(row);
        text.push('\n');
    }
    let differing: Vec<&Tested> = tested.iter().filter(|row| row.differs()).collect();
    if differing.is_empty() {
        return text;
    }
    text += "\n## What differs\n\n`harmless`: it lacks something that this bridge knows, which then never comes. `blind spot`: it can say something that this bridge does not know. `breaks`: something is not understood as it is meant.\n";
    for row in differing {
        // Writing to a string does not fail.
        let _infallible = writeln!(text, "\n{}:\n", row.version);
        for name in &row.failed {
            let _infallible = writeln!(text, "- failed: `{name}`");
        }
        for otherwise in row.otherwise() {
            let _infallible = writeln!(text, "- {otherwise}");
        }
        for difference in &row.differences {
            let _infallible = writeln!(text, "- {difference}");
        }
    }
    text
}

/// One row of the table.
pub(super) fn row(tested: &Tested) -> String {
    let version = &tested.version;
    let name = if *version == FLOOR {
        format!("{version} (oldest)")
    } else if version.to_string() == PINNED {
        format!("{version} (pinned)")
    } else {
        version.to_string()
    };
    let counts = tested.counts.iter().map(cell);
    let traits = tested.traits.iter();
    let traits = traits.map(|has| if *has { "yes" } else { "no" }.to_owned());
    let schema = match (tested.fits, tested.differences.len()) {
        (true, 0) => "same".to_owned(),
        (true, number) => format!("fits, {number} differ"),
        (false, number) => format!("**breaks**, {number} differ"),
    };
    let released = tested.released.as_deref().unwrap_or("");
    let cells: Vec<String> = [name, released.to_owned(), tested.tested.clone()]
        .into_iter()
        .chain(counts)
        .chain(traits)
        .chain([schema])
        .collect();
    format!("| {} |", cells.join(" | "))
}

fn cell(counts: &Counts) -> String {
    let Counts { passed, alone, all } = counts;
    let again = if *alone > 0 {
        format!(" ({alone} again)")
    } else {
        String::new()
    };
    if passed == all {
        format!("{passed}/{all}{again}")
    } else {
        format!("**{passed}/{all}**{again}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(version: &str) -> Tested {
        let counts = |group: &super::super::core::Group| {
            let all = group.tests(false).len();
            Counts {
                passed: all,
                alone: 0,
                all,
            }
        };
        Tested {
            version: version.parse().unwrap(),
            released: Some("2026-10-29".to_owned()),
            tested: "2026-11-19".to_owned(),
            counts: CORE.iter().map(counts).collect(),
            traits: TRAITS.iter().map(|_| true).collect(),
            failed: Vec::new(),
            fits: true,
            differences: Vec::new(),
        }
    }

    #[test]
    fn page_shows_failures_and_differences() {
        let fine = tested(PINNED);
        assert!(fine.passed());
        assert!(row(&fine).contains("(pinned) | 2026-10-29 | 2026-11-19 | 6/6 |"));
        let mut bad = tested("0.170.0");
        bad.counts[0].passed = 4;
        bad.counts[1].alone = 1;
        bad.traits[0] = false;
        bad.failed.push("steer::a".to_owned());
        bad.differences
            .push("blind spot: x: codex has the new word \"y\"".to_owned());
        assert!(!bad.passed());
        let text = page(&[fine, bad]);
        assert!(text.contains("| **4/6** | 6/6 (1 again) |"), "{text}");
        assert!(text.contains("0.170.0:\n\n- failed: `steer::a`\n- a text that is given"));
        assert!(text.contains("\n- blind spot: x"), "{text}");
        let columns = |line: &str| line.matches('|').count();
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(table.iter().all(|line| columns(line) == columns(table[0])));
    }
}
