//! The report of a drill, as a table for people and as JSON for programs; and whether every promise was kept.

use crate::args::{DrillArgs, DrillSink, DrillTransport};
use bridge_daemon::term::Paint;
use bridge_sim::drill::{NodeFaults, Outcome};
use bridge_sim::history::{Verdict, Violation};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Dead letters of a thousand messages that are still a good drill: each was cut more often than it may be tried.
const DEAD_PERMILLE_MAX: usize = 20;
/// So few are no sign of anything, however short the drill was.
const DEAD_FEW: usize = 3;
/// Violations that are named one by one.
const NAMED_MAX: usize = 20;

/// The settings of a drill.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrillSettings {
    seed: u64,
    minutes: f64,
    /// Instead of the minutes.
    messages: Option<usize>,
    transport: DrillTransport,
    sink: DrillSink,
    /// How many nodes there are and how long their lease is, where it is a fleet.
    fleet: Option<(u64, u64)>,
    /// Keep the directory in any case.
    keep: bool,
}

impl DrillSettings {
    pub(super) fn new(args: &DrillArgs, seed: u64) -> Self {
        Self {
            seed,
            minutes: args.minutes,
            messages: args.messages,
            transport: args.transport,
            sink: args.sink,
            fleet: args.nodes.map(|nodes| (nodes, args.lease_secs)),
            keep: args.keep,
        }
    }
}

/// The report of a drill.
#[derive(Debug)]
pub(super) struct DrillReport {
    settings: DrillSettings,
    outcome: Outcome,
    /// The directory that is kept because something went wrong.
    pub(super) kept: Option<PathBuf>,
}

/// One line of the table.
struct ReportLine {
    key: &'static str,
    words: &'static str,
    value: ReportValue,
    /// More than none of it breaks a promise.
    broken: bool,
}

/// What `drill --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DrillView {
    /// Whether every promise was kept.
    passed: bool,
    seed: u64,
    /// How long it was to last, unless it counted messages.
    minutes: Option<f64>,
    /// How many messages it was to play, unless it went by the clock.
    messages: Option<usize>,
    /// `socket` or `stdio`.
    transport: &'static str,
    /// `idempotent` or `probeable`.
    sink: &'static str,
    /// How many nodes there were, if it was a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<u64>,
    /// How long each of them could be silent before the others took its conversations over.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_secs: Option<u64>,
    /// Everything that is wrong.
    broken: Vec<String>,
    /// Where logs and history are, if they were kept.
    kept: Option<PathBuf>,
    /// What was counted: `sent`, `answered`, `lost`, `doubled` and more.
    #[serde(flatten)]
    figures: BTreeMap<&'static str, ReportValue>,
}

/// A value of the table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum ReportValue {
    Count(u64),
    /// So many for each of something.
    Each(f64),
}

impl ReportValue {
    fn of(count: usize) -> Self {
        Self::Count(u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// Two places are enough for people; programs get it whole.
    fn words(self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Each(share) => format!("{share:.2}"),
        }
    }
}

fn plain(key: &'static str, words: &'static str, value: ReportValue) -> ReportLine {
    ReportLine {
        key,
        words,
        value,
        broken: false,
    }
}

impl DrillReport {
    pub(super) fn new(settings: DrillSettings, mut outcome: Outcome) -> Self {
        let (verdict, problems) = (&outcome.verdict, &mut outcome.problems);
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
            settings,
            outcome,
            kept: None,
        }
    }

    /// For the directory, if it is kept.
    pub(super) fn history(&self) -> &str {
        &self.outcome.history
    }

    /// Whether the directory is kept: always after a failure.
    pub(super) fn keeps(&self) -> bool {
        self.settings.keep || !self.passed()
    }

    /// Whether every promise was kept.
    pub(super) fn passed(&self) -> bool {
        self.outcome.problems.is_empty() && self.outcome.verdict.violations.is_empty()
    }

