//! A world with a Molecule platform in it: a canvas user and a peer agent write there, the daemon serves one
//! workspace of it by the ancestor's three variables, and everything is judged by what the platform shows.

use crate::world::{Daemon, World};
use bridge_sim::molecule::{Bubble, Edition, MoleculeOptions, MoleculePlatform, Workspace};

/// A world, the platform, and who is on it.
pub(crate) struct Chat {
    pub(crate) world: World,
    pub(crate) platform: MoleculePlatform,
    /// The workspace that the daemon serves.
    pub(crate) us: Workspace,
    /// An agent of another workspace.
    pub(crate) peer: Workspace,
}

impl Chat {
    /// The newer platform, with defaults that make failures quick to mend.
    pub(crate) async fn new() -> Self {
        Self::with(MoleculeOptions::default(), "").await
    }

    /// The older platform.
    pub(crate) async fn old() -> Self {
        let options = MoleculeOptions {
            edition: Edition::Seed,
            ..MoleculeOptions::default()
        };
        Self::with(options, "").await
    }

    /// `settings` are further lines of codex-bridge.toml.
    pub(crate) async fn with(options: MoleculeOptions, settings: &str) -> Self {
        let platform = MoleculePlatform::start(options).await.unwrap();
        let us = platform.add_workspace("alpha");
        let peer = platform.add_workspace("beta");
        let mut world = World::with_settings(&format!(
            "{settings}\n[codex]\nrestarts_per_minute = 600\n[turn]\nbackoff_base_ms = 50\n"
        ))
        .await;
        world.set_env("WORKSPACE_ID", &us.id);
        world.set_env("PLATFORM_URL", &platform.url());
        world.set_env("MOLECULE_WORKSPACE_TOKEN", &us.token);
        Self {
            world,
            platform,
            us,
            peer,
        }
    }

    pub(crate) async fn daemon(&self) -> Daemon {
        self.world.daemon().await
    }

    /// The canvas user writes; gives the row's id.
    pub(crate) fn says(&self, text: &str) -> String {
        self.platform.canvas_says(&self.us, text).unwrap()
    }

    /// The peer agent writes; gives the row's id.
    pub(crate) fn peer_says(&self, text: &str) -> String {
        self.platform.peer_says(&self.peer, &self.us, text).unwrap()
    }

    /// Waits until the canvas user sees so many bubbles; gives their texts.
    pub(crate) async fn bubbles(&self, count: usize) -> Vec<String> {
        let seen = self.platform.wait_for_bubbles(&self.us, count).await;
        seen.unwrap()
            .into_iter()
            .map(|Bubble { text, .. }| text)
            .collect()
    }

    /// Waits until the peer got so many messages; gives their texts.
    pub(crate) async fn peer_got(&self, count: usize) -> Vec<String> {
        let got = self.platform.wait_for_inbox(&self.peer, count).await;
        got.unwrap()
            .into_iter()
            .map(|message| message.text)
            .collect()
    }
}
