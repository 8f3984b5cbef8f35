//! Another Codex takes new turns while turns run: npm replaces it under a daemon at work, a broken one is gone back from,
//! and the daemon dies in the middle. No message is lost, cut or done twice.
//!
//! `CODEX_BRIDGE_FORMER_CODEX_BIN` names another version to change from and back to; without it that is a copy of the one
//! that all tests drive.

use crate::fake::beside;
use crate::world::{Daemon, Lines, Running, World, gone, in_the_end, kill_9};
use bridge_sim::bend::BentCodex;
use bridge_sim::{Options, codex_for_tests};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CONVERSATIONS: usize = 20;

/// Whoever waits for the operator is tried again soon.
const MANY: &str =
    "[daemon]\nturns_max = 64\n[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

/// A world in which a turn may be held for minutes: the digest of a binary takes long in a build for tests.
async fn patient_world() -> World {
    let options = Options {
        stream_idle_timeout: Duration::from_secs(600),
        ..Options::default()
    };
    let mut world = World::with_model(options, MANY).await;
    // Codex puts no helpers of its sandbox below its temporary directory, wherever this world is.
    world.set_env("TMPDIR", "/tmp");
    world
}

/// The version that all tests drive.
fn newer() -> PathBuf {
    codex_for_tests().unwrap().canonicalize().unwrap()
}

/// Another version, or at least another file.
fn former(world: &World) -> PathBuf {
    if let Some(named) = std::env::var_os("CODEX_BRIDGE_FORMER_CODEX_BIN") {
        return PathBuf::from(named).canonicalize().unwrap();
    }
    let copy = world.path().join("former");
    link_tree(package_of(&newer()), &copy);
    let codex = copy.join("bin/codex");
    fs::remove_file(&codex).unwrap();
    fs::copy(newer(), &codex).unwrap();
    codex
}

fn package_of(codex: &Path) -> &Path {
    codex.parent().unwrap().parent().unwrap()
}

fn link_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            link_tree(&entry.path(), &to);
        } else if fs::hard_link(entry.path(), &to).is_err() {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// Puts a package in the place of the configured one, as npm does: the old files are gone, also those that run.
fn install(world: &World, codex: &Path) -> String {
    let place = world.path().join("npm");
    let new = world.path().join("npm.new");
    link_tree(package_of(codex), &new);
    if place.exists() {
        fs::remove_dir_all(&place).unwrap();
    }
    fs::rename(new, &place).unwrap();
    place.join("bin/codex").display().to_string()
}

fn version_of(codex: &Path) -> String {
    let said = std::process::Command::new(codex).arg("--version").output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    said.split_whitespace().last().unwrap().to_owned()
}

/// Sends one message to each conversation that is held in its middle, after an effect.
async fn held_turns(world: &World, round: &str) -> Vec<Running> {
    let mut sends = Vec::new();
    for n in 0..CONVERSATIONS {
        let text = format!("append:log.txt:{round} ;; hold:{round}-{n} echo:{round} answer {n}");
        let conversation = format!("c{n}");
        sends.push(world.start(&["send", "-c", &conversation, &text]).await);
    }
    for n in 0..CONVERSATIONS {
        let gate = format!("{round}-{n}");
        world.model.wait_held(&gate).await.unwrap();
    }
    sends
}

async fn answered(send: Running, answer: &str) {
    let ended = send.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, format!("{answer}\n"));
}

/// What each conversation's turns wrote, in order, and how often.
fn effects(world: &World) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(world.state_dir().join("work"))
        .unwrap()
        .flatten()
    {
        if let Ok(text) = fs::read_to_string(entry.path().join("log.txt")) {
            *all.entry(text).or_default() += 1;
        }
    }
    all
}

/// The processes of Codex that live, oldest first.
fn codex_pids(world: &World) -> Vec<i32> {
    let keepers = world.processes().into_iter();
    let keepers = keepers.filter(|(_, line)| line.contains(" keeper "));
    let mut pids: Vec<_> = keepers
        .flat_map(|(pid, _)| bridge_host::process::children(pid))
        .collect();
    pids.sort_unstable();
    pids
}

async fn health(world: &World) -> String {
    let status = world.json(&["status", "--json"]).await;
    status["health"]["codex"].as_str().unwrap().to_owned()
}