    fn lines(&self) -> Vec<ReportLine> {
        let verdict = &self.outcome.verdict;
        let mut lines = promises(verdict);
        if self.outcome.nodes.is_some() {
            lines.push(promise(
                "forgotten",
                "turns that had lost their past",
                verdict,
                |v| matches!(v, Violation::Forgot { .. }),
            ));
        }
        lines.extend(self.costs());
        match &self.outcome.nodes {
            None => lines.extend(self.kills()),
            Some(nodes) => lines.extend(node_faults(nodes)),
        }
        lines.push(plain(
            "longest_delay_ms",
            "longest delay (ms)",
            ReportValue::Count(self.outcome.verdict.longest_delay_ms),
        ));
        lines.extend(self.outcome.quiet_after.map(|quiet| {
            plain(
                "quiet_after_ms",
                "quiet after the last fault (ms)",
                ReportValue::Count(u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX)),
            )
        }));
        lines
    }

    fn kills(&self) -> [ReportLine; 2] {
        let kills = self.outcome.kills;
        let (daemon, codex) = (ReportValue::of(kills.daemon), ReportValue::of(kills.codex));
        [
            plain("daemon_kills", "kills of the daemon", daemon),
            plain("codex_kills", "kills of Codex", codex),
        ]
    }

    /// What the model was asked; per answer only where there is one.
    fn costs(&self) -> Vec<ReportLine> {
        let (verdict, cost) = (&self.outcome.verdict, self.outcome.cost);
        let mut lines = vec![
            plain("model_calls", "model calls", ReportValue::of(cost.calls)),
            plain(
                "model_calls_needed",
                "model calls without any fault",
                ReportValue::of(cost.needed),
            ),
            plain(
                "model_calls_beyond",
                "turns begun beyond one per message",
                ReportValue::of(verdict.calls_beyond),
            ),
            plain(
                "input_tokens",
                "input tokens (bytes sent / 4)",
                ReportValue::Count(cost.input_tokens()),
            ),
        ];
        let each = [
            (
                "model_calls_per_answer",
                "model calls per answer",
                cost.calls_each(verdict.answered),
            ),
            (
                "input_tokens_per_answer",
                "input tokens per answer",
                cost.tokens_each(verdict.answered),
            ),
        ];
        lines.extend(
            each.into_iter().filter_map(|(key, words, share)| {
                Some(plain(key, words, ReportValue::Each(share?)))
            }),
        );
        lines
    }

    /// Everything that is wrong, one line each.
    fn wrongs(&self) -> Vec<String> {
        let named = self.outcome.verdict.violations.iter().take(NAMED_MAX);
        let named = named.map(ToString::to_string);
        self.outcome.problems.iter().cloned().chain(named).collect()
    }

    pub(super) fn table(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in self.lines() {
            let value = line.value.words();
            let shown = if line.broken {
                paint.red(&value)
            } else {
                value
            };
            text.push_str(&format!("  {:<40} {shown}\n", line.words));
        }
        for wrong in self.wrongs() {
            text.push_str(&format!("  {} {wrong}\n", paint.red("broken:")));
        }
        text.push_str(&if self.passed() {
            paint.green("Every promise was kept.")
        } else {
            paint.red("A promise was broken.")
        });
        text.push_str(&format!(" Seed {}.", self.settings.seed));
        if let Some((nodes, lease_secs)) = self.settings.fleet {
            text.push_str(&format!(" {nodes} nodes with a lease of {lease_secs} s."));
        }
        match &self.kept {
            None => {}
            Some(kept) => text.push_str(&format!(
                " The logs and the history are in {}",
                kept.display()
            )),
        }
        text
    }

    /// The same for programs.
    pub(super) fn view(&self) -> DrillView {
        let settings = &self.settings;
        let lines = self.lines().into_iter();
        DrillView {
            passed: self.passed(),
            seed: settings.seed,
            minutes: settings.messages.is_none().then_some(settings.minutes),
            messages: settings.messages,
            transport: match settings.transport {
                DrillTransport::Socket => "socket",
                DrillTransport::Stdio => "stdio",
            },
            sink: match settings.sink {
                DrillSink::Idempotent => "idempotent",
                DrillSink::Probeable => "probeable",
            },
            nodes: settings.fleet.map(|(nodes, _)| nodes),
            lease_secs: settings.fleet.map(|(_, lease_secs)| lease_secs),
            broken: self.wrongs(),
            kept: self.kept.clone(),
            figures: lines.map(|line| (line.key, line.value)).collect(),
        }
    }
}

