//! One life of the daemon: take the state directory, open the ledger, find what was left behind, serve, and stop
//! without leaving a process or half-written rows.

use crate::Daemon;
use crate::api::console;
use crate::api::group::{self, GroupListener};
use crate::api::listeners::{self, Listeners};
use crate::api::reload::{ConfigSource, Reloads};
use crate::api::service::{CodexDaemon, DaemonService};
use crate::config::{Config, Environment, Loaded, ProtectedPaths, Workspace};
use crate::delivery::notify_targets::NotifySettings;
use crate::fleet::{self, NodeSettings, OpenedLedger};
use crate::intake::import::ImportTarget;
use crate::ledger_key::KeyLocation;
use crate::process::clock;
use crate::process::counted::Counted;
use crate::process::service_manager::Notifier;
use crate::redaction::RedactingAgent;
use crate::redaction::registry::{self, SecretRegistry};
use crate::settings::{Settings, StartSettings};
use crate::state::{Lock, StateDir};
use anyhow::Context;
use bridge_channel::Channels;
use bridge_channel::files::FileStore;
use bridge_channel::molecule::Molecule;
use bridge_channel::notify::Webhook;
use bridge_core::port::{Agent, Ledger, LedgerError, TurnTransport};
use bridge_core::value::BootId;
use bridge_host::ApiKey;
use bridge_host::binary::launcher;
use bridge_host::keeper::KeeperLease;
use bridge_host::process::tree;
use bridge_host::upgrade::UpgradeOptions;
use bridge_host::{CodexAgent, HostOptions, LaunchOptions, binary};
use bridge_store::AnyLedger;
use bridge_store::sqlite::Soundness;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How often the daemon looks whether another one took its place.
const LOCK_LOOK: Duration = Duration::from_secs(2);
/// How often a node of a fleet looks whether somebody drains it.
const DRAIN_LOOK: Duration = Duration::from_secs(1);
/// How long the last tasks may take to let go.
pub(super) const HALT_PATIENCE: Duration = Duration::from_secs(5);

/// What the daemon is started with.
#[expect(
    missing_debug_implementations,
    reason = "the environment of Codex holds secrets"
)]
pub struct RunOptions {
    pub state_dir: PathBuf,
    pub config: Config,
    /// The Molecule workspaces to serve.
    pub molecule: Vec<Workspace>,
    /// Where the legacy program may have kept its sessions.
    pub sessions: Vec<PathBuf>,
    /// Databases of the older tool whose tasks are taken over.
    pub old_tasks: Vec<PathBuf>,
    /// Where `codex` is looked for when the configuration names none.
    pub search_path: Option<OsString>,
    /// The environment that Codex gets.
    pub codex_env: Vec<(OsString, OsString)>,
    /// A key to log Codex in with, should it have no login.
    pub api_key: Option<ApiKey>,
    /// Leave Codex running behind its socket for the next daemon.
    pub handover: bool,
    /// What no shielded turn may read.
    pub hidden: Vec<PathBuf>,
    /// What a directory that turns write in must not hold.
    pub protected_paths: ProtectedPaths,
    /// What no text may carry to people.
    pub(crate) secret_registry: SecretRegistry,
    /// Reports to the service manager.
    pub notifier: Notifier,
    /// How the configuration is read again.
    pub source: Option<ConfigSource>,
    /// Where the service manager keeps this service's credentials.
    pub credentials: Option<PathBuf>,
    /// The runtime directory that the service manager made.
    pub runtime_dir: Option<PathBuf>,
}

impl RunOptions {
    /// What the configuration and the environment amount to.
    pub fn new(state_dir: PathBuf, config: Config, environment: &Environment) -> Self {
        Self {
            hidden: vec![state_dir.clone()],
            protected_paths: ProtectedPaths::default(),
            state_dir,
            secret_registry: SecretRegistry::new(environment.secrets(&config)),
            search_path: environment.path().map(ToOwned::to_owned),
            codex_env: environment.for_codex(&config),
            api_key: environment.openai_api_key(),
            config,
            handover: false,
            notifier: Notifier::default(),
            molecule: Vec::new(),
            sessions: Vec::new(),
            old_tasks: Vec::new(),
            source: None,
            credentials: None,
            runtime_dir: environment.runtime_dir(),
        }
    }

