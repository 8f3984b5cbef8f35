//! Starts a Codex process inside its keeper, finds one that an earlier daemon left, and ends either.
//!
//! Flags and environment of Codex are decided here, and nothing of a message is among them.

use crate::app_server::socket_dir;
use crate::app_server::transport::{self, TransportError, TransportReader, TransportWriter};
use crate::binary::program::{Probation, Program};
use crate::binary::stamp::BinaryStamp;
use crate::keeper::{self, CODEX_SOCKET, KeeperAttachment, KeeperLease, STDERR_FILE, lease};
use crate::process;
use bridge_core::value::{Incarnation, IncarnationId, ProcessStamp, Timestamp, Transport};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How long a start may take until Codex answers on its socket.
const START_DEADLINE: Duration = Duration::from_secs(15);
/// How long connecting may take once the socket is there.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// How long a keeper may take to end after its signal, beyond the grace it gives Codex.
const STOP_MARGIN: Duration = Duration::from_secs(10);
/// How much of Codex's stderr goes into an error.
const TAIL_BYTES: u64 = 2 * 1024;

/// How Codex is started.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// Our own binary, for its keeper mode.
    pub keeper: PathBuf,
    /// The native Codex binary, or a launcher of the operator's.
    pub codex: PathBuf,
    /// The native binary behind it; or why it is not known, with what to do. Isolated turns need it.
    pub native: Result<PathBuf, String>,
    /// As the binary reports it.
    pub codex_version: String,
    /// Where incarnations have their directories; short enough for a socket path.
    pub run_dir: PathBuf,
    /// The allowed environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that Codex may see and its commands may not: provider keys.
    pub hidden_from_commands: Vec<String>,
    /// How long Codex may live without a daemon.
    pub linger: Duration,
    /// On a fleet: until when Codex may live. It replaces the linger.
    pub lease: Option<KeeperLease>,
}

/// A Codex process we can talk to.
pub(crate) struct Launched {
    pub(crate) incarnation: Incarnation,
    pub(crate) reader: TransportReader,
    pub(crate) writer: TransportWriter,
    pub(crate) hold: KeeperHold,
}

/// Our hold on the keeper of a Codex process.
#[derive(Debug)]
pub(crate) enum KeeperHold {
    /// Over its socket; the keeper lives on without us.
    Socket(KeeperAttachment),
    /// It is our child, and Codex ends with our end of the pipe.
    Child,
}

/// Why Codex did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("start codex: {0}")]
    Io(#[from] io::Error),
    #[error("start codex: it ended at once; its last words: {tail}")]
    Exited { tail: String },
    #[error("start codex: no answer on its socket within {} s; its last words: {tail}", START_DEADLINE.as_secs())]
    Silent { tail: String },
    #[error(
        "start codex: the lease of this node is over, so another node may have its conversations; it starts again when the database gives a new one"
    )]
    LeaseOver,
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl LaunchError {
    /// The same, with what Codex said last.
    fn with_tail(self, tail: String) -> Self {
        match self {
            Self::Exited { .. } => Self::Exited { tail },
            Self::Silent { .. } => Self::Silent { tail },
            Self::Io(_) | Self::LeaseOver | Self::Transport(_) => self,
        }
    }
}

/// The variable that says where Codex keeps its login, configuration and threads.
pub(crate) const CODEX_HOME: &str = "CODEX_HOME";

