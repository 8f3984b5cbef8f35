//! From samples to tables, plots, ratios and bars. Nothing is measured here.

use super::Rounds;
use super::cold::Cold;
use super::pace::{POLL_SECS, Pace};
use super::way::{Sample, Way};
use crate::bars;
use crate::ground::Ground;
use crate::section::{Plot, Ranked, Ratio, Section, SpreadRow, Table, Whose};
use crate::stats::{Spread, median, millis};
use std::time::Duration;

/// Digits of a millisecond that a reader of these tables needs.
const DIGITS: usize = 1;
/// Behind a way that is not held against the floor.
const NO_FLOOR: &str = "-";

pub(super) fn section(ground: &Ground, rounds: &Rounds, pace: &Pace, cold: &Cold) -> Section {
    let figures = Figures { rounds };
    Section {
        title: "Latency: one message, every way".to_owned(),
        words: words(ground, &figures),
        tables: vec![ways(&figures), tokens(&figures), others(pace, cold)],
        plots: plots(&figures, cold),
        ratios: ratios(&figures, cold),
        bars: vec![
            bars::beyond_a_bare_turn(figures.beyond(Way::Inbox, Way::Bare)),
            bars::faster_than_exec(figures.times(Way::ExecResume, Way::Inbox)),
            bars::faster_than_shim(figures.times(Way::ShimResume, Way::Inbox)),
        ],
    }
}

struct Figures<'a> {
    rounds: &'a Rounds,
}

impl Figures<'_> {
    fn samples(&self, way: Way) -> &[Sample] {
        self.rounds.get(&way).map_or(&[], Vec::as_slice)
    }

    fn wholes(&self, way: Way) -> Vec<Duration> {
        let samples = self.samples(way).iter();
        samples.map(|sample| sample.whole).collect()
    }

    /// Whoever waits for the first word of a message that was not streamed waits for its end.
    fn first_tokens(&self, way: Way) -> Spread {
        let samples = self.samples(way).iter();
        let times: Vec<Duration> = samples
            .map(|sample| sample.first_token.unwrap_or(sample.whole))
            .collect();
        Spread::of(&times)
    }

    /// How many messages of a way that streams came in one piece.
    fn unstreamed(&self, way: Way) -> usize {
        let samples = self.samples(way).iter();
        samples
            .filter(|sample| sample.first_token.is_none())
            .count()
    }

    fn spread(&self, way: Way) -> Spread {
        Spread::of(&self.wholes(way))
    }

    /// How many times the median of the second the first one's is.
    fn times(&self, way: Way, against: Way) -> f64 {
        over(self.spread(way).p50, self.spread(against).p50)
    }

    /// What it takes beyond its floor: the median of the differences within a round, where both had the same machine.
    fn beyond(&self, way: Way, floor: Way) -> f64 {
        let (ours, floor) = (self.wholes(way), self.wholes(floor));
        let differences: Vec<f64> = ours
            .iter()
            .zip(&floor)
            .map(|(ours, floor)| millis(*ours) - millis(*floor))
            .collect();
        median(&differences)
    }
}

fn over(value: f64, by: f64) -> f64 {
    if by > 0.0 { value / by } else { 0.0 }
}