    /// The same for a whole configuration, which also knows what lies where.
    pub fn of(state_dir: PathBuf, loaded: Loaded, environment: &Environment) -> Self {
        let hidden = loaded.hidden();
        let protected_paths = loaded.protected_paths().clone();
        // A task may run under any of them.
        let homes = loaded.config.codex.homes.iter().map(PathBuf::as_path);
        let logins: Vec<_> = loaded.codex_home().into_iter().chain(homes).collect();
        let logins: Vec<_> = logins.into_iter().map(registry::codex_logins).collect();
        let sessions = environment.old_state_dirs(&state_dir);
        let old_tasks = environment.old_task_files(&loaded.config);
        let mut options = Self::new(state_dir, loaded.config, environment);
        options.hidden = hidden;
        options.protected_paths = protected_paths;
        options.molecule = loaded.molecule;
        options.sessions = sessions;
        options.old_tasks = old_tasks;
        options.credentials = environment.credentials_dir().map(ToOwned::to_owned);
        options.hidden.extend(options.credentials.clone());
        logins
            .into_iter()
            .for_each(|source| options.secret_registry.add(source));
        options
    }
}

/// What the command of a notification may know of this process: no key, no proxy, nothing of ours.
const COMMAND_ENV: [&str; 8] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR",
];

impl RunOptions {
    fn command_env(&self) -> Vec<(OsString, OsString)> {
        let known = |name: &OsString| COMMAND_ENV.iter().any(|known| name == known);
        let env = self.codex_env.iter().filter(|(name, _)| known(name));
        env.cloned().collect()
    }
}

/// How the daemon is asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Let turns finish for a while.
    pub gently: CancellationToken,
    /// Do not wait any longer.
    pub now: CancellationToken,
    /// No stop at all: read the configuration again.
    pub reload: Arc<Notify>,
}

/// What the daemon says once it serves.
#[derive(Clone, Debug)]
pub struct Ready {
    pub api_socket: PathBuf,
    /// Where TCP is served.
    pub listen: Option<SocketAddr>,
    pub codex: PathBuf,
    pub codex_version: String,
    /// Unfinished messages that were found.
    pub resumed: usize,
    /// Whether nothing was ever sent to this daemon.
    pub is_first: bool,
}

/// A daemon that serves.
struct RunningDaemon {
    daemon: Arc<CodexDaemon<Counted<AnyLedger>>>,
    state: StateDir,
    listeners: listeners::Open,
    loops: Loops,
    ledger_check: JoinHandle<()>,
    reaping: JoinHandle<()>,
    lock: Lock,
    /// What holds this node's lease.
    holding: Option<AbortOnDropHandle<()>>,
}

/// What runs as long as the daemon does: it ends by itself when the daemon stops.
struct Loops(Vec<JoinHandle<()>>);

impl Loops {
    fn start<L: Ledger>(daemon: &Arc<CodexDaemon<L>>, inbox: DaemonService<L>) -> Self {
        let mut loops = vec![
            tokio::spawn(Arc::clone(daemon).schedule()),
            tokio::spawn(Arc::clone(daemon).prune()),
            tokio::spawn(Arc::clone(daemon).rescue()),
            tokio::spawn(Arc::clone(daemon).write_work_log()),
            tokio::spawn(Arc::clone(daemon).export_traces()),
            tokio::spawn(Arc::clone(daemon).deliver_events()),
            tokio::spawn(Arc::clone(daemon).watch_quotas()),
        ];
        for molecule in daemon.sink.molecule.clone() {
            let (inbox, stop) = (inbox.clone(), daemon.stopping.clone());
            let (present, inbox_of_presence) = (molecule.clone(), inbox.clone());
            let fetched = molecule.clone();
            let fetch = move |stop| {
                let (molecule, inbox) = (fetched.clone(), inbox.clone());
                async move { molecule.fetch(inbox, stop).await }
            };
            let reading = Arc::clone(daemon).while_reader(molecule, stop, fetch);
            loops.push(tokio::spawn(reading));
            // Until the last turn has ended: people see that we still work.
            let halt = daemon.halt.clone();
            let attended = present.clone();
            let attend = move |halt| {
                let (molecule, inbox) = (attended.clone(), inbox_of_presence.clone());
                async move { molecule.attend(inbox, halt).await }
            };
            let attending = Arc::clone(daemon).while_reader(present, halt, attend);
            loops.push(tokio::spawn(attending));
        }
        Self(loops)
    }

