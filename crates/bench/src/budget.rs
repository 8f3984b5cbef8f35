//! Many conversations on a memory budget for Codex: whether all are answered and the budget holds, over time, and what
//! it costs a message that its thread must be loaded again.

use crate::bars;
use crate::ground::Ground;
use crate::section::{Axis, Curve, Plot, Ranked, Ratio, Section, Table, Whose};
use crate::stage::process::Reading;
use crate::stage::served::Served;
use crate::stage::socket::Socket;
use crate::stats::Spread;
use anyhow::ensure;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Conversations that are written to at once.
const AT_ONCE: usize = 16;
const ANSWER: &str = "here";
/// How often the memory is read.
const READ_EVERY: Duration = Duration::from_millis(250);
/// Rows of the table of memory over time.
const TOLD: usize = 12;
/// How often every conversation is written to.
const ROUNDS: usize = 2;

/// The memory of Codex at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    after: Duration,
    rss_mib: f64,
    loaded: u64,
}

/// One daemon and its conversations.
#[derive(Debug)]
struct Course {
    moments: Vec<Moment>,
    answered: usize,
    took: Duration,
    resumed: u64,
    released: u64,
}

impl Course {
    fn most(&self) -> f64 {
        let mib = self.moments.iter().map(|moment| moment.rss_mib);
        mib.fold(0.0, f64::max)
    }

    fn most_loaded(&self) -> u64 {
        let loaded = self.moments.iter().map(|moment| moment.loaded);
        loaded.max().unwrap_or_default()
    }
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let plan = &ground.plan;
    let held = Stage::start(ground, plan.budget_mib).await?;
    let on_budget = held.run(plan.budgeted).await?;
    let (loaded, unloaded) = held.times(plan.budgeted, plan.budget_samples).await?;
    held.served.stop().await?;
    let free = Stage::start(ground, 0).await?;
    let without = free.run(plan.budgeted).await?;
    free.served.stop().await?;
    Ok(section(ground, &on_budget, &without, loaded, unloaded))
}

struct Stage {
    served: Served,
    socket: Socket,
}

fn name(number: usize) -> String {
    format!("budget-{number}")
}

impl Stage {
    async fn start(ground: &Ground, budget_mib: u64) -> anyhow::Result<Self> {
        let settings = format!("codex.memory_mib = {budget_mib}\n");
        let served = Served::start_with(ground, AT_ONCE, &settings).await?;
        let socket = Socket::of(&served.daemon)?;
        Ok(Self { served, socket })
    }

    /// Writes to every conversation in turn, and reads the memory meanwhile.
    async fn run(&self, conversations: usize) -> anyhow::Result<Course> {
        let began = Instant::now();
        let over = Arc::new(Notify::new());
        let reader = self.read(began, Arc::clone(&over));
        let writer = async {
            let names: Vec<String> = (0..conversations).map(name).collect();
            let mut answered = 0;
            for _ in 0..ROUNDS {
                for some in names.chunks(AT_ONCE) {
                    self.served.ask(some, ANSWER).await?;
                    answered += some.len();
                }
            }
            over.notify_one();
            Ok::<_, anyhow::Error>((answered, began.elapsed()))
        };
        let (moments, (answered, took)) = tokio::try_join!(reader, writer)?;
        Ok(Course {
            moments,
            answered,
            took,
            resumed: self.socket.codex_memory("threads_resumed").await?,
            released: self.socket.codex_memory("threads_released").await?,
        })
    }

    async fn read(&self, began: Instant, over: Arc<Notify>) -> anyhow::Result<Vec<Moment>> {
        let mut moments = Vec::new();
        loop {
            let codex = self.served.party()?.codex;
            let loaded = self.socket.codex_memory("threads_loaded").await?;
            // A process that has just ended is read the next time.
            if let Ok(reading) = Reading::of(&codex) {
                moments.push(Moment {
                    after: began.elapsed(),
                    rss_mib: reading.rss_mib,
                    loaded,
                });
            }
            let pause = tokio::time::timeout(READ_EVERY, over.notified());
            if pause.await.is_ok() {
                return Ok(moments);
            }
        }
    }