fn words(ground: &Ground, figures: &Figures<'_>) -> Vec<String> {
    let plan = &ground.plan;
    let gap = millis(plan.gap);
    vec![
        format!(
            "The scripted model answers at once, so what remains is Codex and whoever stands before it. \
             {} rounds after {} that are not counted; in each round one message by every way, one after the other, \
             each {gap:.0} ms after the last one's answer. Every second round goes the ways backwards, and behind \
             the processes of `codex exec` come one canvas message and one bare turn that are not counted, so that \
             of two that are compared neither is always the first one or the colder one. Every answer is compared \
             with what it should say.",
            plan.rounds, plan.warm_rounds
        ),
        "The floor is a turn on a warm thread of `codex app-server` by a client that does nothing else, with the \
         sandbox, the approval policy and the history mode of the daemon's own threads. `canvas` is a person who \
         writes on a Molecule canvas and sees the bubble: the platform's event, its feed, the ledger, Codex, the \
         ledger, the platform. Tasks over MCP have a thread each, so their floor is a new thread with its first turn. \
         `beyond` is the median of the differences to the floor within a round."
            .to_owned(),
        "Who may do what: canvas, `send`, the API, `codex exec` and the floor may write where they work \
         (`workspace-write`), tasks over MCP and their floor only read. Agents over A2A only read too, and see less \
         of the disk; no bare thread here has these rights, so they are not held against a floor."
            .to_owned(),
        format!(
            "What Codex itself could save: a turn on an ephemeral thread takes {:.0} ms and one with legacy history \
             {:.0} ms, where the floor takes {:.0} ms, whose history is Codex's default, as that of the daemon's \
             threads. An ephemeral thread is gone with its process, so a lost turn could not be looked up and would \
             be paid twice: the promises do not allow it. Legacy history is what Codex had before and is leaving; \
             the daemon does not ask for it.",
            figures.spread(Way::BareEphemeral).p50,
            figures.spread(Way::BareLegacy).p50,
            figures.spread(Way::Bare).p50
        ),
        "To the first token: a message of a way that streams whose words came only with its end counts with the time \
         of that end, and is counted as `in one piece`."
            .to_owned(),
    ]
}

fn ways(figures: &Figures<'_>) -> Table {
    let row = |way: Way| {
        let more = match way.floor() {
            Some(floor) => [
                format!("{:.2}", figures.times(way, floor)),
                format!("{:.1}", figures.beyond(way, floor)),
            ],
            None => [NO_FLOOR, NO_FLOOR].map(str::to_owned),
        };
        Ranked {
            label: way.label().to_owned(),
            spread: figures.spread(way),
            more: more.to_vec(),
        }
    };
    let rows: Vec<Ranked> = in_order().map(row).collect();
    let head = ["way", "x floor", "beyond"];
    Table::of_spreads("One message, in ms", &head, DIGITS, &rows)
}

fn tokens(figures: &Figures<'_>) -> Table {
    let row = |way: Way| Ranked {
        label: way.label().to_owned(),
        spread: figures.first_tokens(way),
        more: vec![figures.unstreamed(way).to_string()],
    };
    let rows: Vec<Ranked> = in_order().filter(|way| way.streams()).map(row).collect();
    let (title, head) = (
        "To the first streamed token, in ms",
        ["way", "in one piece"],
    );
    Table::of_spreads(title, &head, DIGITS, &rows)
}

fn others(pace: &Pace, cold: &Cold) -> Table {
    let polled = format!("canvas to bubble, no events, polled every {POLL_SECS} s");
    let rows = [
        ("bare turn after a silence", &pace.bare_after_silence),
        (
            "canvas to bubble after a silence",
            &pace.inbox_after_silence,
        ),
        (&polled, &pace.polled),
        ("cold: daemon ready", &cold.ready),
        ("cold: daemon, Codex and the first `send`", &cold.ours),
        ("cold: one `codex exec`", &cold.exec),
    ];
    let rows = rows.map(|(label, times)| Ranked {
        label: label.to_owned(),
        spread: Spread::of(times),
        more: Vec::new(),
    });
    let title = "At another pace, and from nothing, in ms";
    Table::of_spreads(title, &["what"], DIGITS, &rows)
}