    /// The loops of a daemon that shares its ledger with others.
    fn join_fleet(
        &mut self,
        daemon: &Arc<CodexDaemon<Counted<AnyLedger>>>,
        node: &NodeSettings,
    ) -> anyhow::Result<()> {
        let Some(postgres) = daemon.ledger.inner().postgres() else {
            return Ok(());
        };
        daemon.steers.reach(postgres.clone());
        let wakeups = postgres.wakeups().context("listen to the other nodes")?;
        let hearing = Arc::clone(daemon).hear_other_nodes(postgres.clone(), wakeups);
        let watching = Arc::clone(daemon).watch_other_nodes(postgres.clone());
        let slowly = Arc::clone(daemon).look_slowly();
        let looking = Arc::clone(daemon).take_over(node.lease / fleet::LOOKS);
        let sharing = Arc::clone(daemon).share_old_files();
        let offering = Arc::clone(daemon).offer_channels(daemon.sink.molecule.clone());
        self.0.push(tokio::spawn(offering));
        self.0.push(tokio::spawn(sharing));
        self.0.push(tokio::spawn(hearing));
        self.0.push(tokio::spawn(watching));
        self.0.push(tokio::spawn(looking));
        self.0.push(tokio::spawn(slowly));
        Ok(())
    }

    async fn ended(self) {
        for task in self.0 {
            let _ended = tokio::time::timeout(HALT_PATIENCE, task).await;
        }
    }
}

/// Runs until it is stopped.
pub async fn run(
    mut options: RunOptions,
    ready: oneshot::Sender<Ready>,
    stop: Stop,
) -> anyhow::Result<()> {
    let secret_registry = std::mem::take(&mut options.secret_registry);
    let serving = tokio::select! {
        serving = start(&options, secret_registry, ready) => serving?,
        () = stop.gently.cancelled() => return Ok(()),
    };
    options.notifier.ready("serving");
    let alive = tokio::spawn(Arc::clone(&serving.daemon).keep_alive(options.notifier.clone()));
    let hearing = reload_on_signal(&serving.daemon, &options.notifier, &stop.reload);
    let notice = Duration::from_secs(options.config.fleet.leave_secs);
    let drained = Arc::clone(&serving.daemon).leaves(DRAIN_LOOK, notice);
    let taken_over = tokio::select! {
        () = hearing => None,
        () = drained => None,
        () = stop.gently.cancelled() => None,
        () = serving.daemon.fenced.cancelled() => Some(why_fenced(&serving.daemon).await),
        () = replaced(&serving.lock) => Some(fleet::TAKEN_OVER),
    };
    let drain = Duration::from_secs(options.config.daemon.drain_secs);
    options.notifier.stopping("waiting for running turns");
    serving.ledger_check.abort();
    serving
        .daemon
        .stop(drain, options.handover || taken_over.is_some(), &stop.now)
        .await;
    serving.loops.ended().await;
    serving.listeners.close().await;
    alive.abort();
    serving.reaping.abort();
    // From here on every commit renews the lease, up to the last one, after which there is none.
    drop(serving.holding);
    if taken_over.is_none() && !options.handover {
        serving.daemon.leave().await;
    }
    if let Some(why) = taken_over {
        // Codex, the socket and the directory are the other daemon's now.
        anyhow::bail!(why);
    }
    listeners::remove_traces(&serving.state);
    serving.state.remove_short_dir();
    Ok(())
}

