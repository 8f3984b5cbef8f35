//! The seeded simulation: the core's real transitions over the ledger in memory, driven as the daemon drives them,
//! through thousands of random schedules of crashes, lost answers and refusals in virtual time.
//!
//! A seed that fails prints one line that plays it again. What every interleaving of a few steps does is proven in
//! `delivery`; here schedules are long, faults are many, and time passes.

#![expect(
    clippy::unwrap_used,
    reason = "a simulation that cannot go on has failed"
)]

mod check;
mod codex;
mod daemon;
mod dials;
mod follow;
mod lane;
mod platform;
mod queue;
mod reconcile;
mod restart;
mod trace;
mod work;
mod world;

use check::run;
use dials::{Mutant, STORMS};
use std::time::Instant;

/// Seeds of an ordinary run.
const SEEDS: u64 = 1_000;
/// A planted defect must be found within so many seeds.
const MUTANT_SEEDS: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `SEEDS=100000 FIRST=1` runs more of them.
#[test]
fn every_seed_keeps_every_promise() {
    let (first, seeds) = (number("FIRST"), number("SEEDS"));
    keep(first.unwrap_or(1), seeds.unwrap_or(SEEDS));
}

#[test]
fn every_storm_keeps_every_promise() {
    keep(STORMS, number("SEEDS").unwrap_or(SEEDS) / 4);
}

/// Plays so many seeds, says how far that went, and insists that no promise was broken.
fn keep(first: u64, seeds: u64) {
    let begun = Instant::now();
    let (mut failed, mut simulated_ms, mut answered, mut dead, mut deaths) = (0, 0, 0, 0, 0);
    for seed in first..first + seeds {
        let outcome = run(seed, None, false);
        simulated_ms += outcome.simulated_ms;
        answered += outcome.answered;
        dead += outcome.dead;
        deaths += outcome.deaths;
        if !outcome.broken.is_empty() {
            failed += 1;
            println!("{}", outcome.broken.join("; "));
            println!(
                "  SEED={seed} cargo test -p bridge-core --test simulation -- one_seed --nocapture"
            );
        }
    }
    let took = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = seeds as f64 / took;
    println!(
        "{seeds} schedules in {took:.1} s ({rate:.0}/s), {} simulated hours, {deaths} deaths of the daemon, \
{answered} answered, {dead} given up",
        simulated_ms / 3_600_000
    );
    assert_eq!(failed, 0, "schedules that broke a promise are listed above");
    assert!(
        answered > 0 && dead > 0 && deaths > 0,
        "nothing went wrong at all"
    );
}

/// Plays `SEED` again, with its story.
#[test]
fn one_seed() {
    let seed = number("SEED");
    let outcome = run(seed.unwrap_or(1), None, seed.is_some());
    println!("{outcome:?}");
    assert!(outcome.broken.is_empty(), "{:?}", outcome.broken);
}

#[test]
fn seed_reproduces_the_same_run() {
    let mut digests = std::collections::BTreeSet::new();
    for seed in 1..=50 {
        let digest = run(seed, None, false).digest;
        assert_eq!(run(seed, None, false).digest, digest, "seed {seed}");
        digests.insert(digest);
    }
    assert_eq!(digests.len(), 50, "seeds tell different stories");
}

/// Insists that a planted defect is found, and by the rule that is there for it.
fn caught(mutant: Mutant, rule: &str) {
    let found = (1..=MUTANT_SEEDS).find(|seed| {
        let outcome = run(*seed, Some(mutant), false);
        outcome.broken.iter().any(|broken| broken.contains(rule))
    });
    println!("{mutant:?}: found by seed {found:?}");
    assert!(found.is_some(), "{mutant:?} was not found");
}

#[test]
fn planted_defects_are_found() {
    for (mutant, rule) in [
        (Mutant::BlindRerun, "touched the world"),
        (Mutant::FreshKey, "replied to twice"),
        (Mutant::RestartForgets, "touched the world"),
        (Mutant::DuplicateTaken, "replied to twice"),
        (Mutant::ProbeSkipped, "replied to twice"),
        (Mutant::LaneForgets, "does not come to rest"),
        (Mutant::WallClockBelieved, "does not come to rest"),
        (Mutant::NeverRestarted, "does not come to rest"),
    ] {
        caught(mutant, rule);
    }
}
