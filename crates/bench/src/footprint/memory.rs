//! What the daemon, its keeper and Codex have resident: idle, with many conversations behind them, and with many
//! turns at the same time; the last against one app-server for each task.

use crate::bars;
use crate::ground::Ground;
use crate::section::{Column, Plot, Ratio, Section, Table, Whose};
use crate::stage::Place;
use crate::stage::app_server::AppServer;
use crate::stage::process::Reading;
use crate::stage::served::{Readings, Served};
use anyhow::{Context, ensure};
use bridge_sim::{Options, ScriptedModel};
use serde_json::json;
use tokio::task::JoinSet;

/// Conversations that are written to at once while many become known.
const AT_ONCE: usize = 50;
/// Room for turns beyond those that are measured.
const TURNS_SPARE: usize = 14;
/// What the model says when its gate opens.
const ANSWER: &str = "here";

#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    idle: Readings,
    known: (usize, Readings),
    active: (usize, Readings),
    /// The same turns, each in an app-server of its own.
    one_each: Reading,
}

pub(super) async fn measure(ground: &Ground) -> anyhow::Result<Memory> {
    let (idle, known) = idle_and_known(ground).await?;
    let active = active(ground).await?;
    let one_each = one_each(ground).await?;
    Ok(Memory {
        idle,
        known: (ground.plan.known, known),
        active: (ground.plan.active, active),
        one_each,
    })
}

async fn idle_and_known(ground: &Ground) -> anyhow::Result<(Readings, Readings)> {
    let served = Served::start(ground, AT_ONCE).await?;
    let idle = served.party()?.read()?;
    let conversations: Vec<String> = (0..ground.plan.known)
        .map(|number| format!("known-{number}"))
        .collect();
    for some in conversations.chunks(AT_ONCE) {
        served.ask(some, ANSWER).await?;
    }
    let known = served.party()?.read()?;
    served.stop().await?;
    Ok((idle, known))
}

fn gate(number: usize) -> String {
    format!("gate-{number}")
}

fn held(number: usize) -> String {
    format!("hold:{} echo:{ANSWER}", gate(number))
}

/// Read while every turn waits for its model.
async fn active(ground: &Ground) -> anyhow::Result<Readings> {
    let count = ground.plan.active;
    let served = Served::start(ground, count + TURNS_SPARE).await?;
    let texts: Vec<(String, String)> = (0..count)
        .map(|number| (format!("active-{number}"), held(number)))
        .collect();
    let rows = served.say(&texts)?;
    for number in 0..count {
        served.model.wait_held(&gate(number)).await?;
    }
    ensure!(served.model.active() == count, "not every turn runs");
    let readings = served.party()?.read()?;
    for number in 0..count {
        served.model.release(&gate(number));
    }
    served.answered(&rows, ANSWER).await?;
    served.stop().await?;
    Ok(readings)
}

/// One app-server for each turn, in one CODEX_HOME, as somebody would do it without a bridge.
async fn one_each(ground: &Ground) -> anyhow::Result<Reading> {
    let count = ground.plan.active;
    let model = ScriptedModel::start(Options::default()).await?;
    let place = Place::new(&model.codex_config())?;
    let mut turns = JoinSet::new();
    let mut pids = Vec::new();
    for number in 0..count {
        let mut server = AppServer::start(&ground.codex, &place).await?;
        pids.push(server.pid()?);
        let thread = server.thread(json!({})).await?;
        turns.spawn(async move {
            let turn = server.turn(&thread, &held(number)).await?;
            server.stop().await?;
            Ok::<_, anyhow::Error>(turn.text)
        });
        model.wait_held(&gate(number)).await?;
    }
    ensure!(model.active() == count, "not every turn runs");
    let reading = Reading::of(&pids)?;
    for number in 0..count {
        model.release(&gate(number));
    }
    while let Some(turn) = turns.join_next().await {
        let text = turn.context("a client was cut")??;
        ensure!(text == ANSWER, "a bare turn answered {text:?}");
    }
    model.stop().await;
    Ok(reading)
}