async fn why_fenced<L: Ledger>(daemon: &Arc<CodexDaemon<L>>) -> &'static str {
    let settings = daemon.settings();
    fleet::why_fenced(&daemon.ledger, settings.start.node.as_ref()).await
}

/// Reads the configuration again whenever a signal says so, for ever.
async fn reload_on_signal<L: Ledger>(
    daemon: &Arc<CodexDaemon<L>>,
    notifier: &Notifier,
    signal: &Notify,
) {
    loop {
        signal.notified().await;
        notifier.reloading();
        let view = daemon.reload("signal").await;
        notifier.ready(if view.ok {
            "serving"
        } else {
            "serving; the new configuration can't be used, see the log"
        });
    }
}

/// Returns when another daemon has this state directory. Its epoch keeps us from writing; this only spares the
/// wait until we try.
async fn replaced(lock: &Lock) {
    let mut look = tokio::time::interval(LOCK_LOOK);
    while !lock.is_replaced() {
        look.tick().await;
    }
}

/// Opens everything, finds what was left behind, and serves.
async fn start(
    options: &RunOptions,
    mut secret_registry: SecretRegistry,
    ready: oneshot::Sender<Ready>,
) -> anyhow::Result<RunningDaemon> {
    let state = StateDir::prepare(&options.state_dir)?;
    let lock = state.lock()?;
    let reaping = adopt_orphans()?;
    let upgrades = upgrade_options(options, &state);
    let codex = upgrades.at_start()?;
    // A lease begins when the ledger is opened, and this may take a while.
    let native = native_codex(options, &state, &codex.path);
    let opened = open_ledger(options, &state).await?;
    let (ledger, node) = (Counted::new(opened.ledger), opened.node);
    let holding = hold_lease(&ledger, node.as_ref()).await?;
    let is_first = is_first(&ledger).await;
    let lease = node.as_ref().map(|node| node.keepers.clone());
    let host_options = host_options(options, &state, (&codex, native), lease)?;
    let agent = CodexAgent::new(host_options, ledger.clone());
    agent.follow_upgrades(upgrades);
    agent.adopt().await?;
    let file_store = FileStore::open(state.files(), options.config.files.max_bytes)?;
    let channels = open_channels(options)?;
    let exec_channels = exec_channels(options, &channels);
    prepare_molecules(&channels, &file_store, &mut secret_registry);
    let notify = notify_settings(options, &channels, &mut secret_registry);
    let listeners = bind_listeners(options, &state, ledger.inner()).await?;
    let secret_registry = Arc::new(secret_registry);
    let start = StartSettings {
        boot_id: boot_id(node.as_ref(), &state)?,
        work_root: state.work(),
        file_store,
        secret_registry: Arc::clone(&secret_registry),
        protected_paths: options.protected_paths.clone(),
        notify,
        exec_channels,
        hidden: hidden(options),
        node: node.clone(),
    };
    let settings = Settings::new(&options.config, Arc::new(start));
    let agent = RedactingAgent::new(agent, secret_registry);
    let daemon: Arc<CodexDaemon<Counted<AnyLedger>>> =
        Daemon::new(ledger, agent, channels, settings);
    let _only_once = daemon
        .reloads
        .set(Reloads::new(options.source.clone(), options.config.clone()));

    let (console_calls, console_requests) = console::channel();
    let service = DaemonService::new(
        &daemon,
        daemon.ledger.inner().gauge(),
        state.ledger(),
        daemon.ledger.inner().warnings(),
        listeners.address(),
        console_calls,
    );
    let listeners = listeners.open(service.clone(), console_requests);
    let resumed = take_up(&daemon, options, &service).await?;
    console::reopen(&service).await;
    if node.is_some() {
        introduce(&daemon, &codex.version.to_string()).await?;
    }
    let mut loops = Loops::start(&daemon, service);
    if let Some(node) = &node {
        loops.join_fleet(&daemon, node)?;
    }
    let said = Ready {
        api_socket: state.api_socket(),
        listen: listeners.address,
        codex: codex.path,
        codex_version: codex.version.to_string(),
        resumed,
        is_first,
    };
    // The receiver may be gone; the daemon serves all the same.
    let _delivered = ready.send(said);
    // Tracked, so that a stop waits for a start of Codex that is under way.
    daemon.tasks.spawn(check_codex(Arc::clone(&daemon)));
    let ledger_check = tokio::spawn(check_ledger(Arc::clone(&daemon)));
    Ok(RunningDaemon {
        daemon,
        state,
        listeners,
        loops,
        ledger_check,
        reaping,
        lock,
        holding,
    })
}

