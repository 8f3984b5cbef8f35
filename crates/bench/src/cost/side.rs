//! What one side of the comparison came to: the bridge's own report, read back, or the outcome of a play. How a side is
//! played belongs to `drill` and `stage`.

use anyhow::Context;
use bridge_sim::drill::Outcome;
use bridge_sim::history::Violation;
use serde::Deserialize;

/// The figures that are compared, by the names that `codex-bridge drill --json` gives them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Side {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) dead: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) effects_twice: u64,
    pub(super) asked_again: u64,
    pub(super) daemon_kills: u64,
    pub(super) codex_kills: u64,
    pub(super) model_calls: u64,
    pub(super) model_calls_needed: u64,
    pub(super) input_tokens: u64,
    pub(super) model_calls_per_answer: f64,
    pub(super) input_tokens_per_answer: f64,
    /// Everything that is not as promised, in words.
    pub(super) broken: Vec<String>,
}

impl Side {
    pub(super) fn read(report: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(report).context("understand the report of the drill")
    }

    pub(super) fn of(outcome: &Outcome) -> anyhow::Result<Self> {
        let (verdict, cost) = (&outcome.verdict, outcome.cost);
        let count = |kind: fn(&Violation) -> bool| u64::try_from(verdict.count(kind));
        let violations = verdict.violations.iter().map(ToString::to_string);
        Ok(Self {
            sent: u64::try_from(verdict.sent)?,
            answered: u64::try_from(verdict.answered)?,
            dead: u64::try_from(verdict.dead)?,
            lost: count(|one| matches!(one, Violation::Lost { .. }))?,
            doubled: count(|one| matches!(one, Violation::Doubled { .. }))?,
            effects_twice: count(|one| matches!(one, Violation::TouchedTwice { .. }))?,
            asked_again: count(|one| matches!(one, Violation::AskedAgain { .. }))?,
            daemon_kills: u64::try_from(outcome.kills.daemon)?,
            codex_kills: u64::try_from(outcome.kills.codex)?,
            model_calls: u64::try_from(cost.calls)?,
            model_calls_needed: u64::try_from(cost.needed)?,
            input_tokens: cost.input_tokens(),
            model_calls_per_answer: cost
                .calls_each(verdict.answered)
                .context("nothing was answered")?,
            input_tokens_per_answer: cost
                .tokens_each(verdict.answered)
                .context("nothing was answered")?,
            broken: outcome.problems.iter().cloned().chain(violations).collect(),
        })
    }

    /// What one call of the model was given on average.
    pub(super) fn input_tokens_per_call(&self) -> f64 {
        self.input_tokens as f64 / self.model_calls as f64
    }

    /// Calls that faults cost, beyond one whole run of each message.
    pub(super) fn beyond(&self) -> i64 {
        self.model_calls.cast_signed() - self.model_calls_needed.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_sim::drill::Cost;
    use bridge_sim::history::{RowId, Verdict};

    #[test]
    fn an_outcome_keeps_its_violations_apart() {
        let outcome = Outcome {
            verdict: Verdict {
                sent: 4,
                answered: 2,
                dead: 1,
                violations: vec![
                    Violation::Lost { row: RowId(1) },
                    Violation::Doubled { row: RowId(2) },
                    Violation::TouchedTwice {
                        row: RowId(2),
                        times: 3,
                    },
                ],
                ..Verdict::default()
            },
            cost: Cost {
                calls: 9,
                needed: 6,
                bytes: 80,
            },
            ..Outcome::default()
        };
        let side = Side::of(&outcome).unwrap();
        assert_eq!((side.lost, side.doubled, side.effects_twice), (1, 1, 1));
        assert_eq!((side.beyond(), side.broken.len()), (3, 3));
        assert_eq!(
            (side.model_calls_per_answer, side.input_tokens_per_answer),
            (4.5, 10.0)
        );
        assert_eq!(format!("{:.2}", side.input_tokens_per_call()), "2.22");
    }

    #[test]
    fn cost_per_answer_requires_an_answer() {
        assert!(Side::of(&Outcome::default()).is_err());
    }
}
