//! Instructions per message and per delta, counted by callgrind: a path is run for N and for 2 N, so that what a start
//! costs falls out, and the difference is held against the budget.

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A count may be above its budget by so much, as a share of it: another libc or valgrind counts a little otherwise.
const MARGIN_PERCENT: u64 = 10;

/// The life of a message in front of a history may cost so much more than one with none, as a share.
const GROWTH_PERCENT: u64 = 10;

/// Finished messages of that history.
const BEHIND: u64 = 10_000;

/// Conversations side by side, as many as the daemon lets work at once unless told.
const WIDTH: u64 = 16;

/// Messages of each conversation in the shorter run; the longer one has twice as many.
const EACH: u64 = 8;

/// Turns in the shorter run, and deltas of each: an answer of some paragraphs.
const TURNS: u64 = 20;
const DELTAS: u64 = 250;

/// How a person writes down what is counted now.
const RENEW: &str = "cargo run --release --package bridge-hot -- count --renew; say in the commit what made it change";

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Budgets {
    /// How to write it anew.
    renew: String,
    /// When and with what it was counted.
    day: String,
    toolchain: String,
    valgrind: String,
    /// Instructions for one, by what it is one of.
    instructions: BTreeMap<String, u64>,
}

/// Fails where a path costs more than its budget allows.
pub(crate) fn run(renew: bool) -> anyhow::Result<ExitCode> {
    let counted = count()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("budgets.json");
    if renew {
        let budgets = Budgets {
            renew: RENEW.to_owned(),
            day: jiff::Zoned::now().date().to_string(),
            toolchain: version("rustc")?,
            valgrind: version("valgrind")?,
            instructions: counted,
        };
        let text = serde_json::to_string_pretty(&budgets)?;
        std::fs::write(&path, text + "\n").context("write the budgets")?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = std::fs::read_to_string(&path).context("read the budgets")?;
    let budgets: Budgets = serde_json::from_str(&text).context("understand the budgets")?;
    let mut findings = judge(&budgets.instructions, &counted);
    findings.extend(grows(&counted));
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "what each costs is in {}; if it must cost more: {RENEW}",
        path.display()
    );
    Ok(ExitCode::FAILURE)
}

const LIFE: &str = "life of a message";
const LIFE_WITH_HISTORY: &str = "life of a message, 10000 finished ones behind";
const DELTA: &str = "delta of a turn";

fn count() -> anyhow::Result<BTreeMap<String, u64>> {
    let place = tempfile::tempdir()?;
    let behind = place.path().join("behind.db");
    let mut fill = Command::new(std::env::current_exe()?);
    fill.arg("fill").arg(&behind);
    let filled = fill.arg(format!("--behind={BEHIND}")).status()?;
    ensure!(filled.success(), "a history could not be made: {filled}");
    let live = |template: Option<&Path>, times: u64| -> anyhow::Result<u64> {
        let path: PathBuf = place.path().join("live.db");
        if let Some(template) = template {
            std::fs::copy(template, &path)?;
        }
        let counted = instructions(&[
            "live".into(),
            path.as_os_str().to_owned(),
            format!("--behind={}", template.map_or(0, |_| BEHIND)).into(),
            format!("--width={WIDTH}").into(),
            format!("--each={}", EACH * times).into(),
        ])?;
        for left in ["live.db", "live.db-wal", "live.db-shm"] {
            let left = place.path().join(left);
            if left.exists() {
                std::fs::remove_file(left)?;
            }
        }
        Ok(counted)
    };
    let fold = |times: u64| {
        instructions(&[
            "fold".into(),
            format!("--turns={}", TURNS * times).into(),
            format!("--deltas={DELTAS}").into(),
        ])
    };
    let paths = [
        (LIFE, WIDTH * EACH, live(None, 1)?, live(None, 2)?),
        (
            LIFE_WITH_HISTORY,
            WIDTH * EACH,
            live(Some(&behind), 1)?,
            live(Some(&behind), 2)?,
        ),
        (DELTA, TURNS * DELTAS, fold(1)?, fold(2)?),
    ];
    let mut counted = BTreeMap::new();
    for (name, number, once, twice) in paths {
        ensure!(
            twice > once,
            "{name}: twice the work took {twice} instructions, and once took {once}"
        );
        let each = (twice - once) / number;
        println!("{name}: {each} instructions");
        counted.insert(name.to_owned(), each);
    }
    Ok(counted)
}

