//! Runs steps one after the other, and says what each took and which one failed.
//!
//! It knows nothing of what the steps do.

use std::time::{Duration, Instant};

use anyhow::Context;

/// The steps done so far. Dropped or finished, it has printed nothing that is not
/// true: a step that never ran is not in it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    took: Duration,
    passed: bool,
}

impl Report {
    /// Runs one step. After a failure no other step may follow: the error ends the run.
    pub(crate) fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        eprintln!("==> {name}");
        let started = Instant::now();
        let result = work();
        let took = started.elapsed();
        let passed = result.is_ok();
        eprintln!("<== {name}: {} in {}", word(passed), seconds(took));
        self.rows.push(Row {
            name: name.to_owned(),
            took,
            passed,
        });
        result.with_context(|| format!("step {name} failed"))
    }

    /// The table for the end of the run.
    pub(crate) fn table(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|row| row.name.len())
            .max()
            .unwrap_or(0);
        let total: Duration = self.rows.iter().map(|row| row.took).sum();
        let mut table = String::new();
        for row in &self.rows {
            let took = seconds(row.took);
            table += &format!("{:width$}  {took:>8}  {}\n", row.name, word(row.passed));
        }
        table + &format!("{:width$}  {:>8}\n", "", seconds(total))
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lists_steps_and_failure() {
        let mut report = Report::default();
        report.step("fmt", || Ok(())).unwrap();
        let failed = report.step("clippy", || -> anyhow::Result<()> {
            anyhow::bail!("a lint")
        });
        assert_eq!(
            format!("{:#}", failed.unwrap_err()),
            "step clippy failed: a lint"
        );
        let table = report.table();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), 3, "{table}");
        assert_eq!((rows[0][0], rows[0][3]), ("fmt", "ok"));
        assert_eq!((rows[1][0], rows[1][3]), ("clippy", "FAILED"));
    }
}
