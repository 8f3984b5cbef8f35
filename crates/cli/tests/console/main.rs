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
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::TcpListener;
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

#[tokio::test]
async fn firefox_signs_in_and_decides() {
    let kit = Kit::find().await;
    let smoke = "crates/front/console-tests/firefox-smoke.mjs";
    kit.node(&[smoke], &[]).await;
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

/// The built binary and its places, for a test that starts daemons and commands itself.
fn command(world: &World) -> String {
    let command = world.command(&[]);
    let command = command.as_std();
    let text = |part: &OsStr| part.to_str().unwrap().to_owned();
    let argv: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(text)
        .collect();
    let env: BTreeMap<_, _> = command
        .get_envs()
        .filter_map(|(name, value)| Some((text(name), text(value?))))
        .collect();
    json!({"argv": argv, "env": env}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemon_loses_the_page_nothing() {
    let kit = Kit::find().await;
    // The usual port may be another daemon's, and then a start chooses any other: the page could not follow.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let world = World::with_settings(&format!("http.listen = \"{listen}\"\n")).await;
    let command = command(&world);
    let env = [("CONSOLE_COMMAND", command.as_str())];
    kit.test("restart.test.mjs", &env).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn phone_decides_two_hundred_questions() {
    let kit = Kit::find().await;
    let world = World::with_settings("daemon.turns_max = 64\n").await;
    let _daemon = world.daemon().await;
    for n in 0..200 {
        let cwd = world.path().join(format!("q{n}"));
        std::fs::create_dir(&cwd).unwrap();
        let prompt = format!("escal:touch q{n} ;; echo:done");
        let cwd = cwd.to_str().unwrap();
        let begun = world.run(&["start", "--cwd", cwd, &prompt]).await;
        begun.must(0, &[]);
    }
    let command = command(&world);
    let env = [
        ("CONSOLE_COMMAND", command.as_str()),
        ("CONSOLE_QUESTIONS", "200"),
    ];
    kit.test("crowd.test.mjs", &env).await;
}
