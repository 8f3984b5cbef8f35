//! From nothing: no daemon, no Codex, a home that no Codex has seen. The first answer of ours, and that of one
//! `codex exec`.

use super::exec;
use super::send::send;
use crate::ground::Ground;
use crate::stage::Place;
use crate::stage::daemon::{Daemon, DaemonOptions};
use bridge_sim::{Options, ScriptedModel};
use std::time::{Duration, Instant};

/// One of each in turn.
#[derive(Debug, Default)]
pub(super) struct Cold {
    /// From the start of the daemon to the end of the first `send`.
    pub(super) ours: Vec<Duration>,
    /// How much of it went by until the daemon was ready.
    pub(super) ready: Vec<Duration>,
    pub(super) exec: Vec<Duration>,
}

pub(super) async fn measure(ground: &Ground) -> anyhow::Result<Cold> {
    let model = ScriptedModel::start(Options::default()).await?;
    let config = model.codex_config();
    let mut cold = Cold::default();
    for number in 0..ground.plan.cold_starts {
        let answer = format!("cold {number}");
        let text = format!("echo:{answer}");
        let place = Place::new(&config)?;
        let took = exec::new(&ground.codex, &place, &text, &answer).await?;
        cold.exec.push(took);
        let place = Place::new(&config)?;
        let (ready, whole) = ours(ground, &place, &text, &answer).await?;
        cold.ready.push(ready);
        cold.ours.push(whole);
    }
    Ok(cold)
}

async fn ours(
    ground: &Ground,
    place: &Place,
    text: &str,
    answer: &str,
) -> anyhow::Result<(Duration, Duration)> {
    let began = Instant::now();
    let daemon = Daemon::start(ground, place, DaemonOptions::default()).await?;
    send(&daemon, place, text, answer).await?;
    let whole = began.elapsed();
    let ready = daemon.ready_after;
    daemon.stop().await?;
    Ok((ready, whole))
}
