//! What the machine does to the daemon: a second daemon, no descriptors left, nowhere to log (rows N1, N6, N11).

use crate::world::{Daemon, World, within};
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;
use tokio::process::Command;

/// N1: somebody removed the lock file, so a second daemon starts. The ledger's epoch fences the first: it stops
/// before it does anything more, and nothing is done twice.
#[tokio::test]
async fn n1_superseded_daemon_stops_itself() {
    let world = World::new().await;
    let mut first = world.daemon().await;
    std::fs::remove_file(world.state_dir().join("lock")).unwrap();
    let second = world.daemon().await;
    assert_eq!(
        world.ask("main", "echo:from the second").await,
        "from the second"
    );
    first.log.wait_for("another daemon has taken over").await;
    assert_eq!(first.ended().await, Some(1));
    assert_eq!(world.ask("main", "echo:again").await, "again");
    assert_eq!(world.times_asked("echo:from the second"), 1);
    assert_eq!(second.stop().await, Some(0));
}

/// The daemon under a shell that first does what `before` says.
fn under_shell(world: &World, before: &str) -> Command {
    let run = world.command(&["run"]);
    let run = run.as_std();
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("{before}; exec \"$0\" \"$@\""))
        .arg(run.get_program())
        .args(run.get_args())
        .envs(
            run.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("OPENAI_API_KEY")
        .current_dir(world.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    shell
}

/// N6: connections use up the descriptors. The daemon goes on, and takes messages again when they are closed.
#[tokio::test]
async fn n6_daemon_recovers_from_descriptor_exhaustion() {
    let world = World::new().await;
    let daemon = Daemon::of(under_shell(&world, "ulimit -n 96")).await;
    assert_eq!(world.ask("main", "echo:before").await, "before");
    let path = world.state_dir().join("api.sock");
    let held: Vec<_> = (0..200)
        .map_while(|_| StdStream::connect(&path).ok())
        .collect();
    assert!(held.len() > 96, "{} connections were made", held.len());
    let asked = world
        .start(&["send", "--conversation", "other", "echo:during"])
        .await;
    drop(held);
    let ended = asked.ended().await;
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "during"));
    assert_eq!(world.ask("main", "echo:after").await, "after");
    assert_eq!(daemon.stop().await, Some(0));
}

/// N11: what is logged goes nowhere, first because the disk of the log is full, then because nobody reads it.
#[tokio::test]
async fn n11_unwritable_log_blocks_no_message() {
    let world = World::new().await;
    for before in ["exec 2>/dev/full", "exec 2>&-"] {
        let mut daemon = under_shell(&world, before).spawn().unwrap();
        within("the daemon's socket", serving(&world)).await;
        let text = format!("echo:{before}");
        let said = world.ask("main", &text).await;
        assert_eq!(said, before);
        let pid = i32::try_from(daemon.id().unwrap()).unwrap();
        crate::world::signal(pid, nix::sys::signal::Signal::SIGTERM);
        let ended = within("the daemon's end", daemon.wait()).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{before}");
    }
}

/// Returns when the API answers: a daemon without a log can't say that it is ready.
async fn serving(world: &World) {
    let mut look = tokio::time::interval(std::time::Duration::from_millis(20));
    loop {
        look.tick().await;
        if world.run(&["status", "--json"]).await.code == Some(0) {
            return;
        }
    }
}