impl Memory {
    pub(super) fn tell(&self, section: &mut Section) {
        let (known, (active, busy)) = (&self.known, &self.active);
        let times = self.one_each.rss_mib / busy.all.rss_mib;
        let shared = self.one_each.pss_mib / busy.all.pss_mib;
        section.words.push(format!(
            "Memory is what the kernel counts as resident (RSS). Every process that maps a page has it counted, so \
             {active} processes of one program are counted with {active} copies of its code; PSS divides shared pages \
             among them and is given beside it. Idle means that the daemon is ready and its Codex is up and has no \
             thread. {known} conversations were each answered once by the real Codex in this life of the daemon. With \
             {active} active, every turn has begun and waits for its model; one app-server per task means the same \
             turns, each in an app-server of its own, in one CODEX_HOME. The bars for our own memory hold for the \
             daemon; its keeper runs the same program, and shares the pages of its code with it.",
            known = known.0,
        ));
        section.tables.push(self.table());
        section.plots.push(self.plot());
        section.ratios.extend([
            ratio(
                "one_each_to_all",
                "memory of one app-server per task against bridge and Codex (RSS)",
                times,
            ),
            ratio(
                "one_each_to_all_shared",
                "the same with shared pages divided (PSS)",
                shared,
            ),
            ratio(
                "known_to_idle",
                "bridge's own memory with many conversations against idle",
                known.1.bridge.rss_mib / self.idle.bridge.rss_mib,
            ),
        ]);
        section.bars.extend([
            bars::idle_memory(self.idle.bridge.rss_mib),
            bars::known_memory(known.1.bridge.rss_mib, known.0),
            bars::smaller_than_one_each(times, *active),
        ]);
    }

    fn table(&self) -> Table {
        let head = ["", "processes", "RSS, MiB", "PSS, MiB", "descriptors"];
        let mut rows = Vec::new();
        let states = [
            ("idle".to_owned(), &self.idle),
            (
                format!("{} conversations known", self.known.0),
                &self.known.1,
            ),
            (format!("{} active", self.active.0), &self.active.1),
        ];
        for (state, readings) in states {
            let parts = [
                ("bridge", readings.bridge),
                ("keeper", readings.keeper),
                ("Codex", readings.codex),
                ("together", readings.all),
            ];
            for (part, reading) in parts {
                rows.push(row(format!("{state}: {part}"), reading));
            }
        }
        let label = format!("{} active: one app-server per task", self.active.0);
        rows.push(row(label, self.one_each));
        Table {
            title: "Memory and descriptors".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows,
        }
    }

    fn plot(&self) -> Plot {
        let column = |label: &str, value, whose| Column {
            label: label.to_owned(),
            value,
            whose,
        };
        let (active, busy) = &self.active;
        let times = bars::smaller_than_one_each(0.0, *active).limit.number();
        Plot::Columns {
            file: "memory.svg",
            title: format!("{active} turns at the same time: memory (RSS)"),
            unit: "MiB",
            rows: vec![
                column("bridge and keeper", ours(busy), Whose::Ours),
                column("the one Codex behind it", busy.codex.rss_mib, Whose::Codex),
                column("together", busy.all.rss_mib, Whose::Ours),
                column(
                    "one app-server per task",
                    self.one_each.rss_mib,
                    Whose::Other,
                ),
            ],
            bar: Some((
                self.one_each.rss_mib / times,
                format!("at most, together: 1/{times:.0} of one app-server per task"),
            )),
        }
    }
}

/// Bridge and keeper: all that we add to Codex.
fn ours(readings: &Readings) -> f64 {
    readings.bridge.rss_mib + readings.keeper.rss_mib
}

fn ratio(key: &str, words: &str, value: f64) -> Ratio {
    Ratio {
        key: format!("footprint.{key}"),
        words: words.to_owned(),
        value,
    }
}

fn row(label: String, reading: Reading) -> Vec<String> {
    vec![
        label,
        reading.processes.to_string(),
        format!("{:.1}", reading.rss_mib),
        format!("{:.1}", reading.pss_mib),
        reading.descriptors.to_string(),
    ]
}
