//! One app-server for many threads: started when it is needed, attached to when it was left behind, started
//! again when it dies, ended with everything it started.

pub(crate) mod account;
mod adopt;
pub(crate) mod connection;
pub(crate) mod generation;
mod health;
pub(crate) mod homes;
mod login;
mod restart;
pub mod socket_dir;
pub(crate) mod transport;

use crate::app_server::connection::{Connection, Learned};
use crate::app_server::generation::Present;
pub use crate::app_server::health::CodexHealth;
use crate::app_server::restart::{Permit, Supervisor};
use crate::binary::program::{Program, Wanted};
use crate::binary::stamp::BinaryStamp;
use crate::error::{CallEffect, agent_error, of_call};
use crate::keeper::launch::{self, KeeperHold, LaunchError, LaunchOptions, Launched};
use crate::locked;
use crate::sandbox::isolation_probe::{IsolationResult, ProbeCache, probe_isolation};
use crate::sandbox::read_isolation::{IsolationBase, real};
use crate::self_check::{Checks, NotAdmitted};
use crate::thread::memory::ThreadMemory;
use crate::thread::permissions::Permissions;
use crate::turn::mailbox::TurnContext;
use bridge_codex::version::{self, FLOOR};
use bridge_codex::wire::account::ApiKey;
use bridge_codex::wire::method::{INITIALIZED, Initialize, InitializeParams};
use bridge_core::port::{AgentError, Ledger, Reads, ThreadSpec};
use bridge_core::step::{Incarnate, IncarnationGone};
use bridge_core::value::{Class, Incarnation, IncarnationId, ThreadId, Timestamp, Transport};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Mutex, Notify};

/// Why messages of shielded senders wait; followed by what was seen.
const NOT_ISOLATED: &str = "Codex can't keep this sender's commands from reading what is not theirs, so the turn was not begun; run `codex-bridge doctor`, or accept it with `reads = \"disk\"` for its tier (tiers.peer.reads, tiers.tool.reads)";

/// Why messages of shielded senders wait; followed by the place.
const UNHIDEABLE: &str = "a place that this sender must not read can't be hidden, so the turn was not begun: it lies in what the sender may read (a directory of the system, the working directory, a path of `reads_also`), and holds Codex itself, the working directory or a path of `reads_also`. Move it (CODEX_HOME, the state directory, the home of the daemon's user), take that path out of `reads_also`, or accept it with `reads = \"disk\"` for its tier";

/// How Codex may be ended when nothing runs on it any more.
const IDLE_STOP_GRACE: Duration = Duration::from_secs(5);

/// Which transport to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportChoice {
    /// The socket where the binary has it, otherwise pipes.
    Auto,
    /// Only this one.
    Only(Transport),
}

/// How Codex is asked to keep the history of a thread that begins. One that exists stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewThreads {
    /// As it does by itself.
    Usual,
    /// Cheaper for each turn, and without the commands that were run: see ADR 0045.
    Legacy,
}

/// How Codex is hosted.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// How it is started.
    pub launch: LaunchOptions,
    /// How it is talked to.
    pub transport: TransportChoice,
    /// How its new threads are kept.
    pub new_threads: NewThreads,
    /// A key to log in with when Codex says that a login is missing.
    pub api_key: Option<ApiKey>,
    /// How often Codex may be started within a minute.
    pub restarts_per_minute: u32,
    /// How many bytes of memory Codex and its children may have, as far as idle threads decide it.
    pub memory_budget: Option<u64>,
    /// Where files of threads are put that another node has gone on from.
    pub threads_aside: PathBuf,
    /// How a Codex newer than the tested ones is checked before it is started; absent where that is somebody else's.
    pub checks: Option<Checks>,
}

