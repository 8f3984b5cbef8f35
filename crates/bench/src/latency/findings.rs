//! From samples to tables, plots, ratios and bars. Nothing is measured here.

use super::Rounds;
use super::cold::Cold;
use super::pace::{POLL_SECS, Pace};
use super::way::Way;
use crate::bars;
use crate::ground::Ground;
use crate::section::{Plot, Ratio, Section, SpreadRow, Table, Whose};
use crate::stats::{Spread, median, millis};
use std::time::Duration;

pub(super) fn section(ground: &Ground, rounds: &Rounds, pace: &Pace, cold: &Cold) -> Section {
    let figures = Figures { rounds };
    Section {
        title: "Latency: one message, every way".to_owned(),
        words: words(ground, &figures),
        tables: vec![ways(&figures), tokens(&figures), others(pace, cold)],
        plots: plots(&figures, cold),
        ratios: ratios(&figures, cold),
        bars: vec![
            bars::beyond_a_bare_turn(figures.beyond(Way::Inbox)),
            bars::faster_than_exec(figures.times(Way::ExecResume, Way::Inbox)),
            bars::faster_than_shim(figures.times(Way::ShimResume, Way::Inbox)),
        ],
    }
}

struct Figures<'a> {
    rounds: &'a Rounds,
}

impl Figures<'_> {
    fn wholes(&self, way: Way) -> Vec<Duration> {
        let samples = self.rounds.get(&way).into_iter().flatten();
        samples.map(|sample| sample.whole).collect()
    }

    fn first_tokens(&self, way: Way) -> Vec<Duration> {
        let samples = self.rounds.get(&way).into_iter().flatten();
        samples.filter_map(|sample| sample.first_token).collect()
    }

    fn spread(&self, way: Way) -> Spread {
        Spread::of(&self.wholes(way))
    }

    /// How many times the median of the second the first one's is.
    fn times(&self, way: Way, against: Way) -> f64 {
        over(self.spread(way).p50, self.spread(against).p50)
    }

    /// What it takes beyond its floor: the median of the differences within a round, where both had the same machine.
    fn beyond(&self, way: Way) -> f64 {
        let (ours, floor) = (self.wholes(way), self.wholes(way.floor()));
        let differences: Vec<f64> = ours
            .iter()
            .zip(&floor)
            .map(|(ours, floor)| millis(*ours) - millis(*floor))
            .collect();
        median(&differences)
    }
}

fn over(value: f64, by: f64) -> f64 {
    match by > 0.0 {
        true => value / by,
        false => 0.0,
    }
}

fn words(ground: &Ground, figures: &Figures<'_>) -> Vec<String> {
    let plan = &ground.plan;
    let gap = millis(plan.gap);
    vec![
        format!(
            "The scripted model answers at once, so what remains is Codex and whoever stands before it. \
             {} rounds after {} that are not counted; in each round one message by every way, one after the other, \
             each {gap:.0} ms after the last one's answer. Every answer is compared with what it should say.",
            plan.rounds, plan.warm_rounds
        ),
        "The floor is a turn on a warm thread of `codex app-server` by a client that does nothing else, with the \
         sandbox, the approval policy and the history mode of the daemon's own threads. `canvas` is a person who \
         writes on a Molecule canvas and sees the bubble: the platform's event, its feed, the ledger, Codex, the \
         ledger, the platform. Tasks over MCP have a thread each, so their floor is a new thread with its first turn. \
         `beyond` is the median of the differences to the floor within a round."
            .to_owned(),
        format!(
            "Ephemeral threads and legacy history are what Codex itself could save: {:.0} ms and {:.0} ms of the \
             floor's {:.0} ms, whose history is Codex's default, as that of the daemon's threads. An ephemeral thread \
             is gone with its process, so a lost turn could not be looked up and would be paid twice: the promises do \
             not allow it. Legacy history is what Codex had before and is leaving; the daemon does not ask for it.",
            figures.spread(Way::BareEphemeral).p50,
            figures.spread(Way::BareLegacy).p50,
            figures.spread(Way::Bare).p50
        ),
    ]
}

fn ways(figures: &Figures<'_>) -> Table {
    let row = |way: Way| {
        let spread = figures.spread(way);
        vec![
            way.label().to_owned(),
            ms(spread.p50),
            ms(spread.p95),
            ms(spread.p99),
            format!("{:.2}", figures.times(way, way.floor())),
            ms(figures.beyond(way)),
        ]
    };
    Table {
        title: "One message, in ms".to_owned(),
        head: head(&["way", "p50", "p95", "p99", "x floor", "beyond"]),
        rows: in_order().map(row).collect(),
    }
}

fn tokens(figures: &Figures<'_>) -> Table {
    let rows = in_order().filter_map(|way| {
        let times = figures.first_tokens(way);
        let spread = Spread::of(&times);
        (!times.is_empty()).then(|| {
            vec![
                way.label().to_owned(),
                ms(spread.p50),
                ms(spread.p95),
                ms(spread.p99),
            ]
        })
    });
    Table {
        title: "To the first streamed token, in ms".to_owned(),
        head: head(&["way", "p50", "p95", "p99"]),
        rows: rows.collect(),
    }
}

