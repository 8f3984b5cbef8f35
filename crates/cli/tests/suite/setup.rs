//! Before the first message: what is missing, broken or in use is named together with what mends it, and what was
//! sent meanwhile is answered once it is mended.

use crate::world::{Ended, Running, World, gone, kill_9, within};
use bridge_sim::codex_for_tests;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Messages that wait for the operator are looked at every second; others are tried again at once.
const IMPATIENT: &str = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    chmod(path, mode);
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A script that becomes the real Codex, and that a test can take away.
fn codex_script(world: &World) -> PathBuf {
    let script = world.path().join("my-codex");
    let codex = codex_for_tests().unwrap();
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", codex.display());
    write(&script, &text, 0o755);
    script
}

async fn run_on(world: &World, state_dir: &Path) -> Ended {
    Running::of(world.command_on(state_dir, &["run"]))
        .ended()
        .await
}

#[tokio::test]
async fn c22_unusable_codex_is_rejected_with_remedy() {
    let world = World::new().await;
    let at = |name: &str| world.path().join(name);
    write(&at("not-executable"), "#!/bin/sh\n", 0o644);
    std::fs::create_dir(at("directory")).unwrap();
    write(&at("old"), "#!/bin/sh\necho codex-cli 0.149.0\n", 0o755);
    write(&at("other"), "#!/bin/sh\necho something else\n", 0o755);
    for (bin, says, remedy) in [
        ("missing", "no codex at ", "npm install -g @openai/codex@"),
        ("not-executable", "is not executable", "chmod +x"),
        ("directory", "is a directory", "--codex-bin"),
        ("old", "codex 0.149.0 at ", "npm install -g @openai/codex@"),
        ("old", "older than 0.150.0", "npm install -g @openai/codex@"),
        ("other", "is it the Codex CLI?", "something else"),
    ] {
        let bin = at(bin).display().to_string();
        for command in ["run", "doctor"] {
            let ended = world.run(&[command, "--codex-bin", &bin]).await;
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert_eq!(ended.code, Some(1), "{command}: {said}");
            assert!(said.contains(says), "{command}: {said}");
            assert!(said.contains(remedy), "{command}: {said}");
        }
    }
    let mut nowhere = world.command(&["run"]);
    nowhere
        .env_remove("CODEX_BRIDGE_CODEX_BIN")
        .env("PATH", at("directory"));
    Running::of(nowhere)
        .ended()
        .await
        .must(1, &["no codex on PATH", "npm install -g @openai/codex@"]);
    assert_eq!(world.processes(), []);
}

