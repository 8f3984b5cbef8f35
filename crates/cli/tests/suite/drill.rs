//! `drill`: every promise is kept while daemon and Codex are killed, and nothing is left of it.

use crate::json_schema::must_fit;
use crate::world::World;
use bridge_sim::codex_for_tests;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// A drill of twenty seconds, and the longest time that it may then take to become quiet.
const PATIENCE: Duration = Duration::from_secs(240);

/// Where the drill may put its things, so that what it leaves can be seen.
fn temporary(world: &mut World) -> PathBuf {
    let directory = world.path().join("tmp");
    std::fs::create_dir(&directory).unwrap();
    world.set_env("TMPDIR", directory.to_str().unwrap());
    directory
}

fn assert_nothing_left(world: &World, directory: &PathBuf) {
    assert_eq!(world.processes(), []);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}

async fn drilled(length: [&str; 2], transport: &str, seed: &str) -> Value {
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let args = [
        length[0],
        length[1],
        "--transport",
        transport,
        "--seed",
        seed,
    ];
    let mut command = world.command(&["drill", "--json", "--codex-bin", codex.to_str().unwrap()]);
    let ended = tokio::time::timeout(PATIENCE, command.args(args).output()).await;
    let ended = ended.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{said}"));
    must_fit("drill", &report);
    // On a machine that is slow enough, turns last from one kill to the next and are given up: dead letters with a
    // notice. Everything else must hold all the same.
    let slow = "more than 2 % of the messages are dead";
    if report["broken"] == serde_json::json!([slow]) {
        std::fs::remove_dir_all(report["kept"].as_str().unwrap()).unwrap();
    } else {
        assert_eq!(report["passed"], true, "{report:#}\n{said}");
        assert!(ended.status.success(), "{said}");
    }
    for figure in ["sent", "daemon_kills", "codex_kills", "input_tokens"] {
        assert!(report[figure].as_u64().unwrap() > 0, "{figure}: {report:#}");
    }
    let each = |key: &str| report[key].as_f64().unwrap();
    let least = each("model_calls_needed") / each("sent");
    // What died may not have been asked about as often as it needed.
    if report["dead"] == 0 {
        assert!(each("model_calls_per_answer") >= least, "{report:#}");
    }
    assert_nothing_left(&world, &directory);
    report
}

#[tokio::test]
async fn short_drill_passes_over_socket() {
    drilled(["--minutes", "0.33"], "socket", "16").await;
}

#[tokio::test]
async fn short_drill_passes_over_pipes() {
    drilled(["--minutes", "0.33"], "stdio", "18").await;
}

/// Two kills and an old row that is shown again, by the progress of messages alone.
#[tokio::test]
async fn drill_sends_the_requested_message_count() {
    let report = drilled(["--messages", "30"], "socket", "16").await;
    assert_eq!(
        (&report["sent"], &report["messages"]),
        (&30.into(), &30.into())
    );
}

/// Nodes die, lose their disk and stand still, and the database is restarted; the seed has a death in so few seconds.
#[tokio::test]
async fn short_drill_of_nodes_passes() {
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let args = "drill --json --nodes 3 --lease-secs 6 --restart-database --minutes 0.3 --seed 4";
    let mut command = world.command(&args.split(' ').collect::<Vec<_>>());
    command.arg("--codex-bin").arg(codex);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let ended = ended.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{said}"));
    must_fit("drill", &report);
    assert_eq!(report["passed"], true, "{report:#}\n{said}");
    assert!(ended.status.success(), "{said}");
    assert_eq!(
        (&report["nodes"], &report["lease_secs"]),
        (&3.into(), &6.into())
    );
    for figure in ["sent", "node_deaths", "database_restarts"] {
        assert!(report[figure].as_u64().unwrap() > 0, "{figure}: {report:#}");
    }
    assert_nothing_left(&world, &directory);
}

#[tokio::test]
async fn a_drill_that_is_interrupted_leaves_nothing() {
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let mut drill = world
        .start(&["drill", "--codex-bin", codex.to_str().unwrap()])
        .await;
    drill.stderr.wait_for("s left").await;
    crate::world::signal(drill.pid(), nix::sys::signal::Signal::SIGINT);
    let ended = drill.ended().await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("interrupted"), "{ended:?}");
    assert_nothing_left(&world, &directory);
}
