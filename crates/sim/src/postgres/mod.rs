//! A PostgreSQL of one's own: in a temporary directory, on a unix socket, gone when its starter is gone.
//!
//! A shell runs it (`supervise.sh`) and waits for the end of a pipe that the starter holds. So the server also ends
//! when the starter is killed, and it does not end with the thread that started it.

mod programs;
mod tls;

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use programs::Programs;
pub use tls::TlsServer;

/// What the shell runs.
const SUPERVISE: &str = include_str!("supervise.sh");

/// Takes it from the environment, so that a list of processes stays readable.
const SHELL: &str = r#"script=$SUPERVISE; unset SUPERVISE; eval "$script""#;

/// The supervisor's name in a list of processes.
const NAME: &str = "postgres-supervisor";

/// The role that owns every database. It needs no password; who else wants to connect does.
const ROLE: &str = "bridge";

/// The database that is always there and that nobody copies.
const MAINTENANCE: &str = "postgres";

/// Without what only protects from a machine that loses its power. Commits still are in the log when they are
/// confirmed, so they outlive the death of the server.
const FAST: [(&str, &str); 2] = [("fsync", "off"), ("full_page_writes", "off")];

/// Nodes of a drill have a pool each, beside tests that share the server.
const CONNECTIONS: (&str, &str) = ("max_connections", "300");

/// How long a client waits for a connection, in seconds, and for a statement.
const CLIENT_BOUNDS: [(&str, &str); 2] = [
    ("PGCONNECT_TIMEOUT", "10"),
    ("PGOPTIONS", "-c statement_timeout=60s"),
];

/// How much of an explanation is read.
const LONGEST_EXPLANATION: u64 = 64 * 1024;

/// What stays as it is in an address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/');

/// Why there is no PostgreSQL, or why it refused.
///
/// `Debug` prints the message, because tests unwrap these and their reader must see what to do.
#[derive(thiserror::Error)]
pub enum PostgresError {
    /// It is not installed.
    #[error(
        "no PostgreSQL found (looked for {looked} in {}/*/bin and beside the `postgres` on PATH); on Debian \
        `apt-get install postgresql` brings it, and a file {} with the line \
        `create_main_cluster = false`, written before, keeps Debian from starting a server of its own",
        programs::DEBIAN,
        programs::NO_CLUSTER
    )]
    Missing {
        /// The programs it takes.
        looked: String,
    },
    /// PostgreSQL refuses to run as root, and we can't become another user.
    #[error(
        "PostgreSQL does not run as root, and `setpriv` can't run it as the user {user} ({said}); \
        start this program as an ordinary user"
    )]
    NoUser {
        /// Whom it was to run as.
        user: String,
        /// What `setpriv` said.
        said: String,
    },
    /// It did not start.
    #[error("PostgreSQL did not start: {said}")]
    NotStarted {
        /// What its supervisor said.
        said: String,
    },
    /// A statement or an order failed.
    #[error("PostgreSQL refused {what}: {said}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        said: String,
    },
    /// A program or a pipe failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl std::fmt::Debug for PostgresError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A PostgreSQL that runs until this is dropped or its process ends.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    directory: PathBuf,
    supervisor: Mutex<Supervisor>,
}

impl Server {
    /// As operators run it: what is committed is on the disk.
    pub fn start() -> Result<Self, PostgresError> {
        Self::start_with(&[])
    }

    /// For tests that no power cut follows.
    pub fn start_fast() -> Result<Self, PostgresError> {
        Self::start_with(&FAST)
    }

