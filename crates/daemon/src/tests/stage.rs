//! A daemon on a stage: its loops run, messages are shown to it, and what it made of them is looked at.

use super::agent::ScriptedAgent;
use super::platform::ScriptedPlatform;
use crate::Daemon;
use crate::config::Config;
use crate::fleet::NodeSettings;
use crate::process::counted::Counted;
use crate::settings::{Settings, StartSettings};
use bridge_channel::files::{FILE_MAX_BYTES, FileStore};
use bridge_core::port::{LedgerError, Read};
use bridge_core::step::{MidTurn, Receive, Received, Verdict};
use bridge_core::value::{
    BootId, ChannelId, ConversationId, ExternalId, MessageId, NodeId, NodeInfo, SenderKind,
    StateName, Tier,
};
use bridge_host::keeper::KeeperLease;
use bridge_testkit::MemoryLedger;
use bridge_testkit::fault::FaultLedger;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longest virtual time for anything; only a broken daemon gets there.
const PATIENCE: Duration = Duration::from_secs(6 * 3_600);
/// How often the stage looks, in virtual time.
const LOOK: Duration = Duration::from_secs(1);

/// The next look, in virtual time.
async fn pause() {
    let mut look = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
    look.tick().await;
}

fn node(keepers: KeeperLease) -> NodeSettings {
    NodeSettings {
        node_id: NodeId::new("n"),
        lease: LOOK,
        keepers,
        fenced: CancellationToken::new(),
    }
}

type Staged = Daemon<Counted<FaultLedger<MemoryLedger>>, ScriptedAgent, ScriptedPlatform>;

/// One daemon with everything around it.
pub(super) struct Stage {
    pub(super) daemon: Arc<Staged>,
    pub(super) ledger: FaultLedger<MemoryLedger>,
    pub(super) agent: ScriptedAgent,
    pub(super) platform: ScriptedPlatform,
    work: Arc<TempDir>,
    config: Config,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(super) fn with(config: Config) -> Self {
        let work = Arc::new(tempfile::tempdir().unwrap());
        let (agent, platform) = (ScriptedAgent::default(), ScriptedPlatform::default());
        Self::over(MemoryLedger::new(), agent, platform, work, config, None)
    }

    fn over(
        rows: MemoryLedger,
        agent: ScriptedAgent,
        platform: ScriptedPlatform,
        work: Arc<TempDir>,
        config: Config,
        node: Option<NodeSettings>,
    ) -> Self {
        let ledger = FaultLedger::new(rows);
        let boot = BootId::new("boot");
        let file_store = FileStore::open(work.path().join("files"), FILE_MAX_BYTES).unwrap();
        let root = work.path().join("work");
        let start = StartSettings {
            node,
            ..StartSettings::new(boot, root, file_store)
        };
        let settings = Settings::new(&config, Arc::new(start));
        let daemon = Daemon::new(
            Counted::new(ledger.clone()),
            agent.clone(),
            platform.clone(),
            settings,
        );
        Self {
            daemon,
            ledger,
            agent,
            platform,
            work,
            config,
        }
    }

    /// Starts the loops, after what an earlier life left was found; a ledger that fails is asked again.
    pub(super) fn start(&self) {
        let daemon = Arc::clone(&self.daemon);
        tokio::spawn(async move {
            while daemon.recover().await.is_err() {
                pause().await;
            }
            tokio::spawn(Arc::clone(&daemon).rescue());
            daemon.schedule().await;
        });
    }

    /// The daemon dies; the next one has its rows, and nothing else.
    pub(super) fn dies(self) -> Self {
        self.followed_by(None)
    }

    /// The daemon dies, and the next one is a node of a fleet that may act as long as this lease lasts.
    pub(super) fn dies_on_node(self, keepers: KeeperLease) -> Self {
        self.followed_by(Some(node(keepers)))
    }

    /// From now on this lease is the node's.
    pub(super) fn leases(&self, keepers: KeeperLease) {
        let mut settings = self.daemon.settings.write().unwrap();
        let start = &settings.start;
        let start = StartSettings {
            node: Some(node(keepers)),
            ..StartSettings::new(
                start.boot_id.clone(),
                start.work_root.clone(),
                start.file_store.clone(),
            )
        };
        *settings = Arc::new(Settings::new(&self.config, Arc::new(start)));
    }

    fn followed_by(self, node: Option<NodeSettings>) -> Self {
        self.daemon.stopping.cancel();
        self.daemon.halt.cancel();
        let rows = self.ledger.inner().reopen().unwrap();
        let rows = match &node {
            Some(node) => {
                let joined = rows.join(&node.node_id, NodeInfo::default(), i64::MAX);
                joined.unwrap()
            }
            None => rows,
        };
        let (agent, platform) = (self.agent, self.platform);
        let next = Self::over(rows, agent, platform, self.work, self.config, node);
        next.start();
        next
    }

    /// The source shows a message, in a conversation of its own.
    pub(super) async fn tries_to_show(&self, text: &str) -> Result<Received, LedgerError> {
        self.tries_to_show_by(text, SenderKind::Person).await
    }

    async fn tries_to_show_by(
        &self,
        text: &str,
        kind: SenderKind,
    ) -> Result<Received, LedgerError> {
        let receive = Receive {
            message_id: MessageId::new(format!("m-{text}")),
            conversation_id: ConversationId::new(format!("c-{text}")),
            workdir: self.work.path().join(text).display().to_string(),
            channel: ChannelId::new("scripted"),
            external_key: text.to_owned(),
            external_id: ExternalId::new(text),
            kind,
            sender: "ann".to_owned(),
            tier: Tier::Owner,
            body: text.to_owned(),
            mid_turn: MidTurn::Queue,
            verdict: Verdict::Fit,
            extras: bridge_core::step::Extras::default(),
        };
        self.daemon.commit(receive).await
    }

    /// Somebody of this kind shows a message.
    pub(super) async fn shown_by(&self, text: &str, kind: SenderKind) {
        self.tries_to_show_by(text, kind).await.unwrap();
    }

    /// The source shows a message until it is taken.
    pub(super) async fn shown(&self, text: &str) -> Received {
        loop {
            match self.tries_to_show(text).await {
                Ok(received) => return received,
                Err(_) => pause().await,
            }
        }
    }

    /// Where a message is, by the rows underneath.
    pub(super) fn state(&self, text: &str) -> Option<StateName> {
        let rows = self.ledger.inner().snapshot().unwrap();
        let message = rows.message(&MessageId::new(format!("m-{text}"))).unwrap();
        message.map(|message| message.life.state.name())
    }

    /// Waits in virtual time until `reached`; false when it never is.
    pub(super) async fn reaches(&self, patience: Duration, reached: impl Fn() -> bool) -> bool {
        let end = Instant::now() + patience;
        while !reached() {
            if Instant::now() > end {
                return false;
            }
            pause().await;
        }
        true
    }

    pub(super) async fn until(&self, what: &str, reached: impl Fn() -> bool) {
        assert!(self.reaches(PATIENCE, reached).await, "waited for {what}");
    }

    /// Waits until a message is finished.
    pub(super) async fn done(&self, text: &str) {
        let what = format!("the end of {text:?}");
        self.until(&what, || self.state(text) == Some(StateName::Done))
            .await;
    }
}