fn hidden(options: &RunOptions) -> Vec<String> {
    let paths = options.hidden.iter();
    paths.map(|path| path.display().to_string()).collect()
}

fn prepare_molecules(channels: &Channels, files: &FileStore, secrets: &mut SecretRegistry) {
    for molecule in channels.molecule.clone() {
        molecule.keep_files_in(files.clone());
        secrets.add(Box::new(move || tokens(&molecule)));
    }
}

/// Whether nobody has sent anything yet. Only a hint hangs on it: a damaged ledger must still be served and named.
async fn is_first(ledger: &Counted<AnyLedger>) -> bool {
    let newest = ledger.read(|rows| rows.newest_messages(1)).await;
    newest.is_ok_and(|newest| newest.is_empty())
}

/// Starts the clock, and holds the lease from now on: what follows may take longer than that lasts.
async fn hold_lease(
    ledger: &Counted<AnyLedger>,
    node: Option<&NodeSettings>,
) -> Result<Option<AbortOnDropHandle<()>>, LedgerError> {
    let Some(node) = node else {
        clock::start(ledger, None).await?;
        return Ok(None);
    };
    let theirs = fleet::renew_lease(ledger, node).await?;
    clock::start(ledger, theirs).await?;
    let holding = tokio::spawn(fleet::hold_lease(ledger.clone(), node.clone()));
    Ok(Some(AbortOnDropHandle::new(holding)))
}

/// Imports what older programs left and takes up what an earlier life of this daemon did not finish.
async fn take_up(
    daemon: &Arc<CodexDaemon<Counted<AnyLedger>>>,
    options: &RunOptions,
    service: &DaemonService<Counted<AnyLedger>>,
) -> anyhow::Result<usize> {
    let targets: Vec<_> = options.molecule.iter().map(import_target).collect();
    daemon.import_sessions(&options.sessions, &targets).await?;
    daemon.import_tasks(&options.old_tasks).await?;
    for molecule in &daemon.sink.molecule {
        molecule.recall(service).await?;
    }
    Ok(daemon.recover().await?)
}

/// Says to the other nodes what this one is.
async fn introduce(
    daemon: &Arc<CodexDaemon<Counted<AnyLedger>>>,
    codex_version: &str,
) -> anyhow::Result<()> {
    let channels = daemon.sink.molecule.iter();
    let channels = channels
        .map(|molecule| molecule.channel().clone())
        .collect();
    daemon.introduce(codex_version, channels).await?;
    Ok(())
}

/// Who is notified, and the secrets that this takes.
fn notify_settings(
    options: &RunOptions,
    channels: &Channels,
    secret_registry: &mut SecretRegistry,
) -> NotifySettings {
    let molecules = channels.molecule.iter().map(|own| own.channel().clone());
    let env = options.command_env();
    let notify = NotifySettings::new(&options.config, &env).through(molecules);
    if let Some(webhook) = notify.webhook.clone() {
        secret_registry.add(Box::new(move || signing_secrets(&webhook)));
    }
    let own = notify.clone();
    secret_registry.add(Box::new(move || own.secrets()));
    secret_registry.add(Box::new(Settings::tokens_for_agents(&options.config.a2a)));
    notify
}