    /// With settings of `postgresql.conf`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, PostgresError> {
        let programs = programs::find()?;
        let mut supervisor = Supervisor::spawn(&programs, settings)?;
        let directory = supervisor.ready()?;
        Ok(Self {
            programs: programs.directory,
            directory,
            supervisor: Mutex::new(supervisor),
        })
    }

    /// The fast server that the tests of one binary share. It ends with the binary.
    pub fn shared() -> Result<&'static Self, PostgresError> {
        static SHARED: OnceLock<Server> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = SHARED.get() {
            return Ok(server);
        }
        let server = Self::start_fast()?;
        Ok(SHARED.get_or_init(|| server))
    }

    /// Where its files and its socket are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Another program of the same PostgreSQL, such as `pgbench`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// The address of one of its databases, for drivers and `psql`.
    pub fn url_of(&self, database: &str) -> String {
        let directory = self.directory.to_string_lossy();
        let database = utf8_percent_encode(database, PLAIN);
        let directory = utf8_percent_encode(&directory, PLAIN);
        format!("postgres://{ROLE}@/{database}?host={directory}")
    }

    /// Makes a database, as a copy of another one if that is named. Nobody may be connected to the original.
    pub fn create_database(&self, name: &str, template: Option<&str>) -> Result<(), PostgresError> {
        let mut statement = format!("CREATE DATABASE {}", quoted(name));
        if let Some(template) = template {
            statement += &format!(" TEMPLATE {}", quoted(template));
        }
        self.psql(MAINTENANCE, &statement).map(drop)
    }

    /// Removes a database and ends the connections to it. An empty one takes 7 MB of the disk.
    pub fn drop_database(&self, name: &str) -> Result<(), PostgresError> {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", quoted(name));
        self.psql(MAINTENANCE, &statement).map(drop)
    }

    /// What `psql` prints for some statements: one row a line, columns parted by `|`.
    pub fn psql(&self, database: &str, statements: &str) -> Result<String, PostgresError> {
        let mut command = bare(self.program("psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"])
            .args(["--set", "ON_ERROR_STOP=1", "--command", statements]);
        self.ask(command, database, &format!("`{statements}`"))
    }

    /// Everything that a database holds, as statements.
    pub fn dump(&self, database: &str) -> Result<String, PostgresError> {
        let command = bare(self.program("pg_dump"));
        self.ask(command, database, "a dump")
    }

    fn ask(
        &self,
        mut command: Command,
        database: &str,
        what: &str,
    ) -> Result<String, PostgresError> {
        command
            .envs(CLIENT_BOUNDS)
            .arg(self.url_of(database))
            .stdin(Stdio::null());
        let output = command.output().map_err(|source| PostgresError::Io {
            what: "cannot run a client of the server",
            source,
        })?;
        if !output.status.success() {
            return Err(PostgresError::Refused {
                what: what.to_owned(),
                said: text(&output.stderr),
            });
        }
        Ok(text(&output.stdout))
    }

    /// Stops it as a crash would and starts it again. What was committed is there, connections are not.
    pub fn restart_immediate(&self) -> Result<(), PostgresError> {
        let mut supervisor = self
            .supervisor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        supervisor.order("restart\n")?;
        supervisor.ready().map(drop)
    }
}

/// The shell that runs the server. It shares our standard error, so whoever reads that to its end has waited until
/// nothing is left.
#[derive(Debug)]
struct Supervisor {
    shell: Child,
    /// Its end is the order to end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Supervisor {
    fn spawn(programs: &Programs, settings: &[(&str, &str)]) -> Result<Self, PostgresError> {
        let failed = |source| PostgresError::Io {
            what: "cannot run `sh`, which is to watch over PostgreSQL",
            source,
        };
        let lines = std::iter::once(&CONNECTIONS).chain(settings);
        let lines = lines.map(|(name, value)| format!("{name} = '{}'", value.replace('\'', "''")));
        let mut command = programs.as_user("sh");
        command
            .env("SUPERVISE", SUPERVISE)
            .args(["-c", SHELL, NAME])
            .arg(&programs.directory)
            .args(lines)
            .current_dir("/")
            // Ctrl-C ends the starter, not this, which has to clean up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shell = command.spawn().map_err(failed)?;
        let orders = shell.stdin.take();
        let answers = shell.stdout.take().ok_or_else(|| failed(closed()))?;
        Ok(Self {
            shell,
            orders,
            answers: BufReader::new(answers),
        })
    }

    fn order(&mut self, order: &str) -> Result<(), PostgresError> {
        let orders = self.orders.as_mut().ok_or_else(closed);
        orders
            .and_then(|orders| orders.write_all(order.as_bytes()))
            .map_err(|source| PostgresError::Io {
                what: "PostgreSQL's supervisor takes no orders",
                source,
            })
    }

    /// The supervisor bounds each of its steps, so an answer or the end of the pipe comes.
    fn ready(&mut self) -> Result<PathBuf, PostgresError> {
        let mut answer = String::new();
        let read = (&mut self.answers)
            .take(LONGEST_EXPLANATION)
            .read_line(&mut answer);
        read.map_err(unheard)?;
        if let Some(directory) = answer.trim_end().strip_prefix("ready ") {
            return Ok(PathBuf::from(directory));
        }
        let rest = (&mut self.answers)
            .take(LONGEST_EXPLANATION)
            .read_to_string(&mut answer);
        rest.map_err(unheard)?;
        Err(PostgresError::NotStarted { said: answer })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It can only have ended already, which is what is waited for.
        let _ = self.shell.wait();
    }
}

fn unheard(source: io::Error) -> PostgresError {
    PostgresError::Io {
        what: "cannot read what PostgreSQL's supervisor says",
        source,
    }
}

fn closed() -> io::Error {
    io::Error::from(io::ErrorKind::BrokenPipe)
}

/// Without the caller's environment, which may name other servers, roles and passwords.
fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let kept = ["PATH", "TMPDIR"].map(|name| (name, std::env::var_os(name)));
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(kept).env("LC_ALL", "C");
    command
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}