impl LaunchOptions {
    pub(crate) fn is_lease_over(&self) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.until().is_past())
    }

    /// The Codex that it names, used as the operator says.
    pub(crate) fn program(&self) -> Program {
        let (codex, version) = (self.codex.clone(), self.codex_version.clone());
        Program::new(codex, self.native.clone(), version, Probation::none())
    }

    /// The same for another Codex.
    pub(crate) fn of(&self, program: &Program) -> Self {
        Self {
            codex: program.codex.clone(),
            native: program.native.clone(),
            codex_version: program.version.clone(),
            ..self.clone()
        }
    }

    /// The keeper's arguments for it.
    pub(crate) fn lease_args(&self) -> Vec<String> {
        let until = self.lease.as_ref().map(|lease| lease.until().as_millis());
        until.map_or_else(Vec::new, |until| {
            vec!["--lease-until-ms".to_owned(), until.to_string()]
        })
    }

    /// The same for another CODEX_HOME.
    pub(crate) fn with_home(&self, home: &str) -> Self {
        let mut options = self.clone();
        options.env.retain(|(name, _)| name != CODEX_HOME);
        options.env.push((CODEX_HOME.into(), home.into()));
        options
    }

    /// The default CODEX_HOME.
    pub(crate) fn usual_home(&self) -> Option<PathBuf> {
        let of = |wanted: &str| {
            let found = self.env.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| PathBuf::from(value))
        };
        of(CODEX_HOME).or_else(|| of("HOME").map(|home| home.join(".codex")))
    }

    fn codex_args(&self, transport: Transport, directory: &Path) -> Vec<String> {
        let listen = match transport {
            Transport::Socket => format!("unix://{}", directory.join(CODEX_SOCKET).display()),
            Transport::Stdio => "stdio://".to_owned(),
        };
        let mut args = vec!["app-server".to_owned(), "--listen".to_owned(), listen];
        for setting in self.overrides() {
            args.extend(["-c".to_owned(), setting]);
        }
        args
    }

    /// Settings that override the configuration of every Codex of ours, as app-server and as `exec`.
    pub(crate) fn overrides(&self) -> Vec<String> {
        let mut settings: Vec<String> = [
            "features.plugins=false",
            "features.unbounded_connection_retries=false",
            "features.shell_snapshot=false",
            "analytics.enabled=false",
            "check_for_update_on_startup=false",
        ]
        .map(str::to_owned)
        .to_vec();
        // It replaces what the operator's own config.toml says there, so only where it is needed.
        if !self.hidden_from_commands.is_empty() {
            let hidden: Vec<_> = self
                .hidden_from_commands
                .iter()
                .map(|name| format!("{name:?}"))
                .collect();
            settings.push(format!(
                "shell_environment_policy.exclude=[{}]",
                hidden.join(",")
            ));
        }
        settings
    }
}

/// Starts Codex and connects to it.
pub(crate) async fn launch(
    options: &LaunchOptions,
    transport: Transport,
    home: Option<String>,
    incarnation_id: IncarnationId,
    now: Timestamp,
) -> Result<Launched, LaunchError> {
    if options.is_lease_over() {
        return Err(LaunchError::LeaseOver);
    }
    let directory = options.run_dir.join(incarnation_id.as_str());
    make_directory(&directory)?;
    // Before the start: should the file be replaced in between, it counts as changed, and that is told. What is not there
    // fails at the start, with better words.
    if let Ok(started_from) = BinaryStamp::of(&options.codex) {
        started_from.write(&directory)?;
    }
    let mut child = spawn_keeper(options, transport, &directory).inspect_err(|_| {
        // Nothing was started that could leave anything else.
        let _left = std::fs::remove_dir_all(&directory);
    })?;
    if let Some(lease) = &options.lease {
        lease.follow(directory.clone());
    }
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let keeper = pid.and_then(process::child_stamp).ok_or_else(exited)?;
    let incarnation = Incarnation {
        incarnation_id,
        transport,
        keeper,
        directory: directory.display().to_string(),
        codex_version: options.codex_version.clone(),
        codex_home: home,
        boot_id: process::boot_id()?,
        started_at: now,
        ended_at: None,
        node_id: None,
    };
    let connected = match transport {
        Transport::Socket => attach_new(&mut child, &directory).await,
        Transport::Stdio => take_pipes(&mut child),
    };
    tokio::spawn(async move {
        // Reaps the keeper; its end is noticed by the connection.
        let _status = child.wait().await;
    });
    match connected {
        Ok((reader, writer, hold)) => Ok(Launched {
            incarnation,
            reader,
            writer,
            hold,
        }),
        Err(error) => {
            let tail = discard(&incarnation).await;
            Err(error.with_tail(tail))
        }
    }
}

/// The directory of one life of Codex.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
}

