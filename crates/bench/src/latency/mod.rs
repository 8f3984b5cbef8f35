//! How long one message takes, by every way: bare at Codex, through us, and one process per message. One message of
//! each way per round, so that a slow minute of the machine slows all of them.

mod cold;
mod exec;
mod findings;
mod http;
mod mcp;
mod pace;
mod send;
mod stage;
mod way;

use crate::ground::Ground;
use crate::section::Section;
use pace::Pace;
use stage::Stage;
use std::collections::BTreeMap;
use way::{Sample, Way};

/// All samples, each way's in the order of the rounds.
type Rounds = BTreeMap<Way, Vec<Sample>>;

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let mut stage = Stage::set(ground).await?;
    stage.warm_contexts().await?;
    let mut rounds = Rounds::new();
    for number in 0..ground.plan.warm_rounds + ground.plan.rounds {
        for step in Way::round(number) {
            let sample = stage.go(step.way, number).await?;
            if step.counted && number >= ground.plan.warm_rounds {
                rounds.entry(step.way).or_default().push(sample);
            }
        }
    }
    let mut pace = Pace::default();
    pace::after_silence(ground, &mut stage, &mut pace).await?;
    stage.strike().await?;
    pace::polled(ground, &mut pace).await?;
    let cold = cold::measure(ground).await?;
    Ok(findings::section(ground, &rounds, &pace, &cold))
}
