//! What a drill showed, as a table for people and as JSON for programs; and whether every promise was kept.

use crate::cli::{DrillSink, DrillTransport};
use crate::term::Paint;
use bridge_sim::history::{Verdict, Violation};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Dead letters of a thousand messages that are still a good drill: each was cut more often than it may be tried.
const DEAD_PERMILLE_MAX: usize = 20;
/// So few are no sign of anything, however short the drill was.
const DEAD_FEW: usize = 3;
/// Violations that are named one by one.
const NAMED_MAX: usize = 20;

/// How it was drilled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) seed: u64,
    pub(super) minutes: f64,
    pub(super) transport: DrillTransport,
    pub(super) sink: DrillSink,
    pub(super) daemon_kills: usize,
    pub(super) codex_kills: usize,
    pub(super) quiet_after: Option<Duration>,
    /// Keep the directory in any case.
    pub(super) keep: bool,
}

/// What it showed.
#[derive(Debug)]
pub(super) struct Report {
    figures: Figures,
    verdict: Verdict,
    problems: Vec<String>,
    /// The directory that is kept because something went wrong.
    pub(super) kept: Option<PathBuf>,
}

/// One line of the table.
struct Line {
    key: &'static str,
    words: &'static str,
    value: u64,
    /// More than none of it breaks a promise.
    broken: bool,
}

impl Report {
    pub(super) fn new(figures: Figures, verdict: Verdict, mut problems: Vec<String>) -> Self {
        if verdict.sent == 0 {
            problems.push("nothing was sent, so nothing was shown".to_owned());
        }
        if verdict.dead > DEAD_FEW && verdict.dead * 1_000 > verdict.sent * DEAD_PERMILLE_MAX {
            let most = DEAD_PERMILLE_MAX / 10;
            problems.push(format!("more than {most} % of the messages are dead"));
        }
        if verdict.answered + verdict.dead != verdict.sent {
            problems.push("sent is not answered and dead together".to_owned());
        }
        Self {
            figures,
            verdict,
            problems,
            kept: None,
        }
    }

    /// Whether the directory is kept: always where somebody must look what went wrong.
    pub(super) fn keeps(&self) -> bool {
        self.figures.keep || !self.passed()
    }

    /// Whether every promise was kept.
    pub(super) fn passed(&self) -> bool {
        self.problems.is_empty() && self.verdict.violations.is_empty()
    }

