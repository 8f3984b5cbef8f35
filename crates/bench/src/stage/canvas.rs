//! A Molecule platform on loopback and the daemon that serves one of its workspaces: a person writes on the canvas and
//! sees the answer. What is measured with it belongs to the parts.

use super::Place;
use super::daemon::{Daemon, DaemonOptions};
use crate::ground::Ground;
use anyhow::ensure;
use bridge_sim::molecule::{MoleculeOptions, MoleculePlatform, Workspace};
use std::time::{Duration, Instant};

/// How the daemon hears of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// The platform's events.
    Events,
    /// Looking every so often.
    Polls { every_secs: u64 },
}

pub(crate) struct Canvas {
    pub(crate) platform: MoleculePlatform,
    pub(crate) daemon: Daemon,
    us: Workspace,
    bubbles: usize,
}

impl Canvas {
    /// Starts both and waits until the daemon listens to the platform. `settings` goes into the daemon's file beside
    /// what the platform needs.
    pub(crate) async fn start(
        ground: &Ground,
        place: &Place,
        hearing: Hearing,
        settings: &str,
        log: Option<&str>,
    ) -> anyhow::Result<Self> {
        let platform = MoleculePlatform::start(MoleculeOptions::default()).await?;
        let us = platform.add_workspace("alpha");
        let channel = match hearing {
            Hearing::Events => "[molecule]\nwake = true\n".to_owned(),
            Hearing::Polls { every_secs } => {
                format!("[molecule]\nwake = false\npoll_secs = {every_secs}\n")
            }
        };
        let options = DaemonOptions {
            settings: format!("{settings}\n{channel}origins.canvas = 'owner'\n"),
            env: vec![
                ("WORKSPACE_ID".to_owned(), us.id.clone()),
                ("PLATFORM_URL".to_owned(), platform.url()),
                ("MOLECULE_WORKSPACE_TOKEN".to_owned(), us.token.clone()),
            ],
            log: log.map(ToOwned::to_owned),
        };
        let daemon = Daemon::start(ground, place, options).await?;
        if hearing == Hearing::Events {
            let listening = |platform: &MoleculePlatform| platform.listening(&us) > 0;
            platform.wait_until("a listener", listening).await?;
        }
        Ok(Self {
            platform,
            daemon,
            us,
            bubbles: 0,
        })
    }

    pub(crate) fn us(&self) -> &Workspace {
        &self.us
    }

    /// A person writes, and waits for the answer: from the row being stored to its bubble being visible.
    pub(crate) async fn says(&mut self, text: &str, answer: &str) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.platform.canvas_says(&self.us, text)?;
        self.bubbles += 1;
        let bubbles = self.platform.wait_for_bubbles(&self.us, self.bubbles);
        let bubbles = bubbles.await?;
        let seen = began.elapsed();
        ensure!(bubbles.len() == self.bubbles, "a bubble too many");
        let said = bubbles.last().map(|bubble| bubble.text.as_str());
        ensure!(
            said == Some(answer),
            "the bubble says {said:?}, not {answer:?}"
        );
        Ok(seen)
    }
}
