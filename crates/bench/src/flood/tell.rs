//! The floods as a section: rates side by side, and memory before, while and after.

use super::{Flood, Floods, Watched};
use crate::bars;
use crate::section::{Column, Plot, Ratio, Section, Table, Whose};
use crate::stage::served::{TICK_MS, Ticks};
use crate::stats::{median, millis};
use std::time::Duration;

impl Watched {
    fn words(self) -> &'static str {
        match self {
            Self::Nobody => "through the bridge, watched by nobody",
            Self::Reader => "through the bridge, one reader",
            Self::SleeperToo => "through the bridge, a reader and one who stops reading",
        }
    }

    /// Short enough to stand beside a column.
    fn label(self) -> &'static str {
        match self {
            Self::Nobody => "bridge, watched by nobody",
            Self::Reader => "bridge, one reader",
            Self::SleeperToo => "bridge, a reader and a sleeper",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Nobody => "unwatched",
            Self::Reader => "watched",
            Self::SleeperToo => "watched_slowly",
        }
    }
}

impl Floods {
    pub(super) fn section(&self) -> Section {
        let mut section = Section {
            title: "A flood of deltas".to_owned(),
            words: vec![format!(
                "One turn whose answer comes in {} deltas as fast as the model can write them: from the first one \
                 until the whole reply can be seen on the platform, or for a bare client until `turn/completed`. Every \
                 flood is on a thread of its own, the ways take turns, and every text is compared with what the model \
                 said. Watching is server-sent events on the daemon's socket, which show what is being written up to 64 KiB of it. Memory is the daemon's alone (RSS); SQLite keeps \
                 pages of the ledger in memory up to a fixed size, and {} floods fill that before the first one counts.",
                self.deltas, self.filling
            )],
            ..Section::default()
        };
        section.tables.push(self.rates());
        section.tables.push(self.memory());
        section.plots.push(self.plot());
        section.ratios.extend(self.ratios());
        section.bars.push(bars::memory_after_floods(self.growth()));
        section
    }

    fn of(&self, watched: Watched) -> Vec<&Flood> {
        let of = |flood: &&Flood| flood.watched == watched;
        self.ours.iter().filter(of).collect()
    }

    /// Deltas per second.
    fn rate(&self, times: &[Duration]) -> f64 {
        let ms: Vec<f64> = times.iter().map(|time| millis(*time)).collect();
        self.deltas as f64 * 1_000.0 / median(&ms)
    }

    fn rate_of(&self, watched: Watched) -> f64 {
        let times: Vec<Duration> = self.of(watched).iter().map(|flood| flood.took).collect();
        self.rate(&times)
    }

    /// Processor time of one delta in microseconds.
    fn spent(&self, watched: Watched, whose: fn(Ticks) -> u64) -> f64 {
        let floods = self.of(watched);
        let ticks: u64 = floods.iter().map(|flood| whose(flood.spent)).sum();
        let deltas = floods.len() as f64 * self.deltas as f64;
        ticks as f64 * TICK_MS * 1_000.0 / deltas
    }

    fn rates(&self) -> Table {
        let bare = self.rate(&self.bare);
        let mut rows = vec![vec![
            "bare client".to_owned(),
            format!("{bare:.0}"),
            "1.00".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ]];
        for watched in Watched::ALL {
            let rate = self.rate_of(watched);
            let of = |value: fn(&Flood) -> f64| {
                let values: Vec<f64> = self.of(watched).into_iter().map(value).collect();
                median(&values)
            };
            let mut row = vec![
                watched.words().to_owned(),
                format!("{rate:.0}"),
                format!("{:.2}", rate / bare),
                format!("{:.0}", self.spent(watched, |spent| spent.ours)),
                format!("{:.0}", self.spent(watched, |spent| spent.codex)),
            ];
            row.extend(match watched {
                Watched::Nobody => [String::new(), String::new(), String::new()],
                Watched::Reader | Watched::SleeperToo => [
                    format!("{:.0}", of(|flood| flood.seen.texts as f64)),
                    format!("{:.1}", of(|flood| flood.seen.bytes as f64 / 1_048_576.0)),
                    format!("{:.0}", of(|flood| flood.seen.longest_gap_ms)),
                ],
            });
            rows.push(row);
        }
        let head = [
            "",
            "deltas/s",
            "of bare",
            "processor, bridge, us/delta",
            "processor, its Codex, us/delta",
            "texts shown",
            "MiB told",
            "longest time without a new text, ms",
        ];
        Table {
            title: "One turn in many pieces".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows,
        }
    }

    /// What all of them left in memory, as a share of what was there.
    fn growth(&self) -> f64 {
        let last = self.ours.last();
        last.map_or(0.0, |last| last.after_mib / self.full_mib)
    }

    fn memory(&self) -> Table {
        let mib = |value: f64| format!("{value:.1}");
        let before = |words: String, value| vec![words, String::new(), mib(value)];
        let mut rows = vec![
            before("after one short answer".to_owned(), self.fresh_mib),
            before(
                format!(
                    "after {} floods that fill SQLite's page caches",
                    self.filling
                ),
                self.full_mib,
            ),
        ];
        for (number, flood) in self.ours.iter().enumerate() {
            rows.push(vec![
                format!("flood {}, {}", number + 1, flood.watched.words()),
                mib(flood.peak_mib),
                mib(flood.after_mib),
            ]);
        }
        Table {
            title: "The daemon's memory".to_owned(),
            head: ["", "peak, MiB", "afterwards, MiB"]
                .map(str::to_owned)
                .to_vec(),
            rows,
        }
    }

    fn plot(&self) -> Plot {
        let mut rows = vec![Column {
            label: "bare client".to_owned(),
            value: self.rate(&self.bare),
            whose: Whose::Codex,
        }];
        rows.extend(Watched::ALL.into_iter().map(|watched| Column {
            label: watched.label().to_owned(),
            value: self.rate_of(watched),
            whose: Whose::Ours,
        }));
        Plot::Columns {
            file: "flood.svg",
            title: format!("One turn in {} deltas", self.deltas),
            unit: "deltas/s",
            rows,
            bar: None,
        }
    }

    fn ratios(&self) -> Vec<Ratio> {
        let bare = self.rate(&self.bare);
        let mut ratios: Vec<Ratio> = Watched::ALL
            .into_iter()
            .map(|watched| Ratio {
                key: format!("flood.{}_to_bare", watched.key()),
                words: format!("deltas/s {}, against a bare client", watched.words()),
                value: self.rate_of(watched) / bare,
            })
            .collect();
        ratios.push(Ratio {
            key: "flood.memory".to_owned(),
            words: "the daemon's memory after the last flood against before the first".to_owned(),
            value: self.growth(),
        });
        ratios
    }
}