/// One life of Codex that we are connected to.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) incarnation: Incarnation,
    /// What it was started from.
    pub(crate) program: Arc<Program>,
    /// CODEX_HOME, as Codex itself says.
    home: Option<PathBuf>,
    /// Paths that read isolation depends on.
    pub(crate) isolation: IsolationBase,
    probe_cache: ProbeCache,
    born: Instant,
    /// When it was last given something to do.
    used: std::sync::Mutex<Instant>,
}

impl Session {
    /// The context of a turn of this incarnation.
    pub(crate) fn frame(&self, allowed: Permissions) -> TurnContext {
        TurnContext {
            incarnation: self.incarnation.incarnation_id.clone(),
            allowed,
            directory: PathBuf::from(&self.incarnation.directory),
        }
    }

    /// It is given something to do.
    pub(crate) fn touch(&self) {
        *locked(&self.used) = Instant::now();
    }

    fn unused_for(&self) -> Duration {
        locked(&self.used).elapsed()
    }

    /// What came of something that Codex was asked for a turn. What it does not understand, or is not understood in, is
    /// the fault of a Codex on probation.
    pub(crate) fn judge<T>(&self, asked: &Result<T, AgentError>) {
        if let Err(error) = asked
            && matches!(error.failure.class, Class::Config | Class::Bug)
        {
            self.program.probation.failed(&error.failure.reason);
        }
    }

    /// How long this Codex has lived. One that an earlier daemon left is older than our connection to it; the wall
    /// clock may have been set back since its start.
    fn age_ms(&self) -> u64 {
        let connected = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        let started = wall_now().since_ms(self.incarnation.started_at);
        connected.max(u64::try_from(started).unwrap_or(0))
    }
}

pub(crate) struct Host<L> {
    pub(crate) options: HostOptions,
    /// Which CODEX_HOME its Codex has; absent for the usual one.
    pub(crate) home: Option<String>,
    ledger: L,
    origin: Instant,
    pub(crate) learned: Learned,
    pub(crate) memory: Arc<ThreadMemory>,
    state: Mutex<HostState>,
    /// The sessions in `state`.
    present: std::sync::Mutex<Present>,
    /// What is started next.
    wanted: Arc<Wanted>,
    /// Held by who starts a second process.
    changing: Mutex<()>,
    /// Notified when the Codex that is wanted may be started now, or another one runs.
    look_again: Arc<Notify>,
    /// What replaced the file that Codex was started from, and the version that it says it is.
    installed: Mutex<Option<(BinaryStamp, Option<String>)>>,
    /// When it was last needed.
    used: std::sync::Mutex<tokio::time::Instant>,
}

/// A session, and our hold on its process.
type Life = (Arc<Session>, KeeperHold);

struct HostState {
    /// Takes new turns.
    current: Option<Life>,
    /// Ends its turns, and goes.
    draining: Option<Life>,
    supervisor: Supervisor,
    /// The socket was tried and did not come up: use pipes from now on.
    no_socket: bool,
    /// Why the newest life is over pipes although the socket was wanted.
    pipes_because: Option<String>,
    logged_in: bool,
    health: Option<CodexHealth>,
    /// How the newest life ended, or why it did not begin.
    last_end: Option<String>,
    stopped: bool,
}

impl HostState {
    /// The draining process takes new turns, and the other drains.
    fn swap(&mut self) {
        std::mem::swap(&mut self.current, &mut self.draining);
    }

    fn ready(&self, incarnation: &Incarnation) -> CodexHealth {
        let detail = describe(incarnation);
        let because = self.pipes_because.as_ref();
        let because = because.filter(|_| incarnation.transport == Transport::Stdio);
        let mut detail = match because {
            Some(why) => format!("{detail}, so its turns end with the daemon: {why}"),
            None => detail,
        };
        if let Some((draining, _)) = &self.draining {
            let version = &draining.incarnation.codex_version;
            detail.push_str(&format!("; Codex {version} ends the turns it has"));
        }
        CodexHealth {
            ready: true,
            detail,
        }
    }
}