fn spawn_keeper(
    options: &LaunchOptions,
    transport: Transport,
    directory: &Path,
) -> io::Result<Child> {
    let stdin = match transport {
        Transport::Socket => Stdio::null(),
        Transport::Stdio => Stdio::piped(),
    };
    Command::new(&options.keeper)
        .arg("keeper")
        .arg("--directory")
        .arg(directory)
        .args(["--transport", transport.as_str()])
        .args(["--linger-ms", &options.linger.as_millis().to_string()])
        .args(options.lease_args())
        .arg("--")
        .arg(&options.codex)
        .args(options.codex_args(transport, directory))
        .env_clear()
        .envs(options.env.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

async fn attach_new(
    child: &mut Child,
    directory: &Path,
) -> Result<(TransportReader, TransportWriter, KeeperHold), LaunchError> {
    let stdout = child.stdout.take().ok_or_else(exited)?;
    let mut line = String::new();
    let mut stdout = BufReader::new(stdout);
    let said = tokio::time::timeout(START_DEADLINE, stdout.read_line(&mut line)).await;
    match said {
        Ok(Ok(_)) if line.starts_with(keeper::READY) => {}
        Ok(Ok(_)) if line.starts_with(keeper::SILENT) => return Err(silent()),
        Ok(Ok(_)) => return Err(exited()),
        Ok(Err(error)) => return Err(error.into()),
        Err(_elapsed) => return Err(silent()),
    }
    connect(directory).await
}

/// Connects to keeper and Codex. A process that is frozen accepts a connection and then says nothing.
async fn connect(
    directory: &Path,
) -> Result<(TransportReader, TransportWriter, KeeperHold), LaunchError> {
    let both = async {
        let attachment = keeper::attach(directory).await?;
        let (reader, writer) = transport::connect(&directory.join(CODEX_SOCKET)).await?;
        Ok((reader, writer, KeeperHold::Socket(attachment)))
    };
    match tokio::time::timeout(CONNECT_DEADLINE, both).await {
        Ok(connected) => connected,
        Err(_elapsed) => Err(silent()),
    }
}

fn take_pipes(
    child: &mut Child,
) -> Result<(TransportReader, TransportWriter, KeeperHold), LaunchError> {
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the pipes of codex are missing").into());
    };
    let (reader, writer) = transport::pipes(stdin, stdout);
    Ok((reader, writer, KeeperHold::Child))
}

/// Attaches to a Codex that an earlier daemon left behind its socket. On a fleet its keeper must take our lease.
pub(crate) async fn adopt(
    incarnation: &Incarnation,
    lease: Option<&KeeperLease>,
) -> Result<Launched, LaunchError> {
    let directory = Path::new(&incarnation.directory);
    let (reader, writer, mut hold) = connect(directory).await?;
    if let (Some(lease), KeeperHold::Socket(attachment)) = (lease, &mut hold) {
        attachment.renew(lease.until()).await?;
        lease.follow(directory.to_owned());
    }
    Ok(Launched {
        incarnation: incarnation.clone(),
        reader,
        writer,
        hold,
    })
}

/// Ends Codex through its keeper: SIGTERM, `grace` to drain, then everything it started is killed.
pub(crate) async fn stop(incarnation: &Incarnation, hold: KeeperHold, grace: Duration) {
    let stopped = match hold {
        KeeperHold::Socket(attachment) => {
            tokio::time::timeout(grace.saturating_add(STOP_MARGIN), attachment.stop(grace))
                .await
                .is_ok()
        }
        KeeperHold::Child => false,
    };
    if !stopped || process::alive(&incarnation.keeper) {
        end_keeper(incarnation).await;
    }
    remove_directory(incarnation);
}

/// Ends a Codex that was never usable, and leaves nothing of it: starts may fail for days. Gives its last words.
pub(crate) async fn discard(incarnation: &Incarnation) -> String {
    end_keeper(incarnation).await;
    // Only a keeper that has ended has written down all of it.
    let tail = stderr_tail(Path::new(&incarnation.directory));
    remove_directory(incarnation);
    tail
}

/// Ends a keeper by signal, if the recorded process is still the one we started.
pub(crate) async fn end_keeper(incarnation: &Incarnation) {
    let keeper = incarnation.keeper;
    let pid = Pid::from_raw(keeper.pid);
    if !process::alive(&keeper) {
        return;
    }
    let _gone = kill(pid, Signal::SIGTERM);
    if !gone_within(&keeper, STOP_MARGIN).await {
        // The keeper's death kills Codex as well: it asked the kernel for that.
        let _gone = kill(pid, Signal::SIGKILL);
        gone_within(&keeper, STOP_MARGIN).await;
    }
}

/// Waits for the end of a process that need not be our child.
async fn gone_within(process: &ProcessStamp, patience: Duration) -> bool {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    tokio::time::timeout(patience, async {
        while process::alive(process) {
            tick.tick().await;
        }
    })
    .await
    .is_ok()
}

/// Why the keeper ended this Codex, if it was not asked to: its lease was over.
pub(crate) fn lease_end(incarnation: &Incarnation) -> Option<&'static str> {
    lease::ended(Path::new(&incarnation.directory))
}

/// Removes what a Codex that is gone left in its directory.
pub(crate) fn remove_directory(incarnation: &Incarnation) {
    let directory = Path::new(&incarnation.directory);
    // First: the link in the directory says which socket it was.
    socket_dir::remove_socket(directory);
    if let Err(error) = std::fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, directory = %directory.display(), "a directory of codex could not be removed");
    }
}

fn silent() -> LaunchError {
    LaunchError::Silent {
        tail: String::new(),
    }
}

fn exited() -> LaunchError {
    LaunchError::Exited {
        tail: String::new(),
    }
}

/// The end of what Codex wrote on stderr.
pub(crate) fn stderr_tail(directory: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = std::fs::File::open(directory.join(STDERR_FILE))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    match read() {
        Ok(tail) if !tail.is_empty() => tail,
        Ok(_) | Err(_) => "(it said nothing)".to_owned(),
    }
}