    /// Messages one by one: to the conversation that was written to last, and to the one that was not for the longest
    /// time. The daemon says which of them had to be loaded.
    async fn times(&self, all: usize, samples: usize) -> anyhow::Result<(Spread, Spread)> {
        let (mut loaded, mut unloaded) = (Vec::new(), Vec::new());
        for sample in 0..samples {
            let name = [name(sample % all)];
            for (times, loads) in [(&mut unloaded, 1), (&mut loaded, 0)] {
                let before = self.socket.codex_memory("threads_resumed").await?;
                times.push(self.served.ask(&name, ANSWER).await?);
                let now = self.socket.codex_memory("threads_resumed").await?;
                ensure!(now - before == loads, "{name:?}: {} loads", now - before);
            }
        }
        Ok((Spread::of(&loaded), Spread::of(&unloaded)))
    }
}

fn section(
    ground: &Ground,
    on_budget: &Course,
    without: &Course,
    loaded: Spread,
    unloaded: Spread,
) -> Section {
    let (count, mib) = (ground.plan.budgeted, ground.plan.budget_mib);
    let words = format!(
        "{count} conversations of the real Codex, each written to {ROUNDS} times, {AT_ONCE} at once, with \
         `codex.memory_mib = {mib}` and without a budget. Memory is the resident memory of Codex and of what it started, \
         read every {} ms by the bench itself. On the budget {} of {} messages were answered in {:.0} s, {} threads were \
         unloaded and {} loaded again; without one {} in {:.0} s. Then messages went one by one, in turn to the \
         conversation that had waited longest and to the one that had just been answered; the daemon counts which of them \
         it had to load.",
        READ_EVERY.as_millis(),
        on_budget.answered,
        count * ROUNDS,
        on_budget.took.as_secs_f64(),
        on_budget.released,
        on_budget.resumed,
        without.answered,
        without.took.as_secs_f64(),
    );
    let ranked = |label: &str, spread| Ranked {
        label: label.to_owned(),
        spread,
        more: Vec::new(),
    };
    let rows = [
        ranked("its thread is loaded", loaded),
        ranked("its thread is loaded again", unloaded),
    ];
    Section {
        title: "Conversations on a memory budget".to_owned(),
        words: vec![words],
        tables: vec![
            over_time("on the budget", on_budget),
            over_time("without a budget", without),
            Table::of_spreads("Message to visible answer, ms", &["a message"], 1, &rows),
        ],
        plots: vec![plot(on_budget, without, mib)],
        ratios: vec![Ratio {
            key: "budget.unbounded_to_budget".to_owned(),
            words: "most memory of Codex without a budget against on one".to_owned(),
            value: without.most() / on_budget.most(),
        }],
        bars: vec![bars::budget_held(on_budget.most(), mib, count)],
    }
}

/// A dozen moments, and the fullest of all.
fn over_time(label: &str, course: &Course) -> Table {
    let step = course.moments.len().div_ceil(TOLD).max(1);
    let mut rows: Vec<Vec<String>> = course
        .moments
        .iter()
        .step_by(step)
        .map(|moment| {
            vec![
                format!("{:.0}", moment.after.as_secs_f64()),
                format!("{:.0}", moment.rss_mib),
                moment.loaded.to_string(),
            ]
        })
        .collect();
    rows.push(vec![
        "the most".to_owned(),
        format!("{:.0}", course.most()),
        course.most_loaded().to_string(),
    ]);
    Table {
        title: format!("Memory of Codex {label}"),
        head: ["after, s", "RSS, MiB", "threads loaded"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
}

fn plot(on_budget: &Course, without: &Course, mib: u64) -> Plot {
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        logarithmic: false,
    };
    let curve = |label: &str, whose, course: &Course| Curve {
        label: label.to_owned(),
        points: course
            .moments
            .iter()
            .map(|moment| (moment.after.as_secs_f64(), moment.rss_mib))
            .collect(),
        whose,
    };
    Plot::Curves {
        file: "budget.svg",
        title: "Memory of Codex with many conversations (RSS)".to_owned(),
        x: axis("seconds"),
        y: axis("MiB"),
        curves: vec![
            curve("on the budget", Whose::Ours, on_budget),
            curve("without a budget", Whose::Codex, without),
        ],
        bar: Some((mib as f64, format!("codex.memory_mib = {mib}"))),
    }
}
