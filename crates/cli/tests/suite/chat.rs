//! A world with a Molecule platform in it: a canvas user and a peer agent write there, the daemon serves one
//! workspace of it by the ancestor's three variables, and everything is judged by what the platform shows.

use crate::world::{Daemon, Lines, World};
use bridge_sim::Options;
use bridge_sim::molecule::{
    Bubble, Edition, InboxMessage, MoleculeOptions, MoleculePlatform, Route, Said, Workspace,
};
use std::time::Duration;

/// Failures are quick to mend, so that tests need not wait for it.
const HASTY: &str =
    "codex.restarts_per_minute = 600\nturn.backoff_base_ms = 50\nturn.config_probe_secs = 1\n";

/// Who writes at the canvas is the owner, also on platforms that do not mark it.
fn owners(edition: Edition) -> &'static str {
    match edition {
        Edition::August => "[molecule.origins]\ncanvas = 'owner'\n",
        Edition::Seed | Edition::New => "[molecule.origins]\nunmarked = 'owner'\n",
    }
}

/// A turn that is held ends by what a test does, and never because Codex is tired of waiting.
const UNENDING: Duration = Duration::from_secs(600);

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
        Self::with(edition(Edition::Seed), "").await
    }

    /// The newer platform, and these settings.
    pub(crate) async fn with_settings(settings: &str) -> Self {
        Self::with(MoleculeOptions::default(), settings).await
    }

    /// `settings` are further lines of codex-bridge.toml, those of `turn` and `codex` as dotted keys.
    pub(crate) async fn with(options: MoleculeOptions, settings: &str) -> Self {
        let mut chat = Self::without_token(options, settings).await;
        chat.world.set_env("WORKSPACE_ID", &chat.us.id);
        let token = &chat.us.token;
        chat.world.set_env("MOLECULE_WORKSPACE_TOKEN", token);
        chat
    }

    /// The daemon is told where the platform is; which workspaces it serves, and how, is the test's business.
    pub(crate) async fn without_token(options: MoleculeOptions, settings: &str) -> Self {
        let owners = owners(options.edition);
        let platform = MoleculePlatform::start(options).await.unwrap();
        let us = platform.add_workspace("alpha");
        let peer = platform.add_workspace("beta");
        let model = Options {
            stream_idle_timeout: UNENDING,
            ..Options::default()
        };
        let settings = format!("{HASTY}{settings}\n{owners}");
        let mut world = World::with_model(model, &settings).await;
        world.set_env("PLATFORM_URL", &platform.url());
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

    /// The canvas user writes, with whatever a message can have.
    pub(crate) fn says_with(&self, said: &Said) -> String {
        self.platform.canvas_says_with(&self.us, said).unwrap()
    }

    /// The peer agent writes; gives the row's id.
    pub(crate) fn peer_says(&self, text: &str) -> String {
        self.platform.peer_says(&self.peer, &self.us, text).unwrap()
    }

    /// The bubbles that the canvas user sees now.
    pub(crate) fn texts(&self) -> Vec<String> {
        texts(self.platform.bubbles(&self.us))
    }

    /// Waits until the canvas user sees so many bubbles; gives their texts.
    pub(crate) async fn bubbles(&self, count: usize) -> Vec<String> {
        texts(self.shown(count).await)
    }

    /// Waits until the canvas user sees so many bubbles.
    pub(crate) async fn shown(&self, count: usize) -> Vec<Bubble> {
        let seen = self.platform.wait_for_bubbles(&self.us, count).await;
        seen.unwrap()
    }

    /// Waits until the peer got so many messages; gives their texts.
    pub(crate) async fn peer_got(&self, count: usize) -> Vec<String> {
        let got = self.peer_inbox(count).await;
        got.into_iter().map(|message| message.text).collect()
    }

    /// Waits until the peer got so many messages.
    pub(crate) async fn peer_inbox(&self, count: usize) -> Vec<InboxMessage> {
        let got = self.platform.wait_for_inbox(&self.peer, count).await;
        got.unwrap()
    }

    /// Waits until the platform shows something.
    pub(crate) async fn until(&self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let seen = self.platform.wait_until(what, |_| reached(self));
        if let Err(error) = seen.await {
            panic!(
                "{error}: {:?} {:#?} {:?}",
                self.platform.heartbeats(&self.us),
                self.platform.counts(),
                self.texts()
            );
        }
    }

    /// Waits until the feed was read so often more.
    pub(crate) async fn looks(&self, more: usize) {
        let before = self.platform.count(Route::Activity, 200);
        self.until("more looks", |chat| {
            chat.platform.count(Route::Activity, 200) >= before + more
        })
        .await;
    }

    /// Waits until the canvas user sees a question; gives its code.
    pub(crate) async fn question(&self) -> String {
        let code = |chat: &Self| {
            let told = chat.texts();
            let asked = told.iter().find(|text| text.contains("Codex asks: "))?;
            let (_, after) = asked.split_once("`approve ")?;
            Some(after.split('`').next()?.to_owned())
        };
        self.until("a question", |chat| code(chat).is_some()).await;
        code(self).unwrap()
    }

    /// How many calls of this kind there were, however they ended.
    pub(crate) fn calls(&self, route: Route) -> usize {
        let calls = self.platform.calls();
        calls.iter().filter(|seen| seen.route == route).count()
    }

    /// The Codex threads that the model was asked from, call by call.
    pub(crate) fn threads(&self) -> Vec<String> {
        let asked = self.world.model.requests().into_iter();
        asked.map(|seen| seen.thread_id.unwrap()).collect()
    }
}

/// A platform of this edition.
pub(crate) fn edition(edition: Edition) -> MoleculeOptions {
    MoleculeOptions {
        edition,
        ..MoleculeOptions::default()
    }
}

fn texts(bubbles: Vec<Bubble>) -> Vec<String> {
    bubbles.into_iter().map(|bubble| bubble.text).collect()
}

/// The values of a number's field in all lines of a log that hold these words, in order.
pub(crate) fn numbers(log: &Lines, words: &str, field: &str) -> Vec<u64> {
    let begin = format!("{field}=");
    let log = log.text();
    let lines = log.lines().filter(|line| line.contains(words));
    let values = lines.flat_map(str::split_whitespace);
    let values = values.filter_map(|word| word.strip_prefix(&begin)?.parse().ok());
    values.collect()
}
