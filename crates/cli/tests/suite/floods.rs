//! Floods and squats against the built binary, with the real Codex: strangers cost the owner nothing, and what Codex says
//! of them stays on its line.

use crate::world::{Daemon, World, kill_9, within};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tokio::net::TcpStream;
use tokio::process::Command;

/// The same command with few file descriptors.
fn with_few_descriptors(command: &Command) -> Command {
    let inner = command.as_std();
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 64; exec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("OPENAI_API_KEY")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    limited
}

#[tokio::test]
async fn f6_tcp_flood_spares_owner_and_codex() {
    let world = World::with_settings("[http]\nlisten = \"127.0.0.1:0\"\n").await;
    let daemon = Daemon::of(with_few_descriptors(&world.command(&["run"]))).await;
    let listen = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
    let mut flood = Vec::new();
    for _ in 0..80 {
        let stream = TcpStream::connect(listen.trim());
        flood.push(within("a connection", stream).await.unwrap());
    }
    world.run(&["status"]).await.must(0, &[]);
    assert_eq!(world.ask("a", "echo:one").await, "one");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()));
    assert!(descriptors.unwrap().count() < 60);
    drop(flood);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The socket that the only link of this world leads to.
fn codex_socket(world: &World) -> PathBuf {
    let lives = std::fs::read_dir(world.state_dir().join("run")).unwrap();
    let links = lives.filter_map(|life| std::fs::read_link(life.ok()?.path().join("c.sock")).ok());
    let links: Vec<_> = links.collect();
    assert_eq!(links.len(), 1, "{links:?}");
    links[0].clone()
}

#[tokio::test]
async fn f9_socket_of_killed_codex_is_removed() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:one").await;
    let first = codex_socket(&world);
    let lock = first.with_added_extension("lock");
    assert!(first.exists() && lock.exists());
    kill_9(world.codex_pid());
    world.ask("a", "echo:two").await;
    assert!(!first.exists() && !lock.exists(), "{}", first.display());
    let second = codex_socket(&world);
    daemon.kill_9().await;
    kill_9(world.codex_pid());
    let daemon = world.daemon().await;
    world.ask("a", "echo:three").await;
    assert!(!second.exists(), "of an earlier daemon");
    daemon.stop().await;
}

/// F9 and F8: a Codex without its socket says why, in colours and on several lines.
#[tokio::test]
async fn f8_codex_stderr_stays_on_one_line() {
    let world = World::new().await;
    let real = bridge_sim::codex_for_tests().unwrap();
    let wrapper = world.path().join("codex-without-socket");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *unix://*) printf '\\033[31mno such\\r\\nINFO forged\\n' >&2; exit 2;; esac\nexec {} \"$@\"\n",
        real.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o700)).unwrap();
    let wrapper = wrapper.to_str().unwrap();
    let mut daemon = world.daemon_with(&["--codex-bin", wrapper]).await;
    assert_eq!(world.ask("a", "echo:one").await, "one");
    let log = daemon.log.wait_for("using pipes").await;
    let line = log
        .lines()
        .find(|line| line.contains("using pipes"))
        .unwrap();
    assert!(line.contains("no such\\r\\nINFO forged"), "{line}");
    assert!(!log.contains('\u{1b}'), "{log}");
    let status = world.run(&["status"]).await;
    assert!(
        status.stdout.contains("its turns end with the daemon"),
        "{status:?}"
    );
    assert!(!status.stdout.contains('\u{1b}'), "{status:?}");
    daemon.stop().await;
}