/// What the nodes of a fleet met, and how long a turn that was cut waited for another node.
fn node_faults(nodes: &NodeFaults) -> Vec<ReportLine> {
    let counts = [
        (
            "node_deaths",
            "deaths of nodes (kill -9 of everything)",
            nodes.deaths,
        ),
        (
            "disks_lost",
            "of these, with CODEX_HOME and state lost",
            nodes.disks_lost,
        ),
        (
            "nodes_renamed",
            "of those, back under a new name",
            nodes.renamed,
        ),
        (
            "daemons_frozen",
            "daemons frozen beyond their lease",
            nodes.daemons_frozen,
        ),
        (
            "nodes_frozen",
            "nodes frozen beyond their lease",
            nodes.machines_frozen,
        ),
        (
            "leases_lost",
            "daemons that ended with their lease",
            nodes.leases_lost,
        ),
        (
            "database_restarts",
            "restarts of the database",
            nodes.database_restarts,
        ),
        (
            "cut_turns_elsewhere",
            "cut turns that went on elsewhere",
            nodes.elsewhere_ms.len(),
        ),
    ];
    let counts = counts.map(|(key, words, count)| plain(key, words, ReportValue::of(count)));
    let mut lines = Vec::from(counts);
    if let Some((median, worst)) = nodes.elsewhere() {
        lines.extend([
            plain(
                "elsewhere_p50_ms",
                "death to that turn, median (ms)",
                ReportValue::Count(median),
            ),
            plain(
                "elsewhere_worst_ms",
                "death to that turn, worst (ms)",
                ReportValue::Count(worst),
            ),
        ]);
    }
    lines
}

/// One promise, with how often it was broken.
fn promise(
    key: &'static str,
    words: &'static str,
    verdict: &Verdict,
    kind: fn(&Violation) -> bool,
) -> ReportLine {
    ReportLine {
        broken: verdict.count(kind) > 0,
        ..plain(key, words, ReportValue::of(verdict.count(kind)))
    }
}

/// Who got what, and every promise with how often it was broken.
fn promises(verdict: &Verdict) -> Vec<ReportLine> {
    let broken = |key, words, kind: fn(&Violation) -> bool| promise(key, words, verdict, kind);
    vec![
        plain("sent", "sent", ReportValue::of(verdict.sent)),
        plain("answered", "answered", ReportValue::of(verdict.answered)),
        plain(
            "dead",
            "dead (with a visible notice)",
            ReportValue::of(verdict.dead),
        ),
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
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_sim::drill::{Cost, Kills};
    use bridge_sim::history::RowId;
    use serde_json::Value;
    use std::time::Duration;

    fn report(verdict: Verdict) -> DrillReport {
        let settings = DrillSettings {
            seed: 7,
            minutes: 1.0,
            messages: None,
            transport: DrillTransport::Socket,
            sink: DrillSink::Probeable,
            fleet: None,
            keep: false,
        };
        let outcome = Outcome {
            verdict,
            kills: Kills {
                daemon: 3,
                codex: 4,
            },
            quiet_after: Some(Duration::from_millis(5)),
            cost: Cost {
                calls: 147,
                needed: 140,
                bytes: 98 * 400,
            },
            ..Outcome::default()
        };
        DrillReport::new(settings, outcome)
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
    fn drill_passes_only_within_dead_limit() {
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
    fn violation_appears_in_table_and_json() {
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
        let json = serde_json::to_value(report.view()).unwrap();
        assert_eq!(
            (&json["passed"], &json["effects_twice"]),
            (&Value::from(false), &Value::from(1))
        );
        assert_eq!(
            (&json["seed"], &json["kept"]),
            (&Value::from(7), &Value::from("/tmp/kept"))
        );
    }

    #[test]
    fn answer_cost_in_table_and_json() {
        let shown = report(good());
        let table = shown.table(Paint::stdout(true));
        assert!(
            table.contains("model calls per answer                   1.50"),
            "{table}"
        );
        let json = serde_json::to_value(shown.view()).unwrap();
        let keys = [
            "model_calls",
            "model_calls_needed",
            "input_tokens",
            "model_calls_per_answer",
            "input_tokens_per_answer",
        ];
        let values = keys.map(|key| json[key].as_f64().unwrap());
        assert_eq!(values, [147.0, 140.0, 9_800.0, 1.5, 100.0]);
        let none = report(Verdict::default());
        let none = serde_json::to_string(&none.view()).unwrap();
        assert!(!none.contains("per_answer"), "{none}");
    }
}
