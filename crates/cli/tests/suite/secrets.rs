//! Secrets of the daemon stay with the daemon: not in a child's environment or command line, not in a log, a file
//! or an answer; and nothing it writes can be read by others.

use crate::world::{Daemon, World};
use bridge_sim::Options;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// Variables that no child may see.
const OURS: [(&str, &str); 4] = [
    ("MOLECULE_WORKSPACE_TOKEN", "canary-molecule-1f6c"),
    ("OPENAI_API_KEY", "canary-openai-77b0"),
    ("AWS_SECRET_ACCESS_KEY", "canary-aws-90ad"),
    ("CODEX_BRIDGE_LOG", "trace"),
];
/// The key of the model's provider: for Codex, not for the commands it runs.
const PROVIDER: (&str, &str) = ("MY_PROVIDER_KEY", "canary-provider-c2e9");
/// Begins the values above.
const CANARY: &str = "canary-";

async fn world() -> World {
    let options = Options {
        require_auth: true,
        env_key: Some(PROVIDER.0.to_owned()),
        ..Options::default()
    };
    let settings = format!("[codex]\nenv_pass = [{:?}]\n", PROVIDER.0);
    let mut world = World::with_model(options, &settings).await;
    for (name, value) in OURS.into_iter().chain([PROVIDER]) {
        world.set_env(name, value);
    }
    world
}

fn proc_file(pid: i32, name: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Everything below a directory, without following links; but not what is below `but`.
fn walk(directory: &Path, but: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() && path.parent() != Some(but) {
            found.extend(walk(&path, but));
        } else {
            found.push(path);
        }
    }
    found
}

/// Threats 5 and 6: planted values are looked for in every child and in everything that is written.
#[tokio::test]
async fn threat_5_planted_secrets_never_leak() {
    let world = world().await;
    let mut daemon = world.daemon().await;
    let mut ended = world
        .run(&[
            "send",
            "-c",
            "a",
            "shell:env; cat /proc/*/environ ;; echo:done",
        ])
        .await;
    assert_eq!(ended.stdout, "done\n", "{ended:?}");
    let asked = world.model.requests();
    assert!(
        asked.iter().all(|seen| seen.authorized),
        "codex has the key"
    );
    let env = asked.last().unwrap().outputs.join("\n");
    assert!(env.contains("PATH="), "{env}");
    assert!(!env.contains(CANARY), "a command sees a secret: {env}");

    let mut send = world.start(&["send", "-c", "a", "hold:gate echo:x"]).await;
    send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let codex = world.codex_pid();
    let children: Vec<_> = world
        .processes()
        .into_iter()
        .map(|(pid, _)| pid)
        .filter(|pid| *pid != daemon.pid() && proc_file(*pid, "cmdline").contains("app-server"))
        .collect();
    assert!(
        children.len() >= 2 && children.contains(&codex),
        "keeper and codex"
    );
    for pid in children {
        let environ = proc_file(pid, "environ");
        for (name, value) in OURS {
            assert!(!environ.contains(value), "{name} is in {pid}'s environment");
        }
        assert!(environ.contains(PROVIDER.1), "what is passed on arrives");
        assert!(!proc_file(pid, "cmdline").contains(CANARY));
    }
    world.model.release("gate");
    ended.stderr += &send.ended().await.stderr;

    for command in [&["status"][..], &["config", "check"], &["doctor"]] {
        let said = world.run(command).await;
        ended.stderr += &said.stdout;
        ended.stderr += &said.stderr;
    }
    assert!(!ended.stderr.contains(CANARY), "{}", ended.stderr);
    daemon.terminate();
    let log = daemon.log.wait_for("stopped").await;
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    assert!(!log.contains(CANARY), "the log holds a secret");
    assert_eq!(daemon.ended().await, Some(0));
    for path in walk(&world.state_dir(), Path::new("/")) {
        let text = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains(CANARY), "{}", path.display());
    }
}

/// What no text may hold does not leave in a file either.
#[tokio::test]
async fn threat_5_send_skips_files_with_secrets() {
    let world = world().await;
    let daemon = world.daemon().await;
    let put = "shell:d=outbox/$(basename \"$PWD\"); mkdir -p $d && printf canary-openai-77b0 | base64 > $d/held.txt && printf x > $d/fine.txt";
    let ended = world.run(&["send", &format!("{put} ;; echo:sent")]).await;
    ended.must(0, &["file: fine.txt "]);
    let told = "`held.txt`: it holds a secret value";
    assert!(ended.stdout.contains(told), "{ended:?}");
    assert!(!ended.stderr.contains("file: held.txt"), "{ended:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The same command, started by somebody who would let others in.
pub(crate) fn without_umask(command: &Command) -> Command {
    let command = command.as_std();
    let mut loose = Command::new("sh");
    loose
        .args(["-c", "umask 0; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => loose.env(name, value),
            None => loose.env_remove(name),
        };
    }
    loose
}

/// Looks at everything below the state directory but what Codex's commands made; gives how much there is.
pub(crate) fn all_private(world: &World) -> usize {
    let found = walk(&world.state_dir(), &world.state_dir().join("work"));
    for path in &found {
        let mode = path.symlink_metadata().unwrap().mode();
        // Codex's socket is a link to one in a private directory of its own.
        let followed = path.metadata().map_or(0, |found| found.mode());
        let open = mode & 0o077 != 0 && !path.is_symlink();
        assert!(
            !open && followed & 0o077 == 0,
            "{} is open to others: {mode:o} {followed:o}",
            path.display()
        );
    }
    found.len()
}

/// Threat 16: everything below the state directory is for its owner alone, while the daemon runs and after.
#[tokio::test]
async fn threat_16_state_directory_is_private() {
    let world = World::new().await;
    let mut daemon = Daemon::of(without_umask(&world.command(&["run"]))).await;
    assert_eq!(world.ask("a", "shell:touch made ;; echo:ok").await, "ok");
    let private = || all_private(&world);
    assert!(private() >= 10, "database, lock, sockets, directories");
    daemon.terminate();
    daemon.log.wait_for("stopped").await;
    assert_eq!(daemon.ended().await, Some(0));
    private();
}