/// Waits until Codex was changed so often. The digest of a binary takes long in a build for tests.
async fn changed(log: &Lines, times: usize) {
    let mut look = tokio::time::interval(Duration::from_millis(50));
    in_the_end("a change of codex", async {
        while log.text().matches("codex was changed").count() < times {
            look.tick().await;
        }
    })
    .await
}

/// Waits until `status` says this of Codex.
async fn told(world: &World, words: &str) -> String {
    let mut look = tokio::time::interval(Duration::from_millis(100));
    in_the_end(words, async {
        loop {
            look.tick().await;
            let said = health(world).await;
            if said.contains(words) {
                return said;
            }
        }
    })
    .await
}

/// Replaces the Codex under 20 held turns. Whoever writes meanwhile is answered by the new one; nobody waits for another
/// conversation's turn.
async fn change_at_work(world: &World, log: &Lines, round: &str, to: &Path) {
    let sends = held_turns(world, round).await;
    let before = codex_pids(world);
    assert_eq!(before.len(), 1, "{before:?}");
    let changes = log.text().matches("codex was changed").count();
    install(world, to);
    changed(log, changes + 1).await;
    let said = health(world).await;
    let version = version_of(to);
    assert!(said.starts_with(&format!("Codex {version} over")), "{said}");
    assert!(said.contains("ends the turns it has"), "{said}");
    assert_eq!(codex_pids(world).len(), 2);
    // Nobody waits for the turns of others.
    for n in 0..3 {
        let text = format!("echo:{round} new {n}");
        let answer = world.ask(&format!("{round}-new-{n}"), &text).await;
        assert_eq!(answer, format!("{round} new {n}"));
    }
    let mut sends = sends.into_iter().enumerate();
    let (_, last) = sends.next_back().unwrap();
    for (n, send) in sends {
        world.model.release(&format!("{round}-{n}"));
        answered(send, &format!("{round} answer {n}")).await;
    }
    // One turn keeps the old process; the threads of the others go to the new one, with what was said.
    for n in 0..CONVERSATIONS - 1 {
        let text = format!("echo:{round} later {n}");
        assert_eq!(
            world.ask(&format!("c{n}"), &text).await,
            format!("{round} later {n}")
        );
        let shown = world.shown_with(&text);
        assert!(
            shown
                .iter()
                .any(|said| said.contains(&format!("{round}-{n}"))),
            "{shown:?}"
        );
    }
    assert_eq!(
        codex_pids(world).len(),
        2,
        "a turn still runs on the old one"
    );
    let n = CONVERSATIONS - 1;
    world.model.release(&format!("{round}-{n}"));
    answered(last, &format!("{round} answer {n}")).await;
    gone(before[0]).await;
    assert_eq!(codex_pids(world).len(), 1);
    // The message counted as work on the new one, and so it is good.
    assert_eq!(
        world.ask(&format!("c{n}"), "echo:one more").await,
        "one more"
    );
}

#[tokio::test]
async fn upgrade_and_back_with_20_conversations() {
    let world = patient_world().await;
    let former = former(&world);
    let codex = install(&world, &former);
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    change_at_work(&world, &daemon.log, "up", &newer()).await;
    assert_eq!(effects(&world), [("up\n".to_owned(), CONVERSATIONS)].into());
    change_at_work(&world, &daemon.log, "back", &former).await;
    assert_eq!(
        effects(&world),
        [("up\nback\n".to_owned(), CONVERSATIONS)].into()
    );
    for round in ["up", "back"] {
        for n in 0..CONVERSATIONS {
            // For the command, and for the answer.
            assert_eq!(
                world.times_asked(&format!("hold:{round}-{n} ")),
                2,
                "{round} {n}"
            );
        }
    }
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// A daemon at work with the newest Codex where npm has it.
async fn settled(world: &World) -> Daemon {
    let codex = install(world, &newer());
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    assert_eq!(world.ask("a", "echo:one").await, "one");
    daemon
}

/// Replaces the installed Codex by a program that is none.
fn install_script(world: &World, text: &str) {
    let place = world.path().join("npm");
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir_all(place.join("bin")).unwrap();
    let codex = place.join("bin/codex");
    fs::write(&codex, text).unwrap();
    fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).unwrap();
}