async fn bind_listeners(
    options: &RunOptions,
    state: &StateDir,
    ledger: &AnyLedger,
) -> anyhow::Result<Listeners> {
    let place = group::place(&options.config.daemon, options.runtime_dir.as_deref());
    let group = GroupListener::bind(&options.config.daemon, &place)?;
    let push_urls = options.molecule.iter().filter_map(Workspace::push_url);
    let push_urls: Vec<&str> = push_urls.collect();
    let listeners = Listeners::bind(state, &options.config.http, &push_urls, group).await?;
    if listeners.address().is_some() {
        listeners::suggest_owner_token(ledger).await;
    }
    Ok(listeners)
}

/// Takes in what a killed keeper leaves behind, so that it is still known to be Codex's.
fn adopt_orphans() -> anyhow::Result<JoinHandle<()>> {
    tree::adopt_all().context("become the parent of processes that lose theirs")?;
    Ok(tokio::spawn(async {
        if let Err(error) = tree::reap().await {
            tracing::warn!(%error, "ended processes that lost their parent stay in the process table");
        }
    }))
}

async fn open_ledger(options: &RunOptions, state: &StateDir) -> anyhow::Result<OpenedLedger> {
    let configured = options.config.daemon.key_file.as_deref();
    let place = KeyLocation::of(configured, options.credentials.as_deref(), state);
    fleet::open(&options.config, &place, state).await
}

/// The secrets by which webhooks are signed.
fn signing_secrets(webhook: &Webhook) -> Vec<String> {
    let secrets = webhook.secrets();
    let values = secrets.iter().map(|secret| secret.expose().to_owned());
    values.collect()
}

/// The tokens of a workspace, old ones too.
fn tokens(molecule: &Molecule) -> Vec<String> {
    let secrets = molecule.secrets();
    let values = secrets.iter().map(|secret| secret.expose().to_owned());
    values.collect()
}

/// The workspace that takes over the chats of the legacy program.
fn import_target(workspace: &Workspace) -> ImportTarget {
    ImportTarget {
        workspace: workspace.settings.workspace.clone(),
        origins: workspace.settings.origins.clone(),
    }
}

fn open_channels(options: &RunOptions) -> anyhow::Result<Channels> {
    let molecule = options
        .molecule
        .iter()
        .map(|workspace| Molecule::open(workspace.settings.clone()));
    Ok(Channels {
        molecule: molecule.collect::<Result<_, _>>()?,
    })
}

/// The channels whose turns run over `codex exec`.
fn exec_channels(options: &RunOptions, channels: &Channels) -> Vec<String> {
    let workspaces = options.molecule.iter().zip(&channels.molecule);
    workspaces
        .filter(|(workspace, _)| workspace.via == TurnTransport::Exec)
        .map(|(_, molecule)| molecule.channel().to_string())
        .collect()
}

/// Starts Codex and looks whether it can take turns, before the first message does.
async fn check_codex(daemon: Arc<CodexDaemon<Counted<AnyLedger>>>) {
    if let Err(fault) = daemon.agent.ready(None).await {
        let reason = crate::term::escape_line(&fault.failure.reason).into_owned();
        tracing::warn!(
            class = fault.failure.class.as_str(),
            reason,
            "codex can't take turns yet"
        );
    }
}

/// Looks whether the ledger is whole; that may take long and nothing waits for it. From damage on, found now or met
/// later, nothing more is begun.
async fn check_ledger(daemon: Arc<CodexDaemon<Counted<AnyLedger>>>) {
    match daemon.ledger.inner().quick_check().await {
        Ok(Some(Soundness::Sound)) => tracing::debug!("the database is sound"),
        // A server looks after its own files.
        Ok(Some(Soundness::Damaged { .. }) | None) => {}
        Err(error) => tracing::error!(%error, "the database could not be checked"),
    }
    let why = daemon.ledger.inner().gauge().damaged().await;
    daemon.damaged.cancel();
    tracing::error!(
        why,
        "the database is damaged: nothing more is taken in or begun, running turns are finished; stop the daemon and run `codex-bridge recover`"
    );
}

