//! The daemon under a service manager: what it tells it, what its children do not see of it, and the unit that
//! `service install` writes.

use crate::world::{Daemon, World, within};
use std::os::unix::fs::MetadataExt;
use tokio::net::UnixDatagram;

/// A watchdog period short enough for a test; the beat is a third of it.
const WATCHDOG_USEC: &str = "600000";

/// The manager's end of the socket.
struct Manager(UnixDatagram);

impl Manager {
    fn new(world: &mut World) -> Self {
        let path = world.path().join("notify.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        world.set_env("NOTIFY_SOCKET", path.to_str().unwrap());
        world.set_env("WATCHDOG_USEC", WATCHDOG_USEC);
        Self(socket)
    }

    async fn hears(&self) -> String {
        let mut bytes = [0; 4096];
        let length = within("a word of the daemon", self.0.recv(&mut bytes))
            .await
            .unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Waits for a word that holds `part`.
    async fn hears_of(&self, part: &str) -> String {
        loop {
            let word = self.hears().await;
            if word.contains(part) {
                return word;
            }
        }
    }
}

#[tokio::test]
async fn systemd_receives_ready_watchdog_and_stopping() {
    let mut world = World::new().await;
    let manager = Manager::new(&mut world);
    let daemon = world.daemon().await;
    let first = manager.hears().await;
    assert!(first.starts_with("READY=1\n"), "{first}");
    for _ in 0..3 {
        manager.hears_of("WATCHDOG=1").await;
    }
    assert_eq!(world.ask("a", "echo:hi").await, "hi");
    manager.hears_of("STATUS=serving; turns at work: 0").await;
    let codex = world.codex_pid();
    let environment = std::fs::read(format!("/proc/{codex}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC"] {
        assert!(!environment.contains(name), "{environment}");
    }
    daemon.terminate();
    manager.hears_of("STOPPING=1").await;
    assert_eq!(daemon.ended().await, Some(0));
}

/// A daemon whose log is the journal writes priorities and no times; the journal has its own.
#[tokio::test]
async fn journal_log_lines_carry_priorities() {
    let world = World::new().await;
    let (reader, writer) = std::io::pipe().unwrap();
    let found = std::fs::metadata(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&writer)
    ))
    .unwrap();
    let mut command = world.command(&["run"]);
    command
        .stderr(writer)
        .env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
    let mut child = command.spawn().unwrap();
    drop(command);
    let said = tokio::task::spawn_blocking(move || {
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
        lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("ready ")))
    });
    let said = within("the ready line", said).await.unwrap();
    let line = said.unwrap().unwrap();
    assert!(line.starts_with("<6>ready codex="), "{line}");
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    crate::world::signal(pid, nix::sys::signal::Signal::SIGTERM);
    within("its end", child.wait()).await.unwrap();
}

#[tokio::test]
async fn service_install_preserves_edited_unit() {
    let mut world = World::new().await;
    let config = world.path().join("xdg");
    world.set_env("XDG_CONFIG_HOME", config.to_str().unwrap());
    let install = ["service", "install", "--user"];
    let ended = world.run(&install).await;
    ended.must(0, &[]);
    for word in ["wrote", "daemon-reload", "enable --now", "mode 0600"] {
        assert!(ended.stdout.contains(word), "{word}: {ended:?}");
    }
    let unit = config.join("systemd/user/codex-bridge.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains("Type=notify"), "{text}");
    let secrets = config.join("codex-bridge/env").metadata().unwrap();
    assert_eq!(secrets.mode() & 0o777, 0o600);
    let again = world.run(&install).await;
    assert!(again.stdout.starts_with("unchanged:"), "{again:?}");

    std::fs::write(&unit, text.replace("WatchdogSec=30", "WatchdogSec=90")).unwrap();
    world
        .run(&install)
        .await
        .must(1, &["changed by hand", "--force"]);
    let shown = world.run(&["service", "show", "--user"]).await;
    assert!(shown.stdout.contains("(changed by hand)"), "{shown:?}");
    world
        .run(&["service", "install", "--user", "--force"])
        .await
        .must(0, &[]);
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), text);
    world
        .run(&["service", "uninstall", "--user"])
        .await
        .must(0, &[]);
    assert!(!unit.exists());
    world
        .run(&["service", "uninstall", "--user"])
        .await
        .must(1, &["nothing was removed"]);
    world
        .run(&[
            "service", "install", "--system", "--print", "--run-as", "root",
        ])
        .await
        .must(1, &["--run-as"]);
}

/// The unit's own command line starts a daemon that serves.
#[tokio::test]
async fn unit_command_starts_a_daemon() {
    let mut world = World::new().await;
    let config = world.path().join("xdg");
    world.set_env("XDG_CONFIG_HOME", config.to_str().unwrap());
    let printed = world
        .run(&["service", "install", "--user", "--print"])
        .await;
    let line = printed
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .unwrap();
    let words: Vec<_> = line.split(' ').map(|word| word.trim_matches('"')).collect();
    let mut command = world.command(&[]);
    let mut unit = tokio::process::Command::new(words[0]);
    unit.args(&words[1..])
        .envs(
            command
                .as_std_mut()
                .get_envs()
                .filter_map(|(n, v)| Some((n, v?))),
        )
        .current_dir(world.path())
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    let daemon = Daemon::of(unit).await;
    assert_eq!(world.ask("a", "echo:from a unit").await, "from a unit");
    assert_eq!(daemon.stop().await, Some(0));
}
