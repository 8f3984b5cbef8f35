//! A drill: messages, kills, bad weather and outages that a seed decides, and a verdict that comes from outside.
//! Which daemon is drilled, and how it is started and killed, is behind [`Stage`]: `codex-bridge drill` plays it with
//! our own, the bench also with the ancestor's way, so that both meet the same.

mod by_clock;
mod by_messages;
mod outcome;
mod outside;
mod play;
mod traffic;

use crate::{Options, ScriptedModel, SinkKind, Talks, TalksOptions};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use outcome::{Cost, Kills, Outcome};
pub use play::Play;

/// What is drilled: a daemon that reads the scene's platform, and the Codex below it that asks the scene's model.
pub trait Stage {
    /// Starts the daemon.
    fn start(&mut self) -> io::Result<()>;

    /// Waits until the daemon ends by itself, which it never should; says how.
    fn ended(&mut self) -> impl Future<Output = io::Result<String>>;

    /// Ends the daemon without a warning, and it alone.
    fn kill(&mut self) -> impl Future<Output = io::Result<()>>;

    /// Kills one Codex process; false when none is there.
    fn kill_codex(&mut self) -> bool;

    /// The directory whose directories turns work in.
    fn work(&self) -> PathBuf;

    /// Tells whoever watches how it goes.
    fn tell(&self, words: &str);
}

/// What stands around a drilled daemon.
#[derive(Debug)]
pub struct Scene {
    /// What Codex asks.
    pub model: ScriptedModel,
    /// Where messages come from and replies go to.
    pub talks: Talks,
}

impl Scene {
    /// Sets it up for this seed.
    pub async fn set(kind: SinkKind, seed: u64) -> io::Result<Self> {
        // Asked once and not again by itself, so that calls can be counted.
        let model = ScriptedModel::start(Options {
            request_max_retries: 0,
            stream_max_retries: 0,
            ..Options::default()
        })
        .await?;
        let talks = Talks::start(TalksOptions {
            kind,
            canvases: traffic::LANES,
            seed,
            ..TalksOptions::default()
        })
        .await?;
        Ok(Self { model, talks })
    }
}

/// What decides when things go wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rhythm {
    /// The clock, for so long.
    Clock(Duration),
    /// The progress of so many messages: every daemon, however fast, is told the same and meets as many faults.
    Messages(usize),
}