/// C22, later: the executable is gone when Codex must be started again.
#[tokio::test]
async fn c22_missing_codex_parks_messages() {
    let world = World::with_settings(IMPATIENT).await;
    let script = codex_script(&world);
    let bin = script.display().to_string();
    let daemon = world.daemon_with(&["--codex-bin", &bin]).await;
    world.ask("a", "echo:first").await;
    let codex = world.codex_pid();
    let away = script.with_extension("away");
    std::fs::rename(&script, &away).unwrap();
    kill_9(codex);
    gone(codex).await;
    // The first one may be given to the dead Codex before its end is noticed; then it is looked for, not parked.
    let mut send = world.start(&["send", "-c", "a", "echo:second"]).await;
    let id = send.on_disk().await;
    send.stderr.wait_for("No such file or directory").await;
    let parked = world.run(&["send", "-c", "b", "echo:other"]).await;
    parked.must(75, &["my-codex", "No such file or directory"]);
    std::fs::rename(&away, &script).unwrap();
    for (id, answer) in [(id, "second"), (parked.kept(), "other")] {
        let shown = world.finished(&id).await;
        assert_eq!(shown["answer"]["text"], answer, "{shown:#}");
    }
    assert_eq!(
        world.shown_with("echo:second"),
        ["echo:first", "echo:second"]
    );
    let status = world.json(&["status", "--json"]).await;
    let codex = status["health"]["codex"].as_str().unwrap();
    assert!(codex.contains("unix socket"), "{status:#}");
    let left = std::fs::read_dir(world.state_dir().join("run")).unwrap();
    assert_eq!(left.count(), 1, "starts that failed leave nothing");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Threats 15 and 16, S4: a state directory that can't be used, or that others could use.
#[tokio::test]
async fn threat_15_unsafe_state_directory_is_rejected() {
    let world = World::new().await;
    let at = |name: &str| world.path().join(name);
    std::fs::create_dir(at("open")).unwrap();
    chmod(&at("open"), 0o757);
    std::fs::create_dir(at("real")).unwrap();
    chmod(&at("real"), 0o700);
    std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
    write(&at("file"), "", 0o600);
    std::fs::create_dir(at("shared")).unwrap();
    chmod(&at("shared"), 0o777);
    for (path, says) in [
        (at("shared").join("state"), "anybody may put another"),
        (at("open"), "run `chmod 700 "),
        (at("link"), "symbolic link"),
        (at("file"), "File exists"),
        (at("file").join("below"), "Not a directory"),
        (PathBuf::from("/proc/codex-bridge"), "--state-dir"),
        (
            PathBuf::from("/proc/self/fd"),
            "write to the state directory",
        ),
        (not_ours(&world), "it belongs to uid "),
    ] {
        let ended = run_on(&world, &path).await;
        let words = [says, path.to_str().unwrap()];
        // The last name in /proc changes with the process that looks at it.
        let words = if path.starts_with("/proc/self") {
            &words[..1]
        } else {
            &words[..]
        };
        ended.must(1, words);
    }
    assert_eq!(std::fs::read_dir(at("real")).unwrap().count(), 0);
}

/// A private directory of another user.
fn not_ours(world: &World) -> PathBuf {
    let directory = world.path().join("theirs");
    std::fs::create_dir(&directory).unwrap();
    chmod(&directory, 0o700);
    match std::os::unix::fs::chown(&directory, Some(65_534), None) {
        Ok(()) => directory,
        // Only root can give a directory away; for others, root's own will do.
        Err(_) => PathBuf::from("/"),
    }
}

#[tokio::test]
async fn n1_second_daemon_is_rejected_with_pid() {
    let world = World::new().await;
    world
        .run(&["send", "echo:too early"])
        .await
        .must(1, &["no daemon runs on", "codex-bridge run"]);
    let first = world.daemon().await;
    let pid = format!("(pid {})", first.pid());
    world
        .run(&["run"])
        .await
        .must(1, &["another daemon", &pid, "--state-dir"]);
    assert_eq!(world.ask("a", "echo:the first").await, "the first");
    first.kill_9().await;
    let lock = world.state_dir().join("lock");
    assert!(lock.exists(), "the dead daemon's lock file is there");
    let second = world.daemon().await;
    assert_eq!(world.ask("a", "echo:the second").await, "the second");
    assert_eq!(second.stop().await, Some(0));
    for command in ["show", "why"] {
        let ended = world.run(&[command, "01a1"]).await;
        ended.must(1, &["no daemon runs on"]);
    }
}

#[tokio::test]
async fn unknown_config_key_suggests_nearest() {
    let world = World::with_settings("[turn]\ntimeout_sec = 3\n").await;
    for command in [&["run"][..], &["config", "check"]] {
        let ended = world.run(command).await;
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(1), "{said}");
        for words in ["codex-bridge.toml:2", "did you mean `turn.timeout_secs`?"] {
            assert!(said.contains(words), "{command:?}: {said}");
        }
    }
}

#[tokio::test]
async fn doctor_reports_config_and_login_problems() {
    let world = World::new().await;
    let fine = world.run(&["doctor"]).await;
    assert_eq!(fine.code, Some(0), "{fine:?}");
    let told = world.json(&["doctor", "--json"]).await;
    assert_eq!(told["ok"], true, "{told:#}");

    world.configure_codex("model = [");
    let broken = world.run(&["doctor"]).await;
    assert_eq!(broken.code, Some(1), "{broken:?}");
    for words in ["config.toml:1:", "mend ", "codex configuration"] {
        assert!(broken.stdout.contains(words), "{broken:?}");
    }

    world.configure_codex("");
    let no_login = world.run(&["doctor"]).await;
    assert_eq!(no_login.code, Some(1), "{no_login:?}");
    let remedy = format!("CODEX_HOME={} codex login", world.codex_home().display());
    assert!(no_login.stdout.contains(&remedy), "{no_login:?}");
    let told = world.json(&["doctor", "--json"]).await;
    assert_eq!(told["ok"], false, "{told:#}");
}

