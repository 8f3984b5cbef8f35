//! How soon a message on Molecule is picked up: from the commit of its row to the page that brings it, for one sender
//! and for many whose rows commit in the order of a lock. Nothing else runs meanwhile: the only turn is held.

use crate::bars;
use crate::ground::Ground;
use crate::section::{Ranked, Section, Table};
use crate::stage::Place;
use crate::stage::canvas::{Canvas, Hearing};
use crate::stage::log::Log;
use crate::stats::Spread;
use anyhow::Context;
use bridge_sim::molecule::{Late, Workspace};
use bridge_sim::{Options, ScriptedModel};
use jiff::Timestamp;
use std::time::Duration;

/// One turn at a time, and it is held: the processors belong to the feed.
const SETTINGS: &str = "[daemon]\nturns_max = 1\nturns_reserved = 0\ndrain_secs = 0\n";
/// Shows which row a message was read from, and when.
const LOG: &str = "info,bridge_channel::molecule::feed=debug";
/// Between two messages of one sender: as long as the looks that they cause may take in the long run.
const GAP: Duration = Duration::from_millis(300);
/// How long an insert holds the lock of its workspace, at most; as in the tests of the order.
const LOCKED: Duration = Duration::from_millis(4);
/// Messages of each of many senders; more would be taken for a loop.
const EACH: usize = 10;

const WORDS: &str = "From the commit of a message's row on the platform to the page that brings it into the daemon, by \
     the platform's events. The agents write again as soon as the platform answered; their rows wait for one lock and \
     become visible out of order. Every sender's order is kept (ADR 0057).";

/// When a row could be seen.
struct Committed {
    row: String,
    at: Timestamp,
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let model = ScriptedModel::start(Options::default()).await?;
    let place = Place::new(&model.codex_config())?;
    let canvas = Canvas::start(ground, &place, Hearing::Events, SETTINGS, Some(LOG)).await?;
    let alone = one_sender(&canvas, ground.plan.picked_up).await?;
    let many = many_senders(&canvas, ground.plan.senders).await?;
    canvas.daemon.kill().await?;
    Ok(section(ground.plan.senders, alone, many))
}

async fn one_sender(canvas: &Canvas, messages: usize) -> anyhow::Result<Spread> {
    let mut times = Vec::new();
    for number in 0..messages {
        let at = Timestamp::now();
        let text = format!("hold:pickup {number}");
        let row = canvas.platform.canvas_says(canvas.us(), &text)?;
        times.push(picked_up(&canvas.daemon.log, Committed { row, at }).await?);
        tokio::time::sleep(GAP).await;
    }
    Ok(Spread::of(&times))
}

async fn many_senders(canvas: &Canvas, senders: usize) -> anyhow::Result<Spread> {
    canvas.platform.set_late_messages(Late::Locked(LOCKED));
    let peers: Vec<Workspace> = (0..senders)
        .map(|number| canvas.platform.add_workspace(&format!("sender {number}")))
        .collect();
    let writers = peers.iter().map(|peer| writes(canvas, peer));
    let committed = futures_util::future::try_join_all(writers).await?;
    let mut times = Vec::new();
    for row in committed.into_iter().flatten() {
        times.push(picked_up(&canvas.daemon.log, row).await?);
    }
    Ok(Spread::of(&times))
}

async fn writes(canvas: &Canvas, peer: &Workspace) -> anyhow::Result<Vec<Committed>> {
    let mut rows = Vec::new();
    for number in 0..EACH {
        let text = format!("hold:pickup {number}");
        let sent = canvas.platform.peer_sends(peer, canvas.us(), &text);
        let row = sent.await?;
        let at = Timestamp::now();
        rows.push(Committed { row, at });
    }
    Ok(rows)
}

/// How long after its commit a row was read; nothing where the daemon was quicker than the sender's own wakening.
async fn picked_up(log: &Log, committed: Committed) -> anyhow::Result<Duration> {
    let words = format!(" row={} ", committed.row);
    let find = |line: &str| line.contains(&words).then(|| line.to_owned());
    let line = log.wait(0, "a message that is picked up", find).await?;
    let at = line.split_whitespace().next().unwrap_or_default();
    let at: Timestamp = at.parse().with_context(|| format!("a time in {line:?}"))?;
    let span = at.duration_since(committed.at);
    Ok(Duration::try_from(span).unwrap_or_default())
}

fn section(senders: usize, alone: Spread, many: Spread) -> Section {
    let ranked = |label: String, spread: Spread| Ranked {
        label,
        spread,
        more: Vec::new(),
    };
    let rows = [
        ranked("one person at the canvas".to_owned(), alone),
        ranked(format!("{senders} agents at once"), many),
    ];
    Section {
        title: "Picking up".to_owned(),
        words: vec![WORDS.to_owned()],
        tables: vec![Table::of_spreads(
            "Commit to pick-up, ms",
            &["who writes"],
            1,
            &rows,
        )],
        bars: vec![bars::picked_up(many.p95, senders)],
        ..Section::default()
    }
}