/// C28: what lies at `codex.bin` does not run. The old process goes on, and when it dies, a copy of it; also after a
/// restart of the daemon.
#[tokio::test]
async fn c28_broken_binary_is_never_used() {
    let version = version_of(&newer());
    let no_version = "#!/bin/sh\nexit 1\n".to_owned();
    let no_server = format!(
        "#!/bin/sh\ncase $1 in --version) echo codex-cli {version};; *) echo broken >&2; exit 3;; esac\n"
    );
    for (broken, words) in [(no_version, "can't be used"), (no_server, "is refused")] {
        let world = patient_world().await;
        let daemon = settled(&world).await;
        install_script(&world, &broken);
        let said = told(&world, words).await;
        assert!(said.starts_with(&format!("Codex {version} over")), "{said}");
        assert_eq!(world.ask("a", "echo:two").await, "two");
        let codex = codex_pids(&world)[0];
        kill_9(codex);
        gone(codex).await;
        assert_eq!(world.ask("a", "echo:three").await, "three");
        assert!(codex_exe(&world).starts_with(world.state_dir().join("codex/kept")));
        assert_eq!(daemon.stop().await, Some(0));
        let codex = world.path().join("npm/bin/codex").display().to_string();
        let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
        assert_eq!(world.ask("a", "echo:four").await, "four");
        assert_eq!(daemon.stop().await, Some(0));
        assert_eq!(world.processes(), []);
    }
}

fn codex_exe(world: &World) -> PathBuf {
    let pid = codex_pids(world)[0];
    fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

/// C28: the new Codex starts and speaks, and can't do its first turn. The message that met that is answered by the one of
/// before, which still ends its turns; nothing is run twice.
#[tokio::test]
async fn c28_failing_first_turn_rolls_back() {
    let world = patient_world().await;
    let mut daemon = settled(&world).await;
    let held = world
        .start(&["send", "-c", "held", "hold:gate echo:held"])
        .await;
    world.model.wait_held("gate").await.unwrap();
    let rules = json!([{"do": "refuse", "from": "bridge", "in": ["turn/start"]}]);
    let rules = serde_json::from_value(rules).unwrap();
    // Of a version that is known, and so not checked by turns of ours before.
    let bent = BentCodex::new(newer(), rules);
    let place = world.path().join("npm/bin");
    bent.plant(beside("bent-codex").as_ref(), &place).unwrap();
    changed(&daemon.log, 1).await;
    // No command: the sandbox of the older process is started from the file at its path, where bent-codex lies now.
    let ended = world.run(&["send", "-c", "b", "echo:two"]).await;
    let id = ended.must(75, &["`turn/start`"]).kept();
    assert_eq!(world.finished(&id).await["answer"]["text"], "two");
    daemon.log.wait_for("new turns go back").await;
    let said = told(&world, "is refused").await;
    assert!(said.contains("turn/start"), "{said}");
    assert_eq!(world.times_asked("echo:two"), 1);
    world.model.release("gate");
    answered(held, "held").await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// C28: the daemon dies while turns run on both. The next one finds both, and cuts nothing.
#[tokio::test]
async fn c28_both_processes_survive_a_killed_daemon() {
    let world = patient_world().await;
    let former = former(&world);
    let codex = install(&world, &former);
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    let old = held_turns(&world, "old").await;
    let before = codex_pids(&world)[0];
    install(&world, &newer());
    changed(&daemon.log, 1).await;
    let new = world
        .start(&["send", "-c", "new", "hold:new echo:new"])
        .await;
    world.model.wait_held("new").await.unwrap();
    let pids = codex_pids(&world);
    assert_eq!(pids.len(), 2);
    daemon.kill_9().await;
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    assert_eq!(codex_pids(&world), pids);
    for (n, send) in old.into_iter().enumerate() {
        world.model.release(&format!("old-{n}"));
        answered(send, &format!("old answer {n}")).await;
    }
    world.model.release("new");
    answered(new, "new").await;
    gone(before).await;
    for n in 0..CONVERSATIONS {
        assert_eq!(world.times_asked(&format!("hold:old-{n} ")), 2, "{n}");
        assert_eq!(world.ask(&format!("c{n}"), "echo:more").await, "more");
    }
    assert_eq!(
        effects(&world),
        [("old\n".to_owned(), CONVERSATIONS)].into()
    );
    assert_eq!(codex_pids(&world).len(), 1);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}
