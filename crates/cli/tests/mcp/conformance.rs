//! The official conformance suite's server scenarios that need no fixtures, against a running daemon. Which are left
//! out, and why, is in docs/guides/mcp.md.

use crate::http::Served;
use crate::kit::Kit;
use crate::world::World;
use serde_json::Value;
use std::path::Path;

/// Puts the token on every request: the suite itself knows none.
const BEARER: &str = include_str!("fixtures/bearer.mjs");

/// The scenarios, with the revisions of the protocol that each is run for.
const SCENARIOS: [(&str, &[&str]); 12] = [
    ("server-initialize", &["2025-11-25"]),
    ("server-session-lifecycle", &["2025-11-25"]),
    ("ping", &["2025-11-25"]),
    ("tools-list", &["2025-11-25", "2026-07-28"]),
    ("resources-list", &["2025-11-25", "2026-07-28"]),
    ("dns-rebinding-protection", &["2025-11-25", "2026-07-28"]),
    ("server-sse-polling", &["2025-11-25"]),
    ("server-sse-multiple-streams", &["2025-11-25", "2026-07-28"]),
    ("caching", &["2026-07-28"]),
    ("http-header-validation", &["2026-07-28"]),
    ("sep-2164-resource-not-found", &["2026-07-28"]),
    ("server-stateless", &["2026-07-28"]),
];

/// Checks that do not apply: four call a tool by name that only a server made for the suite has, and one wants an answer
/// to `prompts/list`, which another one forbids to a server without prompts.
const NOT_FOR_US: [&str; 5] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
    "sep-2549-prompts-list-caching-hints",
];

#[tokio::test]
async fn the_scenarios_that_apply_pass() {
    let (world, kit) = (World::new().await, Kit::find());
    let served = Served::by(&world).await;
    let preload = world.path().join("bearer.mjs");
    std::fs::write(&preload, BEARER).unwrap();
    let mut wrong = Vec::new();
    for (scenario, revisions) in SCENARIOS {
        for revision in revisions {
            let out = world.path().join(format!("{scenario}-{revision}"));
            let paths = [preload.display().to_string(), out.display().to_string()];
            let args = [
                "server",
                "--url",
                &served.url,
                "--scenario",
                scenario,
                "--spec-version",
                revision,
                "-o",
                &paths[1],
            ];
            let ended = kit
                .conformance(world.path(), &paths[0], &world.owner_token().await, &args)
                .await;
            let checks = checks_in(&out);
            let passed = checks
                .iter()
                .filter(|check| check["status"] == "SUCCESS")
                .count();
            let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
            let failed: Vec<_> = failed
                .filter(|check| !NOT_FOR_US.iter().any(|id| check["id"] == *id))
                .map(|check| format!("{}: {}", check["id"], check["errorMessage"]))
                .collect();
            println!(
                "{scenario} {revision}: {passed} passed, {} failed",
                failed.len()
            );
            if passed == 0 || !failed.is_empty() {
                wrong.push(format!(
                    "{scenario} {revision}: {passed} passed; {failed:#?}\n{}",
                    ended.stderr
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(served.daemon.stop().await, Some(0));
}

/// What the suite wrote down: one directory per scenario, with `checks.json`.
fn checks_in(out: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(out) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("checks.json")).ok())
        .flat_map(|text| serde_json::from_slice::<Vec<Value>>(&text).unwrap())
        .collect()
}
