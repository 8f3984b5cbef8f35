//! The real Codex with many threads in one process: how many turns per second come through the bridge, and how many
//! a minimal client gets out of a Codex of its own; both in turn, on the same model.

use crate::ground::Ground;
use crate::section::{Axis, Curve, Plot, Ratio, Section, Table, Whose};
use crate::stage::Place;
use crate::stage::app_server::AppServer;
use crate::stage::process;
use crate::stage::served::{Served, TICK_MS};
use crate::stats::{median, millis};
use anyhow::{Context, ensure};
use serde_json::json;
use std::time::Duration;

const ANSWER: &str = "here";
/// Fewest and most samples of a point; between them it has as many turns as the plan says.
const SAMPLES: (usize, usize) = (5, 40);
/// What is done behind an answer has this long until processor time is read.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
struct Point {
    threads: usize,
    /// Turns per second.
    ours: f64,
    bare: f64,
    /// Processor time of a turn, in ms.
    our_time: f64,
    codex_time: f64,
    bare_time: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Bare,
}

impl Side {
    /// The one that goes first changes with every round.
    fn order(round: usize) -> [Self; 2] {
        match round % 2 {
            0 => [Self::Ours, Self::Bare],
            _ => [Self::Bare, Self::Ours],
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Threads {
    points: Vec<Point>,
}

struct Sides {
    served: Served,
    bare: AppServer,
    /// The bare one has a CODEX_HOME of its own, and the same model.
    _place: Place,
}

pub(super) async fn measure(ground: &Ground) -> anyhow::Result<Threads> {
    let most = ground.plan.threads.iter().max().copied().unwrap_or(1);
    let served = Served::start(ground, most).await?;
    let place = Place::new(&served.model.codex_config())?;
    let bare = AppServer::start(&ground.codex, &place).await?;
    let mut sides = Sides {
        served,
        bare,
        _place: place,
    };
    let mut points = Vec::new();
    for threads in &ground.plan.threads {
        points.push(sides.point(*threads, ground.plan.thread_turns).await?);
    }
    sides.bare.stop().await?;
    sides.served.stop().await?;
    Ok(Threads { points })
}

impl Sides {
    async fn point(&mut self, threads: usize, turns: usize) -> anyhow::Result<Point> {
        let conversations: Vec<String> = (0..threads)
            .map(|number| format!("of-{threads}-{number}"))
            .collect();
        let mut ids = Vec::new();
        for _ in 0..threads {
            ids.push(self.bare.thread(json!({})).await?);
        }
        self.served.ask(&conversations, ANSWER).await?;
        self.ask_bare(&ids).await?;
        let samples = (turns / threads).clamp(SAMPLES.0, SAMPLES.1);
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        tokio::time::sleep(SETTLE).await;
        // Once for all samples: the processes are separate, so nothing that one does counts for another.
        let (party, bare_pid) = (self.served.party()?, self.bare.pid()?);
        let (before, before_bare) = (party.ticks(), bare_ticks(bare_pid)?);
        for round in 0..samples {
            for side in Side::order(round) {
                let (rates, took) = match side {
                    Side::Ours => (&mut ours, self.served.ask(&conversations, ANSWER).await?),
                    Side::Bare => (&mut bare, self.ask_bare(&ids).await?),
                };
                rates.push(rate(threads, took));
            }
        }
        tokio::time::sleep(SETTLE).await;
        let spent = party.ticks().since(before);
        let spent_bare = bare_ticks(bare_pid)?.saturating_sub(before_bare);
        let each = |ticks: u64| ticks as f64 * TICK_MS / (samples * threads) as f64;
        Ok(Point {
            threads,
            ours: median(&ours),
            bare: median(&bare),
            our_time: each(spent.ours),
            codex_time: each(spent.codex),
            bare_time: each(spent_bare),
        })
    }

    /// One turn on each of these threads, to the end of the last; then it is looked whether all said the right thing.
    async fn ask_bare(&mut self, threads: &[String]) -> anyhow::Result<Duration> {
        let turns = self.bare.turns(threads, &format!("echo:{ANSWER}")).await?;
        ensure!(turns.texts.len() == threads.len(), "a bare turn is missing");
        for text in &turns.texts {
            ensure!(text == ANSWER, "a bare turn answered {text:?}");
        }
        Ok(turns.whole)
    }
}

fn bare_ticks(pid: i32) -> anyhow::Result<u64> {
    process::ticks(pid).context("no bare Codex")
}

/// Per second.
fn rate(turns: usize, took: Duration) -> f64 {
    turns as f64 * 1_000.0 / millis(took)
}

impl Threads {
    pub(super) fn tell(&self, section: &mut Section) {
        section.words.push(
            "Turns per second of the real Codex, with so many conversations at the same time: each says one thing, \
             and the next round begins when the last answer can be seen. Through the bridge a message goes from the \
             platform's inbox to the visible reply, every step durable; the bare client writes `turn/start` and waits \
             for `turn/completed`. Both have a Codex of their own and the same model, and take turns; which of \
             them goes first changes with every round, and every answer is compared. Processor time is what the kernel \
             counts for bridge and keeper, and for each Codex, from before the first sample until shortly after the \
             last: what is done behind an answer is in it."
                .to_owned(),
        );
        section.tables.push(self.table());
        section.plots.push(self.plot());
        for point in &self.points {
            let threads = point.threads;
            section.ratios.push(Ratio {
                key: format!("footprint.threads_{threads}"),
                words: format!(
                    "turns/s through the bridge against bare, {threads} at the same time"
                ),
                value: point.ours / point.bare,
            });
        }
    }

    fn table(&self) -> Table {
        let head = [
            "at the same time",
            "bridge, turns/s",
            "bare, turns/s",
            "ratio",
            "processor, bridge and keeper, ms/turn",
            "processor, Codex behind it, ms/turn",
            "processor, bare Codex, ms/turn",
        ];
        let row = |point: &Point| {
            vec![
                point.threads.to_string(),
                format!("{:.1}", point.ours),
                format!("{:.1}", point.bare),
                format!("{:.2}", point.ours / point.bare),
                format!("{:.1}", point.our_time),
                format!("{:.1}", point.codex_time),
                format!("{:.1}", point.bare_time),
            ]
        };
        Table {
            title: "The real Codex with many threads in one process".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: self.points.iter().map(row).collect(),
        }
    }

    fn plot(&self) -> Plot {
        let axis = |label: &str, logarithmic| Axis {
            label: label.to_owned(),
            logarithmic,
        };
        let curve = |label: &str, whose, value: fn(&Point) -> f64| Curve {
            label: label.to_owned(),
            points: self
                .points
                .iter()
                .map(|point| (point.threads as f64, value(point)))
                .collect(),
            whose,
        };
        Plot::Curves {
            file: "threads.svg",
            title: "Turns per second of one Codex".to_owned(),
            x: axis("conversations at the same time", true),
            y: axis("turns/s", false),
            curves: vec![
                curve("through the bridge", Whose::Ours, |point| point.ours),
                curve("bare app-server", Whose::Codex, |point| point.bare),
            ],
            bar: None,
        }
    }
}