/// A world whose provider wants a login that is not there.
async fn without_login() -> World {
    let options = bridge_sim::Options {
        require_auth: true,
        ..bridge_sim::Options::default()
    };
    let world = World::with_model(options, IMPATIENT).await;
    let config = world.model.codex_config();
    world.configure_codex(&format!("{config}requires_openai_auth = true\n"));
    world
}

/// Logs Codex in as an operator does, beside the running daemon.
async fn log_in(world: &World) {
    let mut login = Command::new(codex_for_tests().unwrap())
        .args(["login", "--with-api-key"])
        .env("CODEX_HOME", world.codex_home())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = login.stdin.take().unwrap();
    stdin.write_all(b"sk-test").await.unwrap();
    drop(stdin);
    let ended = within("codex login", login.wait()).await.unwrap();
    assert!(ended.success());
}

#[tokio::test]
async fn messages_wait_for_codex_login() {
    let world = without_login().await;
    let mut daemon = world.daemon().await;
    let said = daemon.log.wait_for("codex can't take turns yet").await;
    assert!(said.contains("codex login"), "before any message: {said}");
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["health"]["ready"], false, "{status:#}");

    let first = world.run(&["send", "-c", "a", "echo:first"]).await;
    first.must(
        75,
        &["waiting for you: Codex is not logged in", "codex login"],
    );
    let second = world.run(&["send", "-c", "a", "echo:second"]).await;
    second.must(
        75,
        &["waiting for you: Codex is not logged in", "codex login"],
    );
    let why = world.run(&["why", &first.kept()]).await;
    assert!(why.stdout.contains("not logged in"), "{why:?}");
    assert_eq!(world.model.requests(), [], "the model was not asked");

    log_in(&world).await;
    for (sent, answer) in [(&first, "first"), (&second, "second")] {
        let shown = world.finished(&sent.kept()).await;
        assert_eq!(shown["answer"]["text"], answer, "{shown:#}");
        assert_eq!(shown["state"], "done");
    }
    assert_eq!(
        world.shown_with("echo:second"),
        ["echo:first", "echo:second"]
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// RuleDecision 10: a key in the daemon's environment is a login.
#[tokio::test]
async fn environment_api_key_logs_codex_in() {
    let mut world = without_login().await;
    world.set_env("OPENAI_API_KEY", "sk-test");
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:hello").await, "hello");
    let asked = world.model.requests();
    assert!(asked.iter().all(|seen| seen.authorized), "{asked:#?}");
    let said = "logging it in with OPENAI_API_KEY";
    assert!(!daemon.log.wait_for(said).await.contains("sk-test"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn broken_codex_config_parks_messages() {
    let world = World::with_settings(IMPATIENT).await;
    let good = world.model.codex_config();
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("known", "echo:before").await, "before");
    world.configure_codex("model = [");
    let reason = ["config.toml:1:", "codex-bridge doctor"];
    let known = world.run(&["send", "-c", "known", "echo:after"]).await;
    known.must(75, &reason);
    let new = world.run(&["send", "-c", "new", "echo:hello"]).await;
    new.must(75, &reason);
    world.configure_codex(&good);
    for (sent, answer) in [(&known, "after"), (&new, "hello")] {
        let shown = world.finished(&sent.kept()).await;
        assert_eq!(shown["answer"]["text"], answer, "{shown:#}");
    }

    // Broken from the start, Codex does not even know its provider.
    daemon.terminate();
    daemon.log.wait_for("stopped").await;
    assert_eq!(daemon.ended().await, Some(0));
    world.configure_codex("model = [");
    let daemon = world.daemon().await;
    let sent = world.run(&["send", "-c", "known", "echo:again"]).await;
    sent.must(75, &["mend config.toml", "codex-bridge doctor"]);
    world.configure_codex(&good);
    let shown = world.finished(&sent.kept()).await;
    assert_eq!(shown["answer"]["text"], "again", "{shown:#}");
    assert_eq!(daemon.stop().await, Some(0));
}