fn plots(figures: &Figures<'_>, cold: &Cold) -> Vec<Plot> {
    let row = |way: Way, spread| SpreadRow {
        label: way.label().to_owned(),
        spread,
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
            file: "latency.svg",
            title: "One message, every way".to_owned(),
            unit: "ms",
            rows: in_order()
                .map(|way| row(way, figures.spread(way)))
                .collect(),
        },
        Plot::Spreads {
            file: "first-token.svg",
            title: "To the first streamed token".to_owned(),
            unit: "ms",
            rows: streaming
                .map(|way| row(way, figures.first_tokens(way)))
                .to_vec(),
        },
        Plot::Spreads {
            file: "cold.svg",
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
    let floors = in_order().filter_map(|way| Some((way, way.floor()?)));
    let mut ratios: Vec<Ratio> = floors
        .filter(|(way, floor)| way != floor)
        .map(|(way, floor)| of(way, floor))
        .collect();
    ratios.push(of(Way::ExecResume, Way::Inbox));
    ratios.push(of(Way::ShimResume, Way::Inbox));
    ratios.push(of(Way::ExecNew, Way::Mcp));
    let token = |way| figures.first_tokens(way).p50;
    ratios.push(Ratio {
        key: format!("latency.{}_first_token", Way::Api.key()),
        words: format!("first token of {} against the floor's", Way::Api.label()),
        value: over(token(Way::Api), token(Way::Bare)),
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(bare: &[u64], inbox: &[u64]) -> Rounds {
        let samples = |times: &[u64]| {
            let times = times.iter().map(|ms| Duration::from_millis(*ms));
            times.map(Sample::whole).collect()
        };
        Rounds::from([(Way::Bare, samples(bare)), (Way::Inbox, samples(inbox))])
    }

    #[test]
    fn compares_latency_with_floor_per_round() {
        let rounds = rounds(&[80, 200, 90], &[86, 207, 98]);
        let figures = Figures { rounds: &rounds };
        assert!((figures.beyond(Way::Inbox, Way::Bare) - 7.0).abs() < 1e-9);
        assert!((figures.times(Way::Inbox, Way::Bare) - 98.0 / 90.0).abs() < 1e-9);
    }

    #[test]
    fn comparison_with_unmeasured_way_is_zero() {
        let rounds = rounds(&[], &[5]);
        let figures = Figures { rounds: &rounds };
        assert_eq!(figures.times(Way::Inbox, Way::Bare), 0.0);
        assert_eq!(figures.beyond(Way::Inbox, Way::Bare), 0.0);
    }

    #[test]
    fn unstreamed_first_token_equals_total_time() {
        let sample = |whole, first: Option<u64>| Sample {
            whole: Duration::from_millis(whole),
            first_token: first.map(Duration::from_millis),
        };
        let samples = vec![sample(90, Some(50)), sample(91, None), sample(92, None)];
        let rounds = Rounds::from([(Way::Api, samples)]);
        let figures = Figures { rounds: &rounds };
        assert_eq!(figures.first_tokens(Way::Api).p50, 91.0);
        assert_eq!(figures.unstreamed(Way::Api), 2);
        let shown = tokens(&figures).rows;
        let shown: Vec<&Vec<String>> = shown
            .iter()
            .filter(|row| row[0] == Way::Api.label())
            .collect();
        assert_eq!(shown, [&[Way::Api.label(), "3", "91.0", "92.0", "2"]]);
    }

    #[test]
    fn a2a_is_not_compared_with_owner_floor() {
        let rounds = rounds(&[80], &[86]);
        let figures = Figures { rounds: &rounds };
        let ratios = ratios(&figures, &Cold::default());
        assert!(ratios.iter().all(|ratio| !ratio.key.contains("a2a")));
        let shown = ways(&figures).rows;
        let row = |way: Way| shown.iter().find(|row| row[0] == way.label()).unwrap();
        assert!(row(Way::A2a).ends_with(&["-".to_owned(), "-".to_owned()]));
        assert!(row(Way::Inbox).ends_with(&["1.07".to_owned(), "6.0".to_owned()]));
    }

    #[test]
    fn plots_are_svg() {
        let rounds = rounds(&[80], &[86]);
        let plots = plots(&Figures { rounds: &rounds }, &Cold::default());
        assert!(plots.iter().all(|plot| plot.file().ends_with(".svg")));
    }
}