impl<L: Ledger> Host<L> {
    pub(crate) fn new(
        options: HostOptions,
        home: Option<String>,
        learned: Learned,
        ledger: L,
        shared: (Arc<Wanted>, Arc<Notify>),
    ) -> Self {
        let (wanted, look_again) = shared;
        let starts_max = usize::try_from(options.restarts_per_minute).unwrap_or(usize::MAX);
        let state = HostState {
            current: None,
            draining: None,
            supervisor: Supervisor::new(starts_max),
            no_socket: false,
            pipes_because: None,
            logged_in: false,
            health: None,
            last_end: None,
            stopped: false,
        };
        let memory = Arc::new(ThreadMemory::new(options.memory_budget));
        Self {
            options,
            home,
            memory,
            ledger,
            origin: Instant::now(),
            learned,
            state: Mutex::new(state),
            present: std::sync::Mutex::default(),
            wanted,
            changing: Mutex::default(),
            look_again,
            installed: Mutex::default(),
            used: std::sync::Mutex::new(tokio::time::Instant::now()),
        }
    }

    fn take_up(&self, state: &mut HostState, session: &Arc<Session>, hold: KeeperHold) {
        state.current = Some((Arc::clone(session), hold));
        self.show(state);
    }

    fn let_go(&self, state: &mut HostState) -> Option<Life> {
        let life = state.current.take();
        self.show(state);
        life
    }

