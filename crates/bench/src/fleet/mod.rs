//! Several nodes over one PostgreSQL, beside `pgbench` on the same server: lives per second, what storing threads adds to
//! a turn, how soon a conversation goes on when its node dies, and what idle nodes and finished messages cost.

mod database;
mod death;
mod findings;
mod idle;
mod lives;
mod nodes;
mod pgbench;
mod replay;
mod shipping;

use crate::ground::Ground;
use crate::section::Section;
use death::Death;
use idle::Idle;
use nodes::{Engine, Scene};
use replay::Replay;
use shipping::Shipping;
use std::time::Duration;

/// What the installed daemons showed.
#[derive(Clone, Debug)]
struct Daemons {
    lease: Duration,
    shipping: Shipping,
    replay: Replay,
    deaths: Vec<Death>,
    idle: Idle,
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let lives = lives::measure(&ground.plan).await?;
    let daemons = daemons(ground).await?;
    Ok(findings::section(&lives, &daemons))
}

async fn daemons(ground: &Ground) -> anyhow::Result<Daemons> {
    let scene = Scene::set(ground).await?;
    let first = scene.machine("first", Engine::Postgres)?;
    let first = scene.start(first).await?;
    let plain = scene.machine("plain", Engine::Sqlite)?;
    let plain = scene.start(plain).await?;
    let shipping = shipping::measure(&scene, &first, &plain).await?;
    plain.daemon.stop().await?;
    let replay = replay::measure(&scene, &first).await?;
    first.ask("echo:right before", "right before").await?;
    let lease = Duration::from_secs(scene.lease_secs().await?);
    let (deaths, both) = death::measure(&scene, first, lease).await?;
    let idle = idle::measure(&scene, both.len()).await?;
    for node in both {
        node.daemon.stop().await?;
    }
    Ok(Daemons {
        lease,
        shipping,
        replay,
        deaths,
        idle,
    })
}
