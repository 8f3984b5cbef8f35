//! The keeper's lease: Codex and everything it started is gone when it ends unrenewed, whatever became of the daemon.
//! A shell with children stands for Codex. All of them hold the keeper's stdout, so its end is the end of them all.

use crate::agent::options;
use crate::world::{World, freeze, signal, within};
use bridge_core::port::Agent;
use bridge_core::value::Transport;
use bridge_host::keeper::{self, BootInstant, KeeperAttachment, KeeperLease};
use bridge_host::{CodexAgent, TransportChoice};
use bridge_testkit::MemoryLedger;
use nix::sys::signal::Signal;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdout, Command};

/// Long enough for a start on a busy machine, short enough to wait for.
const LEASE: Duration = Duration::from_millis(1500);
/// What no test waits for.
const LONG: Duration = Duration::from_secs(600);
/// Codex with a command in a session of its own and one in its group; none ends by itself or by a SIGTERM.
const STAND_IN: &str = "trap '' TERM; setsid sleep 600 & sleep 600 & echo up; wait";

/// Never opens its socket, and ends when asked to.
const SOCKETED: &str = "exec sleep 600";

async fn attached(directory: &Path) -> KeeperAttachment {
    let attach = async {
        loop {
            if let Ok(attached) = keeper::attach(directory).await {
                return attached;
            }
            tokio::task::yield_now().await;
        }
    };
    within("the keeper's socket", attach).await
}

struct Kept {
    directory: TempDir,
    keeper: Child,
    stdout: ChildStdout,
    until: BootInstant,
}

impl Kept {
    async fn start(transport: &str, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let until = BootInstant::now().plus(LEASE);
        let mut keeper = Command::new(env!("CARGO_BIN_EXE_codex-bridge"))
            .arg("keeper")
            .arg("--directory")
            .arg(directory.path())
            .args(["--transport", transport, "--linger-ms", "0"])
            .args(["--lease-until-ms", &until.as_millis().to_string()])
            .args(more)
            .args(["--", "/bin/sh", "-c", STAND_IN])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdout = keeper.stdout.take().unwrap();
        let mut up = [0_u8; 3];
        within("the start", stdout.read_exact(&mut up))
            .await
            .unwrap();
        assert_eq!(&up, b"up\n");
        Self {
            directory,
            keeper,
            stdout,
            until,
        }
    }

    async fn attach(&self) -> KeeperAttachment {
        attached(self.directory.path()).await
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.keeper.id().unwrap()).unwrap()
    }

    /// Waits until nothing is left.
    async fn gone(&mut self) {
        let mut rest = Vec::new();
        let end = self.stdout.read_to_end(&mut rest);
        within("the end of all", end).await.unwrap();
        within("the keeper's end", self.keeper.wait())
            .await
            .unwrap();
    }

    /// Whether anything is left at that time.
    async fn lives_until(&mut self, until: BootInstant) -> bool {
        let left = until
            .as_millis()
            .saturating_sub(BootInstant::now().as_millis());
        let mut rest = Vec::new();
        let end = self.stdout.read_to_end(&mut rest);
        let until = tokio::time::timeout(Duration::from_millis(left + 1), end);
        until.await.is_err()
    }

    fn word(&self) -> io::Result<String> {
        std::fs::read_to_string(self.directory.path().join("lease-ended"))
    }
}

/// What a daemon holds that is frozen: the pipe and the connection stay, and nothing is said.
#[tokio::test]
async fn unrenewed_lease_ends_everything() {
    let mut kept = Kept::start("stdio", &[]).await;
    let _silent = kept.attach().await;
    assert!(kept.lives_until(kept.until).await, "not before its end");
    kept.gone().await;
    let late = BootInstant::now().as_millis() - kept.until.as_millis();
    assert!(late < 2000, "{late} ms");
    assert!(kept.word().unwrap().contains("lease"));
}

#[tokio::test]
async fn unrenewed_lease_ends_exec_run() {
    let mut kept = Kept::start("stdio", &["--prompt-bytes", "4"]).await;
    let mut stdin_guard = kept.keeper.stdin.take().unwrap();
    stdin_guard.write_all(b"text").await.unwrap();
    kept.gone().await;
    assert!(kept.until.is_past());
    assert!(kept.word().is_ok());
}