    /// The living session; starts Codex when there is none.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, AgentError> {
        *locked(&self.used) = tokio::time::Instant::now();
        let mut state = self.state.lock().await;
        if state.stopped {
            return Err(agent_error(Class::Transient, "the daemon is stopping"));
        }
        let mut renewed = None;
        if let Some((session, _)) = &state.current
            && session.connection.is_open()
        {
            let age = Duration::from_millis(session.age_ms());
            if !self.memory.wants_renewal(session, age) {
                return Ok(Arc::clone(session));
            }
            renewed = self.let_go(&mut state);
        }
        if let Some((session, hold)) = renewed {
            let id = &session.incarnation.incarnation_id;
            tracing::info!(incarnation = %id, "codex had more memory than its budget and nothing to do: a new one begins with less");
            launch::stop(&session.incarnation, hold, IDLE_STOP_GRACE).await;
            self.record_gone(id).await;
        }
        let started = self.restart(&mut state).await;
        state.health = Some(match &started {
            Ok(session) => state.ready(&session.incarnation),
            Err(error) => CodexHealth::not_ready(error.to_string()),
        });
        started
    }

    async fn restart(&self, state: &mut HostState) -> Result<Arc<Session>, AgentError> {
        if let Some((session, hold)) = self.let_go(state) {
            let closed = session.connection.closed().await;
            let lease_end = launch::lease_end(&session.incarnation);
            if lease_end.is_none() {
                let why = format!("it ended: {closed}");
                session.program.probation.failed(&why);
            }
            let why = lease_end.map_or(closed, str::to_owned);
            tracing::warn!(why, incarnation = %session.incarnation.incarnation_id, "codex is gone");
            // Before anything is read or started again, the old writer must be impossible.
            launch::stop(&session.incarnation, hold, Duration::ZERO).await;
            self.record_gone(&session.incarnation.incarnation_id).await;
            state.supervisor.ended(session.age_ms(), self.uptime_ms());
            state.last_end = Some(why);
        }
        self.admit(&self.wanted.get()).await?;
        match state.supervisor.ask(self.uptime_ms()) {
            Permit::Go => {}
            Permit::Cooling { until_ms } => {
                let until = Some(self.wall(until_ms));
                let reason =
                    "Codex was started too often in a short time; it is left alone for a while";
                return Err(agent_error(Class::Capacity { until }, reason));
            }
            Permit::Broken { .. } => {
                let last = state.last_end.as_deref().unwrap_or("it ended at once");
                return Err(agent_error(
                    Class::Config,
                    format!("Codex does not stay up: {last}"),
                ));
            }
        }
        let (session, hold) = match self.bring_up(state).await {
            Ok(up) => up,
            Err(error) => {
                let why = format!("it does not start: {}", error.failure.reason);
                self.wanted.get().probation.failed(&why);
                state.supervisor.ended(0, self.uptime_ms());
                state.last_end = Some(error.failure.reason.clone());
                let hopeless = state.supervisor.broken() && error.failure.class == Class::Transient;
                return Err(if hopeless {
                    agent_error(Class::Config, &error.failure.reason)
                } else {
                    error
                });
            }
        };
        let incarnation = session.incarnation.clone();
        state.logged_in = false;
        let session = Arc::new(session);
        if let Err(error) = self.record(incarnation).await {
            launch::stop(&session.incarnation, hold, Duration::ZERO).await;
            return Err(error);
        }
        tracing::info!(codex = %describe(&session.incarnation), "codex is up");
        self.take_up(state, &session, hold);
        Ok(session)
    }

    /// Starts Codex and initializes the connection; over pipes where this Codex turns out to have no socket.
    async fn bring_up(&self, state: &mut HostState) -> Result<(Session, KeeperHold), AgentError> {
        let transport = match self.options.transport {
            TransportChoice::Only(transport) => transport,
            TransportChoice::Auto if state.no_socket => Transport::Stdio,
            TransportChoice::Auto => Transport::Socket,
        };
        let program = self.wanted.get();
        let error = match self.launch_over(&program, transport).await {
            Ok(launched) => return self.greet(launched, &program).await,
            Err(error) => error,
        };
        let probe =
            transport == Transport::Socket && self.options.transport == TransportChoice::Auto;
        // Only a Codex that answers over pipes proves that it is the socket that fails.
        if probe
            && let Ok(launched) = self.launch_over(&program, Transport::Stdio).await
            && let Ok(up) = self.greet(launched, &program).await
        {
            let obstacle = socket_dir::obstacle();
            // An operator may free Codex's directory, so the next start tries the socket again.
            state.no_socket = obstacle.is_none();
            let why = obstacle.unwrap_or_else(|| error.to_string());
            tracing::warn!(
                %why,
                "this codex does not work over its socket; using pipes, so its turns end with the daemon"
            );
            state.pipes_because = Some(why);
            return Ok(up);
        }
        let obstacle = socket_dir::obstacle().filter(|_| transport == Transport::Socket);
        let reason = match obstacle {
            Some(obstacle) => format!("{error}; {obstacle}"),
            None => error.to_string(),
        };
        Err(agent_error(Class::Transient, reason))
    }

    /// No message meets a Codex that nobody tested and that did not pass its check.
    async fn admit(&self, program: &Program) -> Result<(), AgentError> {
        let Some(checks) = &self.options.checks else {
            return Ok(());
        };
        let admitted = checks.admit(&self.options.launch.of(program)).await;
        admitted.map_err(|refused| {
            let class = match &refused {
                NotAdmitted::Failed { .. } => Class::Config,
                NotAdmitted::Unchecked { .. } => Class::Capacity { until: None },
            };
            agent_error(class, refused.to_string())
        })
    }

    /// Initializes a Codex that was just started, and ends it if that fails.
    async fn greet(
        &self,
        launched: Launched,
        program: &Arc<Program>,
    ) -> Result<(Session, KeeperHold), AgentError> {
        let incarnation = launched.incarnation.clone();
        let greeted = self.handshake(launched, program).await;
        if let Err(error) = greeted {
            let tail = launch::discard(&incarnation).await;
            let reason = format!("{}; its last words: {tail}", error.failure.reason);
            return Err(agent_error(error.failure.class, reason));
        }
        greeted
    }

    /// How the Codex that is wanted now is started.
    pub(crate) fn launch_options(&self) -> LaunchOptions {
        self.options.launch.of(&self.wanted.get())
    }

    async fn launch_over(
        &self,
        program: &Program,
        transport: Transport,
    ) -> Result<Launched, LaunchError> {
        if self.home.is_none() {
            crate::process::env::make_default_home(&self.options.launch.env);
        }
        launch::launch(
            &self.options.launch.of(program),
            transport,
            self.home.clone(),
            new_incarnation(),
            wall_now(),
        )
        .await
    }

    async fn handshake(
        &self,
        launched: Launched,
        program: &Arc<Program>,
    ) -> Result<(Session, KeeperHold), AgentError> {
        let Launched {
            mut incarnation,
            reader,
            writer,
            hold,
        } = launched;
        let learned = self.learned.clone();
        let connection = Connection::start(reader, writer, incarnation.clone(), learned);
        let mut hello = InitializeParams::experimental("codex-bridge", env!("CARGO_PKG_VERSION"));
        hello.capabilities.opt_out_notification_methods = unwanted();
        let answer = connection
            .call::<Initialize>(hello)
            .await
            .map_err(|error| of_call(&error, CallEffect::Repeatable))?;
        connection.notify(INITIALIZED).await;
        match version::from_user_agent(&answer.user_agent) {
            // The file may have been another one when its version was asked.
            Ok(version) if version::is_supported(&version) => {
                incarnation.codex_version = version.to_string();
            }
            Ok(version) => {
                let reason = format!(
                    "Codex {version} is too old, {FLOOR} is the oldest that works: run `npm install -g @openai/codex@latest`"
                );
                return Err(agent_error(Class::Config, reason));
            }
            Err(error) => return Err(agent_error(Class::Config, error.to_string())),
        }
        Ok((
            Session {
                connection,
                incarnation,
                program: Arc::clone(program),
                home: answer.codex_home.map(PathBuf::from),
                isolation: IsolationBase {
                    // Where it is not known no isolated turn begins.
                    codex: program.executable().to_owned(),
                    denied: self.options.launch.run_dir.clone(),
                },
                probe_cache: ProbeCache::default(),
                born: Instant::now(),
                used: std::sync::Mutex::new(Instant::now()),
            },
            hold,
        ))
    }

    /// Makes sure that commands can't read more than the spec grants. Where that fails, messages wait for the operator.
    pub(crate) async fn ensure_isolation(
        &self,
        session: &Session,
        spec: &ThreadSpec,
    ) -> Result<(), AgentError> {
        let (also, hidden) = match &spec.reads {
            Reads::Disk => return Ok(()),
            Reads::Shielded { also, hidden } => (also, hidden),
        };
        let workdir = real(&spec.workdir);
        if let Some(place) = session.isolation.exposed(&workdir, also, hidden) {
            return Err(agent_error(Class::Config, format!("{UNHIDEABLE}: {place}")));
        }
        let probe = async || {
            let program = &session.program;
            let scratch = Path::new(&session.incarnation.directory).join("shield");
            let native = program.native.clone()?;
            let (codex, env) = (program.codex.clone(), self.options.launch.env.clone());
            let probe = move || probe_isolation(&codex, &native, &env, &scratch);
            match tokio::task::spawn_blocking(probe).await {
                Ok(Ok(IsolationResult::Holds)) => Ok(()),
                Ok(Ok(bad)) => Err(bad.to_string()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        let found = session.probe_cache.ensure(probe).await;
        let found =
            found.map_err(|why| agent_error(Class::Config, format!("{NOT_ISOLATED}: {why}")));
        session.judge(&found);
        found
    }

    /// The session that takes turns; none is started for it, and a start that is under way is not waited for.
    pub(crate) fn present(&self) -> Option<Arc<Session>> {
        let session = locked(&self.present).current.clone()?;
        session.connection.is_open().then_some(session)
    }

    /// How long nobody needed it.
    pub(crate) fn idle(&self) -> Duration {
        let sessions = self.sessions();
        let mut routers = sessions.iter().map(|session| &session.connection.router);
        match routers.any(|router| !router.is_empty()) {
            true => Duration::ZERO,
            false => locked(&self.used).elapsed(),
        }
    }

    /// Codex's warnings about its configuration.
    pub(crate) async fn config_warnings(&self) -> Vec<String> {
        match &self.state.lock().await.current {
            Some((session, _)) => session.connection.config_warnings(),
            None => Vec::new(),
        }
    }

    /// Gives up the process on which a thread's turn runs: the next use of the thread finds another.
    pub(crate) async fn end_life(&self, thread: &ThreadId, why: &str) {
        if let Some(session) = self.session_of(thread) {
            session.connection.close(why).await;
        }
    }

    /// Ends Codex and everything it started.
    pub(crate) async fn stop(&self) {
        let lives = self.stopped(|_| true).await;
        let ended = lives.into_iter().map(async |(session, hold)| {
            launch::stop(&session.incarnation, hold, IDLE_STOP_GRACE).await;
            self.record_gone(&session.incarnation.incarnation_id).await;
        });
        futures_util::future::join_all(ended).await;
    }

    /// Lets go of Codex without ending it: the next daemon attaches to it. What can't be attached to is ended.
    pub(crate) async fn hand_over(&self) {
        let lives = self
            .stopped(|session| session.incarnation.transport == Transport::Stdio)
            .await;
        for (session, hold) in lives {
            launch::stop(&session.incarnation, hold, IDLE_STOP_GRACE).await;
            self.record_gone(&session.incarnation.incarnation_id).await;
        }
    }

    /// From now on nothing is started. Gives the processes that are to end; the others are let go of.
    async fn stopped(&self, ends: impl Fn(&Session) -> bool) -> Vec<Life> {
        let mut state = self.state.lock().await;
        state.stopped = true;
        let lives = [state.current.take(), state.draining.take()];
        self.show(&state);
        let mut lives: Vec<_> = lives.into_iter().flatten().collect();
        lives.retain(|(session, _)| ends(session));
        lives
    }

    /// Writes down that a Codex process lives.
    pub(crate) async fn record(&self, incarnation: Incarnation) -> Result<(), AgentError> {
        let recorded = self.ledger.transact(Incarnate { incarnation }, wall_now());
        let recorded = recorded.await.map(drop);
        recorded.map_err(|error| agent_error(Class::Transient, error.to_string()))
    }

    pub(crate) async fn record_gone(&self, incarnation_id: &IncarnationId) {
        let gone = IncarnationGone {
            incarnation_id: incarnation_id.clone(),
        };
        if let Err(error) = self.ledger.transact(gone, wall_now()).await {
            // The row stays "live"; the next start finds the process gone and records it then.
            tracing::warn!(%error, "the end of a codex process was not recorded");
        }
    }

    fn uptime_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn wall(&self, uptime_ms: u64) -> Timestamp {
        let ahead = uptime_ms.saturating_sub(self.uptime_ms());
        wall_now().plus_ms(i64::try_from(ahead).unwrap_or(i64::MAX))
    }
}

fn describe(incarnation: &Incarnation) -> String {
    format!(
        "Codex {} over its {}",
        incarnation.codex_version,
        match incarnation.transport {
            Transport::Socket => "unix socket",
            Transport::Stdio => "pipes",
        }
    )
}

/// News that nothing here uses and that comes often.
pub(crate) fn unwanted() -> Vec<String> {
    [
        "item/commandExecution/outputDelta",
        "item/reasoning/textDelta",
        "item/reasoning/summaryTextDelta",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(crate) fn new_incarnation() -> IncarnationId {
    let id = uuid::Uuid::new_v4().simple().to_string();
    IncarnationId::new(id.get(..12).unwrap_or(&id))
}

pub(crate) fn wall_now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
