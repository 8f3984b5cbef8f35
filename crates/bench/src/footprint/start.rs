//! From the start of the process to the line that says it is ready: with nothing behind it, and with a ledger full of
//! unfinished messages; and from there to the first answer. Everything is killed between two starts.

use super::backlog::{ANSWER, Backlog};
use crate::bars;
use crate::ground::Ground;
use crate::section::{Ratio, Section, Table};
use crate::stage::Place;
use crate::stage::daemon::{Daemon, DaemonOptions};
use crate::stage::served::{codex_is_up, settings};
use crate::stage::socket::Socket;
use crate::stats::{Spread, median, millis};
use anyhow::{Context, ensure};
use bridge_sim::{Options, ScriptedModel, Seen, Talks, TalksOptions};
use bridge_store::sqlite::{Existing, back_up};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub(super) struct Start {
    backlog: Backlog,
    empty: Times,
    full: Times,
}

#[derive(Clone, Debug, Default)]
struct Times {
    ready: Vec<Duration>,
    /// From ready until a model is asked.
    asked: Vec<Duration>,
    /// From ready to the first answer.
    answered: Vec<Duration>,
}

/// One start.
struct Life {
    ready: Duration,
    asked: Duration,
    answered: Duration,
}

struct Scene<'a> {
    ground: &'a Ground,
    place: Place,
    settings: String,
    model: ScriptedModel,
    _talks: Talks,
}

pub(super) async fn measure(ground: &Ground) -> anyhow::Result<Start> {
    let model = ScriptedModel::start(Options::default()).await?;
    let talks = Talks::start(TalksOptions::default()).await?;
    let place = Place::new(&model.codex_config())?;
    let backlog = Backlog::of(ground.plan.unfinished, ground.plan.in_flight);
    let ledger = template(&place, "full", backlog).await?;
    let nothing = template(&place, "empty", Backlog::of(0, 0)).await?;
    let turns = usize::try_from(ground.plan.in_flight)?;
    let scene = Scene {
        ground,
        settings: settings(&talks, &place, turns)?,
        place,
        model,
        _talks: talks,
    };
    let (mut empty, mut full) = (Times::default(), Times::default());
    // The first of each warms the caches and is not counted.
    for number in 0..=ground.plan.starts {
        let none = scene.start(&nothing, Backlog::of(0, 0)).await?;
        let many = scene.start(&ledger, backlog).await?;
        if number > 0 {
            empty.push(none);
            full.push(many);
        }
    }
    Ok(Start {
        backlog,
        empty,
        full,
    })
}

/// A ledger that every start gets a copy of.
async fn template(place: &Place, name: &str, backlog: Backlog) -> anyhow::Result<PathBuf> {
    let written = place.path().join(format!("{name}-written.db"));
    let copy = place.path().join(format!("{name}.db"));
    backlog.write(&written).await?;
    back_up(&written, &copy, Existing::Keep)?;
    Ok(copy)
}

impl Times {
    fn push(&mut self, life: Life) {
        self.ready.push(life.ready);
        self.asked.push(life.asked);
        self.answered.push(life.answered);
    }
}

impl Scene<'_> {
    /// One life of a daemon: to ready, to the first answer, and an end without a warning.
    async fn start(&self, ledger: &Path, backlog: Backlog) -> anyhow::Result<Life> {
        let state = self.prepare(ledger)?;
        let asked_before = self
            .model
            .requests()
            .last()
            .map_or(0, |seen| seen.number + 1);
        let options = DaemonOptions {
            settings: self.settings.clone(),
            ..DaemonOptions::default()
        };
        let daemon = Daemon::start(self.ground, &self.place, options).await?;
        let began = Instant::now();
        let expected = format!("resumed={}", backlog.messages);
        let lines = daemon.log.from(0);
        ensure!(
            lines.iter().any(|line| line.contains(&expected)),
            "it was to say {expected}, and said {lines:?}"
        );
        let socket = Socket::of(&daemon)?;
        let message_id = match backlog.messages {
            0 => socket.send("first", &format!("echo:{ANSWER}")).await?,
            _ => backlog.oldest_at_work().to_string(),
        };
        let is_new = |seen: &Seen| seen.number >= asked_before;
        self.model.wait_for(is_new).await?;
        let asked = began.elapsed();
        let end = socket.end_of(&message_id).await?;
        let answered = began.elapsed();
        let text = end.pointer("/answer/text").and_then(Value::as_str);
        ensure!(text == Some(ANSWER), "a wrong end: {end}");
        let ready = daemon.ready_after;
        codex_is_up(&daemon).await?;
        daemon.kill().await?;
        std::fs::remove_dir_all(&state).context("remove the state of a killed daemon")?;
        Ok(Life {
            ready,
            asked,
            answered,
        })
    }

    /// A state directory with nothing but the ledger, so that every start finds the same.
    fn prepare(&self, ledger: &Path) -> anyhow::Result<PathBuf> {
        let state = self.place.path().join("state");
        std::fs::create_dir(&state)?;
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700))?;
        std::fs::copy(ledger, state.join("ledger.db"))?;
        Ok(state)
    }
}

impl Start {
    pub(super) fn tell(&self, section: &mut Section) {
        let Backlog {
            messages,
            answered,
            in_flight,
            ..
        } = self.backlog;
        section.words.push(format!(
            "Start: from the start of the process to its line `ready`, with an empty ledger and with \
             {messages} unfinished messages of {} conversations ({answered} answered and not sent, {in_flight} whose \
             turn ran or was lost from sight when the daemon died, the others waiting); everything is killed between \
             two starts. After that Codex itself starts; with nothing behind it one new message is sent, else the \
             turns that were cut are looked for and begun again, {in_flight} at the same time, and the first answer is \
             that of the oldest.",
            self.backlog.conversations()
        ));
        let rows = [
            ("ready, nothing behind it".to_owned(), &self.empty.ready),
            (format!("ready, {messages} unfinished"), &self.full.ready),
            (
                "ready to a model being asked, nothing behind it".to_owned(),
                &self.empty.asked,
            ),
            (
                format!("ready to a model being asked, {messages} unfinished"),
                &self.full.asked,
            ),
            (
                "ready to first answer, nothing behind it".to_owned(),
                &self.empty.answered,
            ),
            (
                format!("ready to first answer, {messages} unfinished"),
                &self.full.answered,
            ),
        ];
        section.tables.push(Table {
            title: "Start".to_owned(),
            head: ["", "starts", "p50, ms", "most, ms"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows
                .into_iter()
                .map(|(label, times)| row(label, times))
                .collect(),
        });
        let (empty, full) = (middle(&self.empty.ready), middle(&self.full.ready));
        section.ratios.push(Ratio {
            key: "footprint.start_full_to_empty".to_owned(),
            words: format!("start to ready with {messages} unfinished messages against none"),
            value: full / empty,
        });
        section.bars.push(bars::start_to_ready(full, messages));
    }
}

fn middle(times: &[Duration]) -> f64 {
    median(&times.iter().map(|time| millis(*time)).collect::<Vec<f64>>())
}

fn row(label: String, times: &[Duration]) -> Vec<String> {
    let spread = Spread::of(times);
    vec![
        label,
        spread.samples.to_string(),
        format!("{:.0}", spread.p50),
        format!("{:.0}", spread.max),
    ]
}