    fn lines(&self) -> Vec<Line> {
        let verdict = &self.verdict;
        let plain = |key, words, value: usize| Line {
            key,
            words,
            value: u64::try_from(value).unwrap_or(u64::MAX),
            broken: false,
        };
        let broken = |key, words, kind: fn(&Violation) -> bool| Line {
            broken: verdict.count(kind) > 0,
            ..plain(key, words, verdict.count(kind))
        };
        let figures = &self.figures;
        let mut lines = vec![
            plain("sent", "sent", verdict.sent),
            plain("answered", "answered", verdict.answered),
            plain("dead", "dead (with a visible notice)", verdict.dead),
            broken("lost", "lost", |v| matches!(v, Violation::Lost { .. })),
            broken("doubled", "doubled (a reply seen twice)", |v| {
                matches!(v, Violation::Doubled { .. })
            }),
            broken("misdirected", "answers to the wrong message", |v| {
                matches!(v, Violation::Misdirected { .. } | Violation::Strange { .. })
            }),
            broken("out_of_order", "out of order", |v| {
                matches!(v, Violation::OutOfOrder { .. })
            }),
            broken("effects_twice", "effects twice", |v| {
                matches!(v, Violation::TouchedTwice { .. })
            }),
            broken("asked_again", "model asked after the answer", |v| {
                matches!(v, Violation::AskedAgain { .. })
            }),
            broken("acked_early", "acknowledged before the reply", |v| {
                matches!(v, Violation::AckedEarly { .. })
            }),
            plain(
                "model_calls_beyond",
                "model calls beyond one per message",
                verdict.calls_beyond,
            ),
            plain("daemon_kills", "kills of the daemon", figures.daemon_kills),
            plain("codex_kills", "kills of Codex", figures.codex_kills),
        ];
        lines.push(Line {
            key: "longest_delay_ms",
            words: "longest delay (ms)",
            value: verdict.longest_delay_ms,
            broken: false,
        });
        if let Some(quiet) = figures.quiet_after {
            lines.push(Line {
                key: "quiet_after_ms",
                words: "quiet after the last fault (ms)",
                value: u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX),
                broken: false,
            });
        }
        lines
    }

    /// Everything that is wrong, one line each.
    fn wrongs(&self) -> Vec<String> {
        let named = self.verdict.violations.iter().take(NAMED_MAX);
        let named = named.map(ToString::to_string);
        self.problems.iter().cloned().chain(named).collect()
    }

    pub(super) fn table(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in self.lines() {
            let value = line.value.to_string();
            let shown = match line.broken {
                true => paint.red(&value),
                false => value,
            };
            text.push_str(&format!("  {:<36} {shown}\n", line.words));
        }
        for wrong in self.wrongs() {
            text.push_str(&format!("  {} {wrong}\n", paint.red("broken:")));
        }
        text.push_str(&match self.passed() {
            true => paint.green("Every promise was kept."),
            false => paint.red("A promise was broken."),
        });
        text.push_str(&format!(" Seed {}.", self.figures.seed));
        match &self.kept {
            None => {}
            Some(kept) => text.push_str(&format!(
                " The logs and the history are in {}",
                kept.display()
            )),
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let figures = &self.figures;
        let mut report = json!({
            "passed": self.passed(),
            "seed": figures.seed,
            "minutes": figures.minutes,
            "transport": match figures.transport {
                DrillTransport::Socket => "socket",
                DrillTransport::Stdio => "stdio",
            },
            "sink": match figures.sink {
                DrillSink::Idempotent => "idempotent",
                DrillSink::Probeable => "probeable",
            },
            "broken": self.wrongs(),
            "kept": self.kept.as_ref().map(|kept| kept.display().to_string()),
        });
        if let Some(fields) = report.as_object_mut() {
            let lines = self.lines();
            fields.extend(
                lines
                    .into_iter()
                    .map(|line| (line.key.to_owned(), Value::from(line.value))),
            );
        }
        report.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_sim::history::RowId;

    fn report(verdict: Verdict) -> Report {
        let figures = Figures {
            seed: 7,
            minutes: 1.0,
            transport: DrillTransport::Socket,
            sink: DrillSink::Probeable,
            daemon_kills: 3,
            codex_kills: 4,
            quiet_after: Some(Duration::from_millis(5)),
            keep: false,
        };
        Report::new(figures, verdict, Vec::new())
    }

    fn good() -> Verdict {
        Verdict {
            sent: 100,
            answered: 98,
            dead: 2,
            ..Verdict::default()
        }
    }

    #[test]
    fn two_of_a_hundred_may_die_and_nothing_else_may_go_wrong() {
        let died = |sent, dead| Verdict {
            sent,
            answered: sent - dead,
            dead,
            ..Verdict::default()
        };
        for (sent, dead, fine) in [
            (1_000, 20, true),
            (1_000, 21, false),
            (50, 3, true),
            (50, 4, false),
            (0, 0, false),
        ] {
            assert_eq!(report(died(sent, dead)).passed(), fine, "{dead} of {sent}");
        }
        let missing = Verdict {
            answered: 97,
            ..good()
        };
        assert!(!report(missing).passed());
        let lost = Verdict {
            violations: vec![Violation::Lost { row: RowId(9) }],
            ..good()
        };
        assert!(!report(lost).passed());
    }

    #[test]
    fn a_broken_promise_is_named_in_both_forms() {
        let mut report = report(Verdict {
            violations: vec![Violation::TouchedTwice {
                row: RowId(9),
                times: 2,
            }],
            ..good()
        });
        report.kept = Some(PathBuf::from("/tmp/kept"));
        let table = report.table(Paint::stdout(true));
        assert!(table.contains("r9 touched the world 2 times"), "{table}");
        assert!(
            table.contains("Seed 7.") && table.contains("/tmp/kept"),
            "{table}"
        );
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(
            (&json["passed"], &json["effects_twice"]),
            (&Value::from(false), &Value::from(1))
        );
        assert_eq!(
            (&json["seed"], &json["kept"]),
            (&Value::from(7), &Value::from("/tmp/kept"))
        );
    }
}
