//! What faults cost in model calls and input tokens: the bridge and the ancestor's algorithm, told the same messages
//! and killed and refused at the same points of their progress. Counts, not times.

pub(crate) mod ancestor;
mod drill;
mod side;
mod stage;

use crate::bars;
use crate::ground::Ground;
use crate::section::{Column, Plot, Ratio, Section, Table, Whose};
use anyhow::{Context, ensure};
use bridge_sim::SinkKind;
use bridge_sim::drill::{Play, Rhythm, Scene};
use side::Side;
use stage::AncestorStage;
use std::time::Duration;
use tokio::time::timeout;

/// Where chance comes from, on both sides and in every run.
const SEED: u64 = 7;
/// The longest time for a message of one side, quiet afterwards included; beyond it something hangs.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(6);
/// And for becoming quiet.
const QUIET_PATIENCE: Duration = Duration::from_secs(240);

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let messages = ground.plan.drilled;
    let patience = MESSAGE_PATIENCE * u32::try_from(messages)? + QUIET_PATIENCE;
    let ours = drill::run(ground, SEED, patience).await?;
    let theirs = drill_ancestor(ground, patience).await?;
    for side in [&ours, &theirs] {
        let all = u64::try_from(messages)?;
        ensure!(side.sent == all, "{} of {all} messages sent", side.sent);
    }
    ensure!(
        ours.model_calls_needed == theirs.model_calls_needed,
        "the two sides were not told the same"
    );
    Ok(section(&ours, &theirs))
}

/// Whatever comes of it, nothing of it runs on.
async fn drill_ancestor(ground: &Ground, patience: Duration) -> anyhow::Result<Side> {
    let scene = Scene::set(SinkKind::Probeable, SEED).await?;
    let stage = AncestorStage::set(ground, &scene)?;
    let mut play = Play::new(stage, scene, SEED);
    let played = timeout(patience, play.run(Rhythm::Messages(ground.plan.drilled))).await;
    play.stage.clear().await?;
    played.context("the drill of the ancestor hangs")??;
    let (_stage, outcome) = play.close()?;
    Side::of(&outcome)
}

fn section(ours: &Side, theirs: &Side) -> Section {
    let calls = theirs.model_calls_per_answer / ours.model_calls_per_answer;
    let tokens = theirs.input_tokens_per_answer / ours.input_tokens_per_answer;
    let ratio = |key: &str, words: &str, value| Ratio {
        key: key.to_owned(),
        words: words.to_owned(),
        value,
    };
    Section {
        title: "Cost under faults".to_owned(),
        words: words(ours),
        tables: vec![table(ours, theirs)],
        plots: vec![
            columns(
                "cost-calls.svg",
                "Model calls per answered message, under faults",
                "calls",
                [ours, theirs].map(|side| side.model_calls_per_answer),
            ),
            columns(
                "cost-tokens.svg",
                "Input tokens per answered message, under faults",
                "tokens",
                [ours, theirs].map(|side| side.input_tokens_per_answer),
            ),
        ],
        ratios: vec![
            ratio(
                "cost.calls",
                "model calls per answered message under faults, ancestor against bridge",
                calls,
            ),
            ratio(
                "cost.tokens",
                "input tokens per answered message under faults, ancestor against bridge",
                tokens,
            ),
        ],
        bars: vec![bars::promises_broken(ours.broken.len())],
    }
}

fn words(ours: &Side) -> Vec<String> {
    vec![
        format!(
            "`codex-bridge drill --messages {} --seed {SEED}`: real daemon, real Codex, scripted model. Both sides are \
             told the same messages in the same conversations; half of them run a command first, which is a second model \
             call. After every 8th message that ended, the daemon alone or Codex is killed in turn (`kill -9`, 0 to \
             150 ms after a turn began); after every 10th an old message is stored once more; after every 30th the \
             platform is gone for 0.3 to 1.5 s. Of the replies and of the questions whether one arrived 8 % are refused, \
             7 % are taken and their receipt is lost, 3 % are cut before they are taken, 7 % take up to 0.3 s longer: for \
             replies decided by seed, text and try, so both sides meet the same. Of the looks at the feed 1 % are \
             refused, by seed and by how often it was looked.",
            ours.sent
        ),
        "The ancestor is its algorithm as its own description and tests give it, one row after the other: one `codex \
         exec` per message, stdout as the reply, then the next row; a reply that fails leaves the row in its place, so it \
         is run again; 1 to 60 s of backoff where the poll fails; sessions in a file. It is given every doubt: \
         `--resume` never was a flag of `codex exec`, so `codex exec resume ID` is used; its stdin is closed, or it \
         would wait; a run that fails is a notice and not a wrong answer; it knows the chat command that begins a new \
         conversation, and keeps in a file which row it has replied to; its sandbox may write, as ours may; its Codex gets the settings that the \
         bridge gives its own. What the model is told of approvals still differs: a run of `codex exec` asks nobody, \
         an owner's turn may ask. Input tokens per model call show what such differences come to."
            .to_owned(),
        "Input tokens are the bytes of every request that Codex sent (instructions, tools, history, message) divided by \
         4: the model is scripted and counts none. Both sides are counted at the model, answers at the platform, effects \
         in the files that commands wrote. `beyond` is what a run without any fault would not have asked."
            .to_owned(),
    ]
}

fn table(ours: &Side, theirs: &Side) -> Table {
    let row = |label: &str, value: fn(&Side) -> String| {
        vec![label.to_owned(), value(ours), value(theirs)]
    };
    Table {
        title: "The same messages under the same faults".to_owned(),
        head: ["", "bridge", "ancestor"].map(str::to_owned).to_vec(),
        rows: vec![
            row("sent", |side| side.sent.to_string()),
            row("answered", |side| side.answered.to_string()),
            row("dead, with a visible notice", |side| side.dead.to_string()),
            row("lost", |side| side.lost.to_string()),
            row("doubled: replied to twice", |side| side.doubled.to_string()),
            row("effects twice", |side| side.effects_twice.to_string()),
            row("model asked after the answer", |side| {
                side.asked_again.to_string()
            }),
            row("model calls", |side| side.model_calls.to_string()),
            row("model calls beyond", |side| side.beyond().to_string()),
            row("model calls per answer", |side| {
                format!("{:.2}", side.model_calls_per_answer)
            }),
            row("input tokens per answer", |side| {
                format!("{:.0}", side.input_tokens_per_answer)
            }),
            row("input tokens per model call", |side| {
                format!("{:.0}", side.input_tokens_per_call())
            }),
            row("kills of the daemon", |side| side.daemon_kills.to_string()),
            row("kills of Codex", |side| side.codex_kills.to_string()),
        ],
    }
}

fn columns(file: &'static str, title: &str, unit: &'static str, values: [f64; 2]) -> Plot {
    let sides = [("bridge", Whose::Ours), ("ancestor", Whose::Other)];
    let rows = sides.into_iter().zip(values);
    Plot::Columns {
        file,
        title: title.to_owned(),
        unit,
        rows: rows
            .map(|((label, whose), value)| Column {
                label: label.to_owned(),
                value,
                whose,
            })
            .collect(),
        bar: None,
    }
}
