//! A node dies in the middle of a turn, by `kill -9` with everything it runs: how long until its conversation has a turn
//! on the other one. Each round kills the node that the last one went to.

use super::nodes::{Engine, Node, Scene, Stopped};
use crate::traces::life::Line;
use anyhow::Context;
use jiff::Timestamp;
use std::time::Duration;

/// A node renews its lease so many times before it would end; the deaths are spread over one of these times.
const RENEWALS: u32 = 4;
/// What a node says when it takes a conversation over.
const TAKEN: &str = "the node of a conversation is gone; it goes on here";

/// From the death to each of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    /// The other node has the conversation.
    pub(super) taken: Duration,
    /// The model is asked by a turn of that node.
    pub(super) asked: Duration,
    /// The answer is in the database.
    pub(super) answered: Duration,
}

pub(super) async fn measure(
    scene: &Scene,
    home: Node,
    lease: Duration,
) -> anyhow::Result<(Vec<Death>, [Node; 2])> {
    let mut home = home;
    let mut other = Some(scene.machine("second", Engine::Postgres)?);
    let mut deaths = Vec::new();
    let rounds = scene.ground.plan.deaths;
    for round in 0..rounds {
        let next = other.take().context("no machine to go on")?;
        let next = scene.start(next).await?;
        let share = (lease / RENEWALS).mul_f64(round as f64 / rounds as f64);
        let (death, gone) = die(scene, home, &next, round, share).await?;
        deaths.push(death);
        (home, other) = (next, Some(gone));
    }
    let other = scene.start(other.context("no machine is left")?).await?;
    Ok((deaths, [home, other]))
}

/// `after` so long in the turn.
async fn die(
    scene: &Scene,
    home: Node,
    next: &Node,
    round: usize,
    after: Duration,
) -> anyhow::Result<(Death, Stopped)> {
    let gate = format!("death-{round}");
    let place = next.daemon.log.len();
    let send = home.says(&format!("hold:{gate} echo:after death {round}"))?;
    scene.model.wait_held(&gate).await?;
    tokio::time::sleep(after).await;
    let newest = scene.model.requests().last().map_or(0, |seen| seen.number);
    let died = Timestamp::now();
    let gone = home.dies().await?;
    drop(send);
    let taken = next
        .daemon
        .log
        .wait(place, "a conversation that is taken over", |line| {
            let at = line
                .contains(TAKEN)
                .then(|| line.split_whitespace().next())??;
            at.parse::<Timestamp>().ok()
        });
    let taken = taken.await?;
    let asks =
        |seen: &bridge_sim::Seen| seen.number > newest && seen.home.as_deref() == Some(next.name);
    let seen = scene.model.wait_for(asks).await?;
    let asked = Timestamp::from_millisecond(i64::try_from(seen.at_ms)?)?;
    scene.model.release(&gate);
    let answered = next.daemon.log.wait(place, "an answer", |line| {
        let line = Line::read(line)?;
        (line.moment == "answered").then_some(line.at)
    });
    let answered = answered.await?;
    let since = |at: Timestamp| Duration::try_from(at.duration_since(died)).unwrap_or_default();
    let death = Death {
        taken: since(taken),
        asked: since(asked),
        answered: since(answered),
    };
    Ok((death, gone))
}
