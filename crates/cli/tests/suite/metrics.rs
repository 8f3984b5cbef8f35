//! Metrics as Prometheus reads them: their names in the documentation and in the examples, and Debian's `promtool` as the
//! judge of both.

use crate::a2a_wire::{SETTINGS, Wire};
use crate::world::{World, within};
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Begins every name.
const PREFIX: &str = "codex_bridge_";

fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(in_repository(path)).unwrap()
}

/// The names in a text, without what Prometheus adds to those of histograms.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    let names = words.filter(|word| word.starts_with(PREFIX) && word.len() > PREFIX.len());
    names
        .map(|name| {
            let mut ends = ["_bucket", "_sum", "_count"].into_iter();
            ends.find_map(|end| name.strip_suffix(end)).unwrap_or(name)
        })
        .collect()
}

/// The names in the first column of the table.
fn documented(text: &str) -> BTreeSet<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

async fn promtool(args: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command
        .args(args)
        .current_dir(in_repository("examples/telemetry"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Of Debian's package `prometheus`.
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let ended = within("promtool", child.wait_with_output()).await.unwrap();
    assert!(ended.status.success(), "{args:?}: {ended:?}");
}

#[tokio::test]
async fn metrics_are_documented_and_lint_clean() {
    let world = World::with_settings(SETTINGS).await;
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("c", "echo:one").await, "one");
    daemon.log.wait_for("answered").await;
    let wire = Wire::of(&world).await;
    let response = wire.call(Method::GET, "/metrics").send().await.unwrap();
    let served = response.text().await.unwrap();
    let typed = served
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let typed: BTreeSet<&str> = typed.filter_map(|line| line.split(' ').next()).collect();
    let table = read("docs/metrics.md");
    assert_eq!(typed, documented(&table));
    for told in [
        "codex_bridge_answer_seconds_count 1\n",
        "codex_bridge_turn_seconds_count 1\n",
        "codex_bridge_messages{state=\"done\"} 1\n",
        "codex_bridge_messages{state=\"dead\"} 0\n",
        "codex_bridge_approvals_total{decision=\"accept\"} 0\n",
    ] {
        assert!(served.contains(told), "{told} is not in {served}");
    }
    promtool(&["check", "metrics"], &served).await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn examples_name_metrics_that_exist() {
    let table = read("docs/metrics.md");
    let known = documented(&table);
    for example in ["alerts.yml", "dashboard.json"] {
        let text = read(&format!("examples/telemetry/{example}"));
        let used = names(&text);
        assert!(used.len() >= 10, "{example}: {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{example}: {unknown:?}");
    }
    let dashboard: Value =
        serde_json::from_str(&read("examples/telemetry/dashboard.json")).unwrap();
    assert_eq!(dashboard["panels"].as_array().unwrap().len(), 12);
    promtool(&["check", "rules", "alerts.yml"], "").await;
    promtool(&["test", "rules", "alerts.test.yml"], "").await;
}
