//! The platform of the demo: a Molecule workspace that the daemon serves, and a person and a peer agent who write there.
//! They see what the platform shows them, not what the daemon says of itself.

use super::say;
use anyhow::Context;
use bridge_channel::molecule::{
    FIRST_START, MAX_REPLY_CHARS, Origin, Origins, POLL, Secret, Settings, TokenSource,
};
use bridge_core::port::{OnUnknown, TurnTransport};
use bridge_core::value::Tier;
use bridge_daemon::config::Workspace;
use bridge_daemon::term::{Paint, escape};
use bridge_sim::molecule::{MoleculeOptions, MoleculePlatform, Workspace as Place};
use std::time::Duration;

/// How long a reply on the platform may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A platform with two workspaces: ours, and one of an agent.
pub(super) struct Molecule {
    platform: MoleculePlatform,
    ours: Place,
    scout: Place,
}

impl Molecule {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let options = MoleculeOptions {
            patience: PATIENCE,
            ..MoleculeOptions::default()
        };
        let platform = MoleculePlatform::start(options)
            .await
            .context("start the platform")?;
        Ok(Self {
            ours: platform.add_workspace("codex"),
            scout: platform.add_workspace("scout"),
            platform,
        })
    }

    /// Our workspace, as the daemon is told to serve it.
    pub(super) fn served(&self) -> Workspace {
        Workspace {
            settings: Settings {
                workspace: self.ours.id.clone(),
                platform_url: self.platform.url(),
                token: TokenSource::Value(Secret::new(self.ours.token.clone())),
                org_id: None,
                allow_http: false,
                origins: Origins::of([Origin::Canvas], Tier::Owner),
                first_start: FIRST_START,
                poll: POLL,
                wake: true,
                max_reply_chars: MAX_REPLY_CHARS,
                name: Some("codex".to_owned()),
                on_unknown: OnUnknown::Hold,
            },
            via: TurnTransport::AppServer,
            token_from: "the demo".to_owned(),
        }
    }

    /// A person writes at the canvas, and the reply appears there.
    pub(super) async fn canvas_says(&self, paint: Paint, text: &str) -> anyhow::Result<()> {
        say(&format!("  {} {text}", paint.cyan("canvas:")));
        self.platform.canvas_says(&self.ours, text)?;
        let bubbles = self.platform.wait_for_bubbles(&self.ours, 1).await?;
        let reply = bubbles.last().context("a bubble came and went")?;
        let who = paint.green("codex on the canvas:");
        say(&format!("  {who} {}", escape(&reply.text)));
        Ok(())
    }

    /// A peer agent writes, and gets its reply as a message of its own.
    pub(super) async fn scout_says(&self, paint: Paint, text: &str) -> anyhow::Result<()> {
        say(&format!("  {} {text}", paint.cyan("agent scout:")));
        self.platform.peer_says(&self.scout, &self.ours, text)?;
        let inbox = self.platform.wait_for_inbox(&self.scout, 1).await?;
        let reply = inbox.last().context("a message came and went")?;
        let who = paint.green("codex to agent scout:");
        say(&format!("  {who} {}", escape(&reply.text)));
        Ok(())
    }

    pub(super) async fn stop(mut self) {
        self.platform.down().await;
    }
}