/// Where the Codex that is to run is found, now and while the daemon runs.
fn upgrade_options(options: &RunOptions, state: &StateDir) -> UpgradeOptions {
    UpgradeOptions {
        directory: state.codex(),
        configured: options.config.codex.bin.clone(),
        search_path: options.search_path.clone(),
        env: options.codex_env.clone(),
        snapshot: bridge_store::sqlite::snapshot,
    }
}

/// The executable that Codex is in the end. Where it can't be found the daemon serves all the same, and what needs it
/// says so.
fn native_codex(options: &RunOptions, state: &StateDir, codex: &Path) -> Result<PathBuf, String> {
    let scratch = state.run_dir().join("launcher");
    let found = launcher::native_of(codex, &options.codex_env, &scratch);
    found.map_err(|error| {
        let why = error.to_string();
        tracing::warn!(
            why,
            "isolated turns (peers, token holders) wait until this is mended"
        );
        why
    })
}

/// What a turn remembers of where it ran. Each node of a fleet is a machine of its own, also where several share one: what
/// another node's Codex had in memory is gone with it. So is one that lost its disk and came back under its name: what its
/// last turns did is on no disk any more, and a history without it proves nothing.
fn boot_id(node: Option<&NodeSettings>, state: &StateDir) -> anyhow::Result<BootId> {
    let boot_id = bridge_host::process::boot_id()?;
    let Some(node) = node else {
        return Ok(boot_id);
    };
    let disk = state
        .disk_mark()
        .context("read or make the mark of this disk")?;
    Ok(BootId::new(format!("{boot_id}/{}/{disk}", node.node_id)))
}

fn host_options(
    options: &RunOptions,
    state: &StateDir,
    (codex, native): (&binary::Binary, Result<PathBuf, String>),
    lease: Option<KeeperLease>,
) -> anyhow::Result<HostOptions> {
    let config = &options.config;
    Ok(HostOptions {
        launch: LaunchOptions {
            keeper: std::env::current_exe()?,
            codex: codex.path.clone(),
            native,
            codex_version: codex.version.to_string(),
            run_dir: state.run_dir(),
            env: options.codex_env.clone(),
            hidden_from_commands: config.hidden_from_commands(),
            linger: Duration::from_secs(config.codex.linger_secs),
            lease,
        },
        transport: config.transport_choice(),
        new_threads: config.new_threads(),
        api_key: options.api_key.clone(),
        restarts_per_minute: config.codex.restarts_per_minute,
        memory_budget: config.memory_budget(),
        threads_aside: state.threads_aside(),
        checks: Some(state.codex_checks()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    #[test]
    fn logins_of_all_homes_are_redacted() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for home in ["usual", "one", "two"] {
            std::fs::create_dir(at(home)).unwrap();
            let login = format!(r#"{{"OPENAI_API_KEY": "sk-key-of-{home}"}}"#);
            std::fs::write(at(home).join("auth.json"), login).unwrap();
        }
        let file = at("codex-bridge.toml");
        let homes = format!("codex.homes = [{:?}, {:?}]\n", at("one"), at("two"));
        std::fs::write(&file, homes).unwrap();
        let environment = Environment::of([
            ("HOME", root.to_str().unwrap()),
            ("CODEX_HOME", at("usual").to_str().unwrap()),
        ]);
        let loaded = load(Some(&file), &environment, Some(&at("state"))).unwrap();
        let options = RunOptions::of(at("state"), loaded, &environment);
        let said = "sk-key-of-usual sk-key-of-one sk-key-of-two";
        let redacted = options.secret_registry.secrets().redact(said);
        assert_eq!(redacted.text, "[withheld] [withheld] [withheld]");
    }
}
