//! The console in Debian's chromium: types, the page against a daemon that misbehaves on demand, and a person's round over
//! the built binary with the real Codex. `crates/front/console-tests` has the tests; here they are run.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod kit;

#[path = "../suite/world.rs"]
#[allow(
    dead_code,
    reason = "the rig of the whole suite; not all of it is used here"
)]
mod world;

use kit::Kit;
use world::World;

#[tokio::test]
async fn types_fit_the_document() {
    let kit = Kit::find().await;
    let generate = "crates/front/console-types/generate.mjs";
    kit.node(&[generate, "--check"], &[]).await;
    let project = "crates/front/console-types/tsconfig.json";
    kit.tsc(&["-p", project]).await;
}

#[tokio::test]
async fn page_withstands_any_daemon() {
    let kit = Kit::find().await;
    kit.test("page.test.mjs", &[]).await;
}

#[tokio::test]
async fn browser_is_told_and_decides() {
    let kit = Kit::find().await;
    kit.test("push.test.mjs", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn person_works_from_the_browser_alone() {
    let kit = Kit::find().await;
    let world = World::new().await;
    let _daemon = world.daemon().await;
    let project = world.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let made = world.json(&["console", "--no-open", "--json"]).await;
    let said = |name: &str| made[name].as_str().unwrap().to_owned();
    let url = format!("{}#login={}", said("url"), said("code"));
    let project = project.to_str().unwrap();
    let env = [
        ("CONSOLE_URL", url.as_str()),
        ("CONSOLE_DIRECTORY", project),
    ];
    kit.test("journey.test.mjs", &env).await;
}
