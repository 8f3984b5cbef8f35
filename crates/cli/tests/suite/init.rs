//! `init`: the first configuration, from a terminal and from a script.

use crate::terminal::{Terminal, plain};
use crate::world::{Ended, Running, World, signal};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::process::Command;

const TOKEN: &str = "token-that-nobody-sees";

fn command(world: &World, config: &Path, args: &[&str]) -> Command {
    let mut command = world.command_at(&world.state_dir(), config, &world.codex_home(), args);
    command.env_remove("CODEX_BRIDGE_LOG");
    command
}

async fn run(world: &World, config: &Path, args: &[&str]) -> Ended {
    Running::of(command(world, config, args)).ended().await
}

fn new_config(world: &World) -> PathBuf {
    world.path().join("config/codex-bridge.toml")
}

/// What is in force, as `config check` tells programs.
async fn in_force(world: &World, config: &Path) -> serde_json::Value {
    let ended = run(world, config, &["config", "check", "--json"]).await;
    ended.must(0, &[]);
    let mut report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    report["file"].take();
    report
}

fn key<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let rows = report["keys"].as_array().unwrap();
    let row = rows.iter().find(|row| row["key"] == name);
    &row.unwrap_or_else(|| panic!("no key {name} in {report:#}"))["value"]
}

#[tokio::test]
async fn init_yes_writes_defaults_and_never_overwrites() {
    let world = World::new().await;
    let config = new_config(&world);
    let first = run(&world, &config, &["init", "--yes"]).await;
    first.must(0, &["wrote ", "codex-bridge.toml", "codex-bridge run"]);
    assert!(
        first.stdout.contains("codex login"),
        "doctor ran: {first:?}"
    );
    assert_eq!(
        in_force(&world, &config).await,
        in_force(&world, &world.config_file()).await,
        "nothing was chosen, so the defaults are in force"
    );
    let text = std::fs::read_to_string(&config).unwrap();
    let again = run(&world, &config, &["init", "--yes", "--workdir", "/srv"]).await;
    again.must(1, &["stays as it is", "config check"]);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), text);
    assert!(!world.state_dir().exists(), "no daemon, no state");
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn init_refuses_what_the_configuration_refuses() {
    let world = World::new().await;
    let config = new_config(&world);
    let flags = ["init", "--yes", "--workdir", "/nonexistent/place"];
    let refused = run(&world, &config, &flags).await;
    refused.must(1, &["tiers.owner.workdir", "/nonexistent/place"]);
    assert!(!config.exists());
    run(&world, &config, &["init"])
        .await
        .must(1, &["at a terminal", "init --yes"]);
}

#[tokio::test]
async fn init_asks_and_writes_what_was_chosen() {
    let world = World::new().await;
    let config = new_config(&world);
    let work = world.path().join("a \"quoted\" 'place' [x]");
    std::fs::create_dir(&work).unwrap();
    let work = work.display().to_string();
    let mut terminal = Terminal::run(command(&world, &config, &["init"]));
    let mut asked = Vec::new();
    for (question, answer) in [
        ("Path of another one", "/nonexistent/codex"),
        ("Its path, if it is installed", &*codex()),
        ("Path of another one", ""),
        ("Run `codex login` now?", ""),
        ("all your conversations work in", "/nonexistent/place"),
        ("all your conversations work in", &*work),
        ("May Codex change files", "n"),
        ("out of its sandbox?", "perhaps"),
        ("out of its sandbox?", ""),
        ("Serve a workspace of Molecule?", "y"),
        ("Its id", "3132147e-0000-4000-8000-000000000000\" x"),
        ("The address of its platform", "http://127.0.0.1:1"),
        ("Its id", "3132147e-0000-4000-8000-000000000000"),
        ("The address of its platform", "http://127.0.0.1:1"),
        ("Its token", "two words"),
        ("Its token", TOKEN),
        ("May whoever writes at its canvas", ""),
        ("Serve programs and agents", ""),
        ("Write it?", ""),
    ] {
        // A refused answer is asked for again.
        asked.push(question);
        let times = asked.iter().filter(|one| **one == question).count();
        terminal.screen.wait_times(question, times).await;
        terminal.types(&format!("{answer}\n"));
    }
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(1), "no platform listens there: {screen}");
    assert!(!screen.contains(TOKEN), "{screen}");
    let screen = plain(&screen);
    assert!(screen.contains("FAIL  Molecule"), "{screen}");
    let report = in_force(&world, &config).await;
    assert_eq!(key(&report, "tiers.owner.workdir"), &*work);
    assert_eq!(key(&report, "tiers.owner.sandbox"), "read-only");
    assert_eq!(key(&report, "tiers.owner.approval_policy"), "on-request");
    assert_eq!(key(&report, "http.listen"), &serde_json::Value::Null);
    let token = config.with_file_name("molecule-token");
    assert_eq!(std::fs::read_to_string(&token).unwrap().trim(), TOKEN);
    let mode = token.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&config).unwrap().contains(TOKEN));
}

#[tokio::test]
async fn init_left_early_writes_nothing() {
    let world = World::new().await;
    let config = new_config(&world);
    let mut terminal = Terminal::run(command(&world, &config, &["init"]));
    terminal.screen.wait_for("Path of another one").await;
    signal(terminal.pid(), Signal::SIGINT);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("nothing was written"), "{screen}");
    assert!(!config.parent().unwrap().exists());
}

fn codex() -> String {
    bridge_sim::codex_for_tests().unwrap().display().to_string()
}
