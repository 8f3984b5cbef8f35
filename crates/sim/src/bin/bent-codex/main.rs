//! The real Codex behind a proxy that bends its protocol by the rules in `bend.json` beside this program: see
//! `bridge_sim::bend`. What is no app-server is the real Codex itself.
//!
//! The real one ends with this process, also when that is killed, so that whoever ends the bent one has ended Codex.

mod relay;

use bridge_sim::bend::{Bender, BentCodex};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use relay::{Incoming, Writer};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::fs::File;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Our first argument where we are to become the real Codex, under the process that started us.
const BECOME: &str = "become-codex";
/// The socket of the real one, beside the one that the bridge asked for.
const REAL_SOCKET: &str = "real.sock";
/// How long the real one may take until its socket answers.
const START_DEADLINE: Duration = Duration::from_secs(10);
/// How often its socket is tried until then.
const START_PAUSE: Duration = Duration::from_millis(5);

type Outcome = Result<ExitCode, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bent-codex: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Outcome {
    if let [first, codex, args @ ..] = args
        && first == BECOME
    {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        return Err(std::process::Command::new(codex).args(args).exec().into());
    }
    let bent = BentCodex::beside(&std::env::current_exe()?)?;
    match (args, &bent.version) {
        ([first], Some(version)) if first == "--version" => {
            println!("codex-cli {version}");
            Ok(ExitCode::SUCCESS)
        }
        ([first, rest @ ..], _)
            if first == "app-server" && rest.iter().any(|arg| arg == "--listen") =>
        {
            // One thread: the real Codex dies with the thread that started it.
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build()?;
            runtime.block_on(serve(bent, args))
        }
        _ => Err(std::process::Command::new(&bent.codex)
            .args(args)
            .exec()
            .into()),
    }
}

async fn serve(bent: BentCodex, args: &[String]) -> Outcome {
    let listen = args
        .iter()
        .position(|arg| arg == "--listen")
        .map(|at| at + 1);
    let socket = listen
        .and_then(|at| args.get(at)?.strip_prefix("unix://"))
        .map(PathBuf::from);
    match (socket, listen) {
        (Some(socket), Some(at)) => {
            let real = socket.with_file_name(REAL_SOCKET);
            let mut args = args.to_vec();
            args[at] = format!("unix://{}", real.display());
            let child = start(&bent, &args, Stdio::null, Stdio::null)?;
            over_socket(bent, child, &socket, &real).await
        }
        _ => {
            let child = start(&bent, args, Stdio::piped, Stdio::piped)?;
            over_pipes(bent, child).await
        }
    }
}

fn start(
    bent: &BentCodex,
    args: &[String],
    stdin: fn() -> Stdio,
    stdout: fn() -> Stdio,
) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(BECOME)
        .arg(&bent.codex)
        .args(args)
        .stdin(stdin())
        .stdout(stdout())
        .spawn()
}

fn file_of(stream: impl AsFd) -> std::io::Result<File> {
    let stream = stream.as_fd().try_clone_to_owned()?;
    Ok(File::from_std(stream.into()))
}

async fn over_pipes(bent: BentCodex, mut child: Child) -> Outcome {
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the pipes of the real Codex are missing".into());
    };
    let bridge = (
        Incoming::lines(file_of(std::io::stdin())?),
        Writer::pipe(file_of(std::io::stdout())?),
    );
    let codex = (Incoming::lines(stdout), Writer::pipe(stdin));
    relay::run(Bender::new(bent), bridge, codex).await;
    // It ends with its standard input.
    Ok(code_of(child.wait().await?))
}

async fn over_socket(bent: BentCodex, mut child: Child, socket: &Path, real: &Path) -> Outcome {
    until_it_listens(&mut child, real).await?;
    let listener = UnixListener::bind(socket)?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut ending = false;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(code_of(status?)),
            _ = terminated.recv(), if !ending => {
                ending = true;
                let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
                pid.map_or(Ok(()), |pid| kill(Pid::from_raw(pid), Signal::SIGTERM))?;
            }
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(connect(bent.clone(), stream, real.to_owned()));
            }
        }
    }
}

async fn until_it_listens(child: &mut Child, real: &Path) -> std::io::Result<()> {
    let mut tick = tokio::time::interval(START_PAUSE);
    let listens = async {
        loop {
            tick.tick().await;
            if let Some(status) = child.try_wait()? {
                return Err(std::io::Error::other(format!("it ended: {status}")));
            }
            if UnixStream::connect(real).await.is_ok() {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(START_DEADLINE, listens).await?
}

/// The keeper tries the socket and says nothing: that is no connection.
async fn connect(bent: BentCodex, stream: UnixStream, real: PathBuf) {
    let Ok(bridge) = relay::accept(stream).await else {
        return;
    };
    match relay::call(&real).await {
        Ok(codex) => relay::run(Bender::new(bent), bridge, codex).await,
        Err(error) => eprintln!("bent-codex: the real Codex can't be reached: {error}"),
    }
}

fn code_of(status: std::process::ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