#[tokio::test]
async fn renewed_lease_keeps_codex() {
    let mut kept = Kept::start("stdio", &[]).await;
    let mut attached = kept.attach().await;
    let later = BootInstant::now().plus(LONG);
    attached.renew(later).await.unwrap();
    assert!(
        kept.lives_until(kept.until.plus(Duration::from_millis(200)))
            .await
    );
    within("the end", attached.stop(Duration::ZERO))
        .await
        .unwrap();
    kept.gone().await;
    assert!(kept.word().is_err(), "it was asked to end");
}

/// A renewal that waited for a frozen keeper comes too late, however far ahead its end is.
#[tokio::test]
async fn frozen_keeper_ends_codex_on_waking() {
    let mut kept = Kept::start("stdio", &[]).await;
    let mut daemon = UnixStream::connect(kept.directory.path().join("k.sock"))
        .await
        .unwrap();
    freeze(kept.pid()).await;
    let line = format!("lease {}\n", BootInstant::now().plus(LONG).as_millis());
    daemon.write_all(line.as_bytes()).await.unwrap();
    let past = kept.until.plus(Duration::from_millis(100));
    assert!(kept.lives_until(past).await, "nobody is there to end it");
    signal(kept.pid(), Signal::SIGCONT);
    kept.gone().await;
    assert!(kept.word().is_ok());
}

#[tokio::test]
async fn keepers_without_lease_refuse_renewals() {
    let directory = tempfile::tempdir().unwrap();
    let mut keeper = Command::new(env!("CARGO_BIN_EXE_codex-bridge"))
        .args(["keeper", "--transport", "socket", "--linger-ms", "60000"])
        .arg("--directory")
        .arg(directory.path())
        .args(["--", "/bin/sh", "-c", SOCKETED, "sh"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut attached = attached(directory.path()).await;
    let refused = attached.renew(BootInstant::now().plus(LONG)).await;
    assert!(refused.is_err());
    within("the end", attached.stop(Duration::ZERO))
        .await
        .unwrap();
    within("the keeper's end", keeper.wait()).await.unwrap();
}

/// Whether a keeper is still there at that time, by a connection that ends with it.
async fn keeper_lives_until(directory: &Path, until: BootInstant) -> bool {
    let socket = directory.join("k.sock");
    let mut keeper = UnixStream::connect(socket).await.unwrap();
    let left = until
        .as_millis()
        .saturating_sub(BootInstant::now().as_millis());
    let end = keeper.read_u8();
    let end = tokio::time::timeout(Duration::from_millis(left + 1), end);
    end.await.is_err()
}

/// The daemon has one value for all its keepers, over each transport, and Codex starts with none that is over.
#[tokio::test]
async fn agent_renews_each_keeper() {
    let world = World::new().await;
    for transport in [Transport::Socket, Transport::Stdio] {
        // The real Codex starts within it, on a busy machine too.
        let until = BootInstant::now().plus(4 * LEASE);
        let lease = KeeperLease::new(until);
        let mut options = options(&world);
        options.transport = TransportChoice::Only(transport);
        options.launch.lease = Some(lease.clone());
        let codex = CodexAgent::new(options, MemoryLedger::new());
        let life = codex.ready(None).await.unwrap();
        let directory = world.path().join("run").join(life.as_str());
        let renewed = until.plus(LEASE);
        lease.renew(renewed);
        let past = until.plus(Duration::from_millis(100));
        assert!(keeper_lives_until(&directory, past).await, "renewed");
        let past = renewed.plus(LEASE);
        assert!(!keeper_lives_until(&directory, past).await, "unrenewed");
        // Once the agent has noticed: the next Codex would have to live without a lease as well.
        let refused = async {
            loop {
                match codex.ready(None).await {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(refused) => return refused,
                }
            }
        };
        let refused = within("a refusal", refused).await;
        assert!(refused.failure.reason.contains("lease"), "{refused:?}");
        codex.stop().await;
    }
}
