//! The configuration is read again while the daemon runs: what can change does, what can't is named, and a broken file
//! changes nothing.

use crate::world::{Daemon, World, signal};
use nix::sys::signal::Signal::SIGHUP;
use serde_json::Value;

fn write(world: &World, text: &str) {
    std::fs::write(world.config_file(), text).unwrap();
}

/// Asks for a reload, which may fail, and gives what came of it.
async fn reload(world: &World, code: i32) -> Value {
    let ended = world.run(&["reload", "--json"]).await;
    assert_eq!(ended.code, Some(code), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn keys(view: &Value, name: &str) -> Vec<String> {
    serde_json::from_value(view[name].clone()).unwrap()
}

/// Whether a command of this conversation could write, seen from outside.
async fn writes(world: &World, conversation: &str, file: &str) -> bool {
    let text = format!("shell:touch {file} ;; echo:ok");
    assert_eq!(world.ask(conversation, &text).await, "ok");
    made(world, file)
}

fn made(world: &World, file: &str) -> bool {
    let mut work = std::fs::read_dir(world.state_dir().join("work")).unwrap();
    work.any(|dir| dir.unwrap().path().join(file).exists())
}

#[tokio::test]
async fn n9_invalid_reload_keeps_old_configuration() {
    let world = World::with_settings("tiers.owner.sandbox = 'workspace-write'\n").await;
    let mut daemon = world.daemon().await;
    write(
        &world,
        "tiers.owner.sandbox = 'read-only'\ntiers.owner.sandbx = 1\n",
    );
    signal(daemon.pid(), SIGHUP);
    let said = daemon.log.wait_for("the old one stays in force").await;
    assert!(
        said.contains("did you mean `tiers.owner.sandbox`?"),
        "{said}"
    );
    let view = reload(&world, 1).await;
    let error = view["error"]["detail"].as_str().unwrap();
    assert!(error.contains("tiers.owner.sandbx"), "{error}");
    let status = world.run(&["status"]).await;
    status.must(0, &[]);
    assert!(
        status.stdout.contains("the old one is in force"),
        "{status:?}"
    );
    assert!(writes(&world, "a", "as-before").await);

    write(&world, "tiers.owner.sandbox = 'workspace-write'\n");
    let view = reload(&world, 0).await;
    assert_eq!(keys(&view, "changed"), Vec::<String>::new());
    let status = world.run(&["status"]).await;
    assert!(!status.stdout.contains("in force"), "mended: {status:?}");
    stop(&world, daemon).await;
}

#[tokio::test]
async fn n9_reload_applies_to_later_turns() {
    let mut world = World::with_settings("log.level = 'info'\n").await;
    world.unset_env("CODEX_BRIDGE_LOG");
    let daemon = world.daemon().await;
    let mut held = world
        .start(&[
            "send",
            "-c",
            "a",
            "hold:gate shell:touch begun-before ;; echo:ok",
        ])
        .await;
    held.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    write(
        &world,
        "[log]\nlevel = 'debug'\n[codex]\nlinger_secs = 601\n[tiers.owner]\nsandbox = 'read-only'\n\
         [[rules]]\nname = 'no pushing'\ncommand = ['git push']\nthen = 'deny'\n",
    );
    let view = reload(&world, 0).await;
    let changed = ["log.level", "rules", "tiers.owner.sandbox"];
    assert_eq!(keys(&view, "changed"), changed);
    assert_eq!(keys(&view, "needs_restart"), ["codex.linger_secs"]);
    world.model.release("gate");
    assert_eq!(held.ended().await.code, Some(0));
    assert!(
        made(&world, "begun-before"),
        "a turn keeps what it began with"
    );
    assert!(!writes(&world, "a", "same-thread").await);
    assert!(!writes(&world, "b", "new-thread").await);
    stop(&world, daemon).await;
}

/// What was done by hand is in the record, and the record is whole.
async fn stop(world: &World, daemon: Daemon) {
    assert_eq!(daemon.stop().await, Some(0));
    let audit = world.json(&["audit", "--json"]).await;
    assert_eq!(audit["ok"], true, "{audit}");
    assert_eq!(audit["entries"][0]["what"], "reload", "{audit}");
    assert_eq!(audit["entries"][0]["subject"], "configuration");
    let verified = world.run(&["audit", "--verify"]).await;
    verified.must(0, &[]);
    assert!(
        verified.stdout.starts_with("the record is whole"),
        "{verified:?}"
    );
}