/// Runs this program under callgrind with these arguments.
fn instructions(args: &[OsString]) -> anyhow::Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(args);
    let ran = command.output().context("start valgrind")?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        bail!("a counted run ended with {}: {said}", ran.status);
    }
    collected(&said).with_context(|| format!("callgrind told no number: {said}"))
}

/// The number in callgrind's last words.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// What is above its budget, has none, or is not counted any more.
fn judge(budgets: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> Vec<String> {
    let finding = |(name, count): (&String, &u64)| match budgets.get(name) {
        None => Some(format!("{name} has no budget")),
        Some(budget) => percent_above(*count, *budget, MARGIN_PERCENT).map(|percent| {
            format!(
                "{name} takes {count} instructions, {percent} % more than the {budget} written down"
            )
        }),
    };
    let lost = budgets.keys().filter(|name| !counted.contains_key(*name));
    let lost = lost.map(|name| format!("{name} has a budget and is not counted"));
    counted.iter().filter_map(finding).chain(lost).collect()
}

/// How many percent one number is above another, where that is more than it may be.
fn percent_above(number: u64, other: u64, most: u64) -> Option<u64> {
    let above = number.saturating_sub(other).saturating_mul(100);
    (above > other.saturating_mul(most)).then(|| above.checked_div(other).unwrap_or(u64::MAX))
}

/// Whether a message pays for those before it.
fn grows(counted: &BTreeMap<String, u64>) -> Option<String> {
    let (none, behind) = (counted.get(LIFE)?, counted.get(LIFE_WITH_HISTORY)?);
    percent_above(*behind, *none, GROWTH_PERCENT).map(|percent| {
        format!(
            "a message costs {percent} % more with {BEHIND} finished ones behind it; look which of its statements walks through them"
        )
    })
}

fn version(program: &str) -> anyhow::Result<String> {
    let said = Command::new(program).arg("--version").output();
    let said = said.with_context(|| format!("ask {program} for its version"))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: [(&str, u64); 2]) -> BTreeMap<String, u64> {
        counts.map(|(name, count)| (name.to_owned(), count)).into()
    }

    #[test]
    fn budget_check_tolerates_ten_percent() {
        let budgets = counts([(LIFE, 1_000), (DELTA, 100)]);
        assert!(judge(&budgets, &counts([(LIFE, 1_100), (DELTA, 20)])).is_empty());
        let found = judge(&budgets, &counts([(LIFE, 1_101), (LIFE_WITH_HISTORY, 1)]));
        let [more, without, lost] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(lost.contains(DELTA), "{lost}");
        assert!(more.contains("1101") && more.contains("1000"), "{more}");
        assert!(without.contains("no budget"), "{without}");
    }

    #[test]
    fn detects_cost_growth_with_history() {
        let same = counts([(LIFE, 1_000), (LIFE_WITH_HISTORY, 1_100)]);
        assert_eq!(grows(&same), None);
        let more = counts([(LIFE, 1_000), (LIFE_WITH_HISTORY, 1_120)]);
        assert!(grows(&more).is_some_and(|said| said.contains("12 %")));
    }

    #[test]
    fn the_number_is_in_the_last_words() {
        let said = "==7== Events    : Ir\n==7== Collected : 807328202\n==7== \n";
        assert_eq!(collected(said), Some(807_328_202));
        assert_eq!(collected("==7== error"), None);
    }
}
