//! `rehearse`: another Codex is tried on the shape of the conversations, beside the present one. Row C25 of the fault
//! matrix. The other one is the real one behind `bent-codex`.

use crate::fake::beside;
use crate::json_schema::must_fit;
use crate::world::World;
use bridge_sim::bend::{BendRule, BentCodex};
use bridge_sim::codex_for_tests;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A rule answers what is asked.
const DECLINES: &str = "[[rules]]\nname = 'no'\nkind = ['command']\nthen = 'deny'\n";

fn native() -> String {
    let native: PathBuf = codex_for_tests().unwrap().canonicalize().unwrap();
    native.display().to_string()
}

/// A world with two conversations: an answer, a command, and a question that was declined.
async fn world() -> World {
    let world = World::with_settings(DECLINES).await;
    let daemon = world.daemon().await;
    assert_eq!(
        world.ask("a", "echo:a secret answer").await,
        "a secret answer"
    );
    assert_eq!(
        world.ask("a", "append:log.txt:once ;; echo:two").await,
        "two"
    );
    assert_eq!(
        world.ask("b", "escal:touch asked ;; echo:three").await,
        "three"
    );
    assert_eq!(daemon.stop().await, Some(0));
    world
}

/// The real one, bent so.
fn plant(world: &World, rules: &Value) -> String {
    let rules: Vec<BendRule> = serde_json::from_value(rules.clone()).unwrap();
    let bent = BentCodex::new(PathBuf::from(native()), rules);
    let place = world.path().join("other");
    let codex = bent.plant(beside("bent-codex").as_ref(), &place).unwrap();
    codex.display().to_string()
}

/// What `rehearse` says of the real one, bent so.
async fn rehearsed(world: &World, rules: &Value) -> (Option<i32>, Value) {
    let codex = plant(world, rules);
    let ended = world
        .run(&["rehearse", "--codex", &codex, "--old", &native(), "--json"])
        .await;
    let said = serde_json::from_str(&ended.stdout);
    let said = said.unwrap_or_else(|_| panic!("{ended:?}"));
    must_fit("rehearse", &said);
    (ended.code, said)
}

/// The findings of one severity in a part of the report.
fn found(report: &Value, part: &str, severity: &str) -> Vec<String> {
    let all = report[part].as_array().unwrap().iter();
    let all = all.filter(|found| found["severity"] == severity);
    all.map(|found| found["what"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn c25_equal_codex_changes_nothing() {
    let world = world().await;
    let daemon = world.daemon().await;
    let asked = world.times_asked("");
    let (code, report) = rehearsed(&world, &json!([])).await;
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["ok"], true);
    assert_eq!(report["conversations"], 2);
    assert_eq!(report["turns"], 3);
    for severity in ["breaks", "blind_spot"] {
        assert_eq!(
            found(&report, "changes", severity),
            Vec::<String>::new(),
            "{report:#}"
        );
    }
    assert_eq!(
        report["old"]["model_requests"],
        report["new"]["model_requests"]
    );
    // An answer each, the command, and the question.
    assert_eq!(report["old"]["model_requests"], 5, "{report:#}");
    assert!(
        report["old"]["peak_kib"].as_u64().unwrap() > 10_000,
        "{report:#}"
    );
    assert!(!report.to_string().contains("secret"));
    assert_eq!(
        world.times_asked(""),
        asked,
        "nothing of it reached the live model"
    );
    let left = std::fs::read_dir(world.state_dir()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".rehearsal")),
        "{left:?}"
    );
    assert_eq!(world.ask("a", "echo:goes on").await, "goes on");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// Each drift shows in the conversations themselves, not only in the check.
#[tokio::test]
async fn c25_drift_shows_in_own_conversations() {
    let world = world().await;
    let daemon = world.daemon().await;
    let swap = |from: &str| json!({"from": from, "do": "swap", "name": "approvalPolicy", "values": ["on-request", "never"]});
    let request = json!({"id": 900, "method": "item/mood/requestConsent",
        "params": {"threadId": "t", "turnId": "u", "itemId": "i"}});
    for (rules, words) in [
        (
            json!([{"do": "member", "name": "clientId", "to": "clientMark"}]),
            "the history of a conversation says otherwise",
        ),
        (
            json!([{"do": "drop", "in": ["serverRequest/resolved"]}]),
            "serverRequest/resolved: it does not come any more",
        ),
        (
            json!([{"do": "add", "in": ["turn/started"], "message": request}]),
            "what a turn asks: `item/mood/requestConsent`, it was nothing",
        ),
        (
            json!([swap("bridge"), swap("codex")]),
            "what a turn asks: nothing, it was",
        ),
    ] {
        let (code, report) = rehearsed(&world, &rules).await;
        assert_eq!(code, Some(1), "{report:#}");
        assert_eq!(report["ok"], false);
        let breaks = found(&report, "changes", "breaks");
        assert!(
            breaks.iter().any(|what| what.contains(words)),
            "{words}: {report:#}"
        );
        assert!(!found(&report, "check", "breaks").is_empty(), "{report:#}");
    }
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn c25_words_say_what_to_do() {
    let world = world().await;
    let daemon = world.daemon().await;
    let codex = plant(&world, &json!([]));
    let old = native();
    let args = ["rehearse", "--codex", &codex, "--old", &old, "-n", "1"];
    let ended = world.run(&args).await;
    ended.must(0, &[]);
    assert!(
        ended.stdout.contains("1 conversations, 1 turns on each"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("can take the place of"), "{ended:?}");
    let missing = world
        .run(&["rehearse", "--codex", "/nonexistent/codex"])
        .await;
    missing.must(1, &["no codex at /nonexistent/codex"]);
    assert_eq!(daemon.stop().await, Some(0));
}
