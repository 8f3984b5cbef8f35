//! The same message at another pace: after a silence, and on a platform without events. They are few and say what the
//! main table does not.

use super::stage::Stage;
use super::way::Way;
use crate::ground::Ground;
use crate::stage::Place;
use crate::stage::canvas::{Canvas, Hearing};
use bridge_sim::{Options, ScriptedModel};
use std::time::Duration;

/// How often a platform without events is looked at here; the shortest that can be set.
pub(super) const POLL_SECS: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct Pace {
    pub(super) bare_after_silence: Vec<Duration>,
    pub(super) inbox_after_silence: Vec<Duration>,
    pub(super) polled: Vec<Duration>,
}

/// A client that writes now and then finds caches and processors colder.
pub(super) async fn after_silence(
    ground: &Ground,
    stage: &mut Stage,
    pace: &mut Pace,
) -> anyhow::Result<()> {
    for number in 0..ground.plan.silences {
        tokio::time::sleep(ground.plan.silence).await;
        let bare = stage.go(Way::Bare, number).await?;
        pace.bare_after_silence.push(bare.whole);
        tokio::time::sleep(ground.plan.silence).await;
        let inbox = stage.go(Way::Inbox, number).await?;
        pace.inbox_after_silence.push(inbox.whole);
    }
    Ok(())
}

pub(super) async fn polled(ground: &Ground, pace: &mut Pace) -> anyhow::Result<()> {
    let model = ScriptedModel::start(Options::default()).await?;
    let place = Place::new(&model.codex_config())?;
    let hearing = Hearing::Polls {
        every_secs: POLL_SECS,
    };
    let mut canvas = Canvas::start(ground, &place, hearing, "", None).await?;
    canvas.says("echo:warm", "warm").await?;
    for number in 0..ground.plan.polled {
        let answer = format!("polled {number}");
        let took = canvas.says(&format!("echo:{answer}"), &answer).await?;
        pace.polled.push(took);
    }
    canvas.daemon.stop().await
}
