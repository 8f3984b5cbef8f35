//! Where the time of a message goes, by the daemon's own traces: the moments of its life and every commit, for messages
//! from the canvas.

mod cost;
mod findings;
pub(crate) mod life;

use crate::ground::Ground;
use crate::section::Section;
use crate::stage::Place;
use crate::stage::canvas::{Canvas, Hearing};
use bridge_sim::{Options, ScriptedModel};
use jiff::Timestamp;
use life::Life;

/// What an operator would write to see the same.
pub(crate) const LOG: &str = "info,bridge_trace=debug";

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let model = ScriptedModel::start(Options::default()).await?;
    let place = Place::new(&model.codex_config())?;
    let mut canvas = Canvas::start(ground, &place, Hearing::Events, "", Some(LOG)).await?;
    let mut lives = Vec::new();
    for number in 0..ground.plan.warm_rounds + ground.plan.traced {
        tokio::time::sleep(ground.plan.gap).await;
        let life = one(&mut canvas, number).await?;
        if number >= ground.plan.warm_rounds {
            lives.push(life);
        }
    }
    canvas.daemon.stop().await?;
    let mut section = findings::section(&lives);
    let cost = cost::measure(ground).await?;
    section.words.extend(cost.words);
    section.tables.extend(cost.tables);
    section.ratios.extend(cost.ratios);
    section.bars.extend(cost.bars);
    Ok(section)
}

/// One message; its life is over when the platform's word is on disk.
async fn one(canvas: &mut Canvas, number: usize) -> anyhow::Result<Life> {
    let place = canvas.daemon.log.len();
    let answer = format!("traced {number}");
    let stored = Timestamp::now();
    let took = canvas.says(&format!("echo:{answer}"), &answer).await?;
    let confirmed = |line: &str| line.contains("transition=\"confirm\"").then_some(());
    let log = &canvas.daemon.log;
    log.wait(place, "a confirmed reply", confirmed).await?;
    Life::read(&log.from(place), stored, stored + took)
}