fn others(pace: &Pace, cold: &Cold) -> Table {
    let row = |label: &str, times: &[Duration]| {
        let spread = Spread::of(times);
        vec![
            label.to_owned(),
            spread.samples.to_string(),
            ms(spread.p50),
            ms(spread.p95),
        ]
    };
    Table {
        title: "At another pace, and from nothing, in ms".to_owned(),
        head: head(&["what", "samples", "p50", "p95"]),
        rows: vec![
            row("bare turn after a silence", &pace.bare_after_silence),
            row(
                "canvas to bubble after a silence",
                &pace.inbox_after_silence,
            ),
            row(
                &format!("canvas to bubble, no events, polled every {POLL_SECS} s"),
                &pace.polled,
            ),
            row("cold: daemon ready", &cold.ready),
            row("cold: daemon, Codex and the first `send`", &cold.ours),
            row("cold: one `codex exec`", &cold.exec),
        ],
    }
}

fn plots(figures: &Figures<'_>, cold: &Cold) -> Vec<Plot> {
    let whole = |way: Way| SpreadRow {
        label: way.label().to_owned(),
        spread: figures.spread(way),
        whose: way.whose(),
    };
    let token = |way: Way| SpreadRow {
        label: way.label().to_owned(),
        spread: Spread::of(&figures.first_tokens(way)),
        whose: way.whose(),
    };
    let streaming = [Way::Bare, Way::Api, Way::A2aStream];
    let from_nothing = |label: &str, times: &[Duration], whose| SpreadRow {
        label: label.to_owned(),
        spread: Spread::of(times),
        whose,
    };
    vec![
        Plot::Spreads {
            file: "latency",
            title: "One message, every way".to_owned(),
            unit: "ms",
            rows: in_order().map(whole).collect(),
        },
        Plot::Spreads {
            file: "first-token",
            title: "To the first streamed token".to_owned(),
            unit: "ms",
            rows: streaming.map(token).to_vec(),
        },
        Plot::Spreads {
            file: "cold",
            title: "From nothing to the first answer".to_owned(),
            unit: "ms",
            rows: vec![
                from_nothing("daemon, Codex, first send", &cold.ours, Whose::Ours),
                from_nothing("one codex exec", &cold.exec, Whose::Other),
            ],
        },
    ]
}

fn ratios(figures: &Figures<'_>, cold: &Cold) -> Vec<Ratio> {
    let of = |way: Way, against: Way| Ratio {
        key: format!("latency.{}_to_{}", way.key(), against.key()),
        words: format!("{} against {}", way.label(), against.label()),
        value: figures.times(way, against),
    };
    let floors = in_order().filter(|way| way.floor() != *way);
    let mut ratios: Vec<Ratio> = floors.map(|way| of(way, way.floor())).collect();
    ratios.push(of(Way::ExecResume, Way::Inbox));
    ratios.push(of(Way::ShimResume, Way::Inbox));
    ratios.push(of(Way::ExecNew, Way::Mcp));
    for way in [Way::Api, Way::A2aStream] {
        let token = |way| Spread::of(&figures.first_tokens(way)).p50;
        ratios.push(Ratio {
            key: format!("latency.{}_first_token", way.key()),
            words: format!("first token of {} against the floor's", way.label()),
            value: over(token(way), token(Way::Bare)),
        });
    }
    ratios.push(Ratio {
        key: "latency.cold_to_exec".to_owned(),
        words: "from nothing to the first answer against one cold `codex exec`".to_owned(),
        value: over(Spread::of(&cold.ours).p50, Spread::of(&cold.exec).p50),
    });
    ratios
}

/// As a reader compares them: floors, ours, one process per message.
fn in_order() -> impl Iterator<Item = Way> {
    let rank = |way: &Way| match way.whose() {
        Whose::Codex => 0,
        Whose::Ours => 1,
        Whose::Other => 2,
    };
    let mut ways = Way::ALL.to_vec();
    ways.sort_by_key(|way| (rank(way), *way));
    ways.into_iter()
}

fn head(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn ms(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::way::Sample;

    fn rounds(bare: &[u64], inbox: &[u64]) -> Rounds {
        let samples = |times: &[u64]| {
            let times = times.iter().map(|ms| Duration::from_millis(*ms));
            times.map(Sample::whole).collect()
        };
        Rounds::from([(Way::Bare, samples(bare)), (Way::Inbox, samples(inbox))])
    }

    #[test]
    fn what_goes_beyond_the_floor_is_compared_within_a_round() {
        let rounds = rounds(&[80, 200, 90], &[86, 207, 98]);
        let figures = Figures { rounds: &rounds };
        assert!((figures.beyond(Way::Inbox) - 7.0).abs() < 1e-9);
        assert!((figures.times(Way::Inbox, Way::Bare) - 98.0 / 90.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_compared_with_a_way_that_was_not_gone() {
        let rounds = rounds(&[], &[5]);
        let figures = Figures { rounds: &rounds };
        assert_eq!(figures.times(Way::Inbox, Way::Bare), 0.0);
        assert_eq!(figures.beyond(Way::Inbox), 0.0);
    }
}
