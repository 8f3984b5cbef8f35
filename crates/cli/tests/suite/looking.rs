//! The commands that look and act by name: `ls`, `log`, `show`, `why`, `status`, `failed`, `retry`, `discard` and `stop`,
//! with what needs a person first, in words for people and in one JSON for programs.

use crate::terminal::{COLUMNS, Terminal};
use crate::world::{World, short, signal};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Sends a text and gives the id of its message.
async fn sent(world: &World, conversation: &str, text: &str) -> String {
    world.ask(conversation, text).await;
    let story = world.json(&["show", conversation, "--json"]).await;
    story["message_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_name_means_the_same_message() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let other = sent(&world, "main", "echo:one").await;
    let id = sent(&world, "review", "echo:two").await;
    for name in [&id, short(&id), &id[id.len() - 5..], "review", "last"] {
        for command in ["show", "why", "status"] {
            let ended = world.run(&[command, name]).await;
            assert_eq!(ended.code, Some(0), "{command} {name}: {ended:?}");
            assert!(ended.stdout.contains(short(&id)), "{command}: {ended:?}");
        }
        let watched = world.run(&["watch", name]).await;
        assert_eq!(watched.code, Some(0), "{name}: {watched:?}");
        assert!(watched.stdout.contains("two"), "{watched:?}");
    }
    let several = world.run(&["show", &id[..4]]).await;
    several.must(1, &["may mean any of these", short(&id), short(&other)]);
    several.must(1, &["review", "main", "done", "echo:two"]);
    let several = world.run(&["show", &id[..4], "--json"]).await;
    assert_eq!(several.code, Some(1), "{several:?}");
    let told: Value = serde_json::from_str(&several.stdout).unwrap();
    let candidates = told["error"]["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2, "{told:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn tasks_and_messages_share_commands() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let ended = world.run(&["start", "echo:slow tests"]).await;
    let id = ended.stdout.trim().to_owned();
    world.run(&["watch", &id]).await;
    let part = &id[.."codex-0000".len()];
    for command in ["show", "why", "status", "log"] {
        let ended = world.run(&[command, part]).await;
        assert_eq!(ended.code, Some(0), "{command}: {ended:?}");
        assert!(ended.stdout.contains("slow tests"), "{command}: {ended:?}");
    }
    let why = world.run(&["why", part]).await;
    assert!(why.stdout.starts_with(&format!("{id} is done")), "{why:?}");
    let none = world.run(&["why", "codex-ffff"]).await;
    none.must(1, &["nothing is called codex-ffff", "codex-bridge ls"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn what_needs_you_comes_first() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("main", "echo:hello").await;
    let text = "escal:touch asked-for ;; echo:went on";
    let mut asks = world.start(&["send", "-c", "push", text]).await;
    asks.stderr.wait_for("Codex asks").await;
    world.ask("later", "echo:newer").await;
    let requests = world.json(&["requests", "--json"]).await;
    let code = requests["requests"][0]["code"].as_str().unwrap().to_owned();
    let approve = format!("`codex-bridge approve {code}`");

    let status = world.run(&["status"]).await.stdout;
    let begins = format!("waiting for you: 1\n  Codex asks {code}: run `touch asked-for`");
    assert!(status.starts_with(&begins), "{status}");
    assert!(status.contains(&approve), "{status}");
    assert!(!status.contains("\n  working"), "{status}");
    let list = world.run(&["ls"]).await.stdout;
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("push "), "{list}");
    assert!(lines[0].contains("waiting for you"), "{list}");
    assert!(lines[2].contains(&approve), "{list}");
    assert!(
        lines[4].starts_with("later ") && lines[5].starts_with("main "),
        "{list}"
    );
    for command in ["why", "show", "log"] {
        let said = world.run(&[command, "push"]).await.stdout;
        assert!(said.contains(&approve), "{command}: {said}");
    }
    world.run(&["approve", &code]).await.must(0, &[]);
    assert_eq!(asks.ended().await.code, Some(0));
    let status = world.run(&["status"]).await.stdout;
    assert!(status.starts_with("ready: "), "{status}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn log_tells_both_sides_and_follows() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("main", "echo:first").await;
    world.ask("other", "echo:elsewhere").await;
    let log = world.run(&["log", "main"]).await.stdout;
    let at = |words: &str| log.find(words).unwrap_or_else(|| panic!("{words}: {log}"));
    assert!(at("you") < at("  echo:first") && at("  echo:first") < at("Codex"));
    assert!(at("Codex") < at("\n  first"), "{log}");
    assert!(!log.contains("elsewhere"), "{log}");
    let all = world.run(&["log"]).await.stdout;
    assert!(
        all.contains("you in other") && all.contains("you in main"),
        "{all}"
    );

    let mut follows = Terminal::run(world.command(&["log", "main", "-f"]));
    follows.screen.wait_for("first").await;
    world.ask("other", "echo:not here").await;
    world.ask("main", "echo:second").await;
    let screen = follows.screen.wait_for("\n  second").await;
    assert!(!screen.contains("not here"), "{screen}");
    crate::world::signal(follows.pid(), nix::sys::signal::Signal::SIGINT);
    assert_eq!(follows.ended().await.0, Some(130));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn failed_messages_are_retried_by_name() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let ended = world
        .run(&["send", "-c", "review", "fail:400:1 echo:after all"])
        .await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let failed = world.run(&["failed"]).await.stdout;
    assert!(
        failed.contains(" failed ") && failed.contains("in review, from you"),
        "{failed}"
    );
    let name = failed.split_whitespace().next().unwrap().to_owned();
    let why = world.run(&["why", &name]).await.stdout;
    assert!(
        why.starts_with(&format!("{name} failed in review")),
        "{why}"
    );
    assert!(
        why.contains(&format!("`codex-bridge retry {name}`")),
        "{why}"
    );
    world.run(&["retry", &name]).await.must(0, &[]);
    let watched = world.run(&["watch", "review"]).await;
    assert!(watched.stdout.contains("after all"), "{watched:?}");

    world.run(&["send", "-c", "review", "fail:400"]).await;
    let unknown = world.run(&["discard", "nobody"]).await;
    unknown.must(1, &["nothing is called nobody"]);
    world.run(&["discard", "last"]).await.must(0, &[]);
    let none = world.run(&["failed"]).await;
    assert_eq!(
        none.stdout,
        "nothing failed; `codex-bridge status` shows what else waits for you\n"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn stop_takes_names_and_senders() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let waits = world
        .start(&["send", "-c", "slow", "hold:gate echo:no"])
        .await;
    world.model.wait_held("gate").await.unwrap();
    let stopped = world.run(&["stop", "slow"]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.stdout.contains("is stopped"), "{stopped:?}");
    assert_eq!(waits.ended().await.code, Some(3));
    let nothing = world.run(&["stop", "--sender", "mallory"]).await;
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    assert_eq!(world.run(&["stop"]).await.code, Some(2));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn failures_are_json_on_stdout() {
    let world = World::new().await;
    let told = async |args: &[&str]| {
        let ended = world.run(args).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        let told: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {ended:?}"));
        told["error"].clone()
    };
    for args in [
        &["status", "--json"][..],
        &["ls", "--json"],
        &["log", "--json"],
        &["show", "last", "--json"],
        &["requests", "--json"],
        &["failed", "--json"],
        &["token", "list", "--json"],
    ] {
        let error = told(args).await;
        assert_eq!(error["title"], "no daemon", "{args:?}: {error:#}");
        assert!(error["detail"].is_string(), "{args:?}: {error:#}");
    }
    let daemon = world.daemon().await;
    for args in [
        &["show", "ffffffff", "--json"][..],
        &["why", "ffffffff", "--json"],
        &["watch", "ffffffff", "--json"],
        &["stop", "ffffffff", "--json"],
        &["status", "codex-ffff", "--json"],
        &["steer", "ffffffff", "more", "--json"],
    ] {
        assert_eq!(told(args).await["title"], "not found", "{args:?}");
    }
    assert_eq!(
        told(&["approve", "zzzzzz", "--json"]).await["title"],
        "failed"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// Every time that is printed as JSON, by the names of its keys.
fn times<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key.ends_with("_at") || ["at", "deadline", "until", "since"].contains(&&**key) {
                    found.push((key, value));
                }
                times(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| times(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn times_in_json_have_one_form() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("main", "echo:hi").await;
    let started = world.run(&["start", "--wait", "echo:task"]).await;
    assert_eq!(started.code, Some(0), "{started:?}");
    let mut seen = 0;
    for args in [
        &["show", "last", "--json"][..],
        &["ls", "--json"],
        &["log", "--json"],
        &["status", "--json"],
        &["status", "last", "--json"],
        &["list", "--json"],
        &["failed", "--json"],
    ] {
        let told = world.json(args).await;
        let mut found = Vec::new();
        times(&told, &mut found);
        for (key, value) in found {
            let text = value.as_str().unwrap_or("");
            let fits = text.len() == "2026-11-18T12:00:00.000Z".len() && text.ends_with('Z');
            assert!(fits || value.is_null(), "{args:?}: {key}: {value}");
            seen += usize::from(fits);
        }
        let words = told.to_string();
        assert!(
            !words.contains("hermes") && !words.contains("degraded"),
            "{args:?}: {words}"
        );
    }
    assert!(seen > 10, "{seen}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn nothing_is_wider_than_the_terminal() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let main = sent(
        &world,
        "main",
        &format!("echo:{}", "many words ".repeat(40)),
    )
    .await;
    let failing = format!("fail:400 {}", "and more of them ".repeat(20));
    world.run(&["send", "-c", "review", &failing]).await;
    for (args, expected) in [
        (&["ls"][..], 0),
        (&["log"], 0),
        (&["status"], 0),
        (&["status", "main"], 0),
        (&["show", "main"], 0),
        (&["show", "-v", "main"], 0),
        (&["why", "review"], 0),
        (&["failed"], 0),
        (&["doctor"], 0),
        (&["backup"], 0),
        (&["approve", "zzzzzz"], 1),
        (&["stop", "main"], 1),
        (&["retry", "main"], 1),
        (&["discard", "main"], 1),
        (&["stop", "nothing-has-this-name"], 1),
    ] {
        let mut command = world.command(args);
        command.env("NO_COLOR", "1");
        let (code, screen) = Terminal::run(command).ended().await;
        assert_eq!(code, Some(expected), "{args:?}: {screen}");
        if expected == 1 && args[1] == "main" {
            // Refusals are for people: a short id, and none of the states that programs get.
            let said = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            let begins = format!("message {} is done: it was answered", short(&main));
            assert!(said.contains(&begins), "{args:?}: {said}");
        }
        for line in screen.lines() {
            let line = without_colours(line.trim_end());
            let cells = line.chars().count();
            assert!(cells <= usize::from(COLUMNS), "{args:?}: {cells}: {line}");
        }
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn markdown_is_rendered_on_terminals_only() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("main", "echo:It is **green** now").await;
    for command in ["show", "log"] {
        let piped = world.run(&[command, "main"]).await.stdout;
        assert!(piped.contains("  It is **green** now") || piped.contains("\nIt is **green** now"));
        let (_, screen) = Terminal::run(world.command(&[command, "main"]))
            .ended()
            .await;
        let screen = without_colours(&screen);
        assert!(screen.contains("It is green now"), "{command}: {screen}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn last_is_the_whole_task_everywhere() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let started = world.run(&["start", "--wait", "echo:done"]).await;
    started.must(0, &[]);
    let tasks = world.json(&["list", "--json"]).await;
    let task = tasks["tasks"][0]["task_id"].as_str().unwrap().to_owned();
    for command in ["why", "status", "show"] {
        let said = world.run(&[command, "last"]).await.stdout;
        assert!(said.starts_with(&task), "{command}: {said}");
    }
    let late = world.run(&["stop", "last"]).await;
    late.must(1, &[]);
    assert!(
        late.stdout
            .contains("is not stopped: its answer came first"),
        "{late:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn idle_watch_says_what_it_watches() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut watch = Terminal::run(world.command(&["watch"]));
    watch
        .screen
        .wait_for("watching everything; nothing runs now")
        .await;
    world.ask("main", "echo:hello").await;
    watch.screen.wait_for("answered: hello").await;
    let said = without_colours(&watch.screen.text());
    let (before, _) = said.split_once(" main ■ answered: hello").unwrap();
    let time: Vec<_> = before[before.len() - 5..].split(':').collect();
    assert!(time.iter().all(|part| part.parse::<u8>().is_ok()), "{said}");
    signal(watch.pid(), Signal::SIGINT);
    assert_eq!(watch.ended().await.0, Some(130));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn questions_name_commands_that_work() {
    let world = World::new().await;
    let features = "[features]\ndefault_mode_request_user_input = true\n";
    world.configure_codex(&format!("{}\n{features}", world.model.codex_config()));
    let daemon = world.daemon().await;
    let question = r#"tool:request_user_input:{"questions":[{"id":"color","header":"C","question":"Which color?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} ;; echo:went on"#;
    let mut asks = world.start(&["send", "-c", "ask", question]).await;
    let id = asks.on_disk().await;
    asks.stderr.wait_for("codex-bridge respond").await;
    let requests = world.json(&["requests", "--json"]).await;
    let code = requests["requests"][0]["code"].as_str().unwrap();
    let answers = r#"{"color":"…"}"#;
    let command = format!(
        "codex-bridge respond {} {code} accept --answers '{answers}'",
        short(&id)
    );
    for args in [
        &["ls"][..],
        &["log", "ask"],
        &["status"],
        &["status", "ask"],
        &["show", "ask"],
        &["why", "ask"],
        &["requests"],
    ] {
        let said = world.run(args).await.stdout;
        assert!(said.contains(&command), "{args:?}: {said}");
        assert!(!said.contains("codex-bridge approve"), "{args:?}: {said}");
    }
    let answers = answers.replace('…', "Red");
    let respond = ["respond", short(&id), code, "accept", "--answers", &answers];
    world.run(&respond).await.must(0, &[]);
    assert_eq!(asks.ended().await.stdout, "went on\n");
    assert_eq!(daemon.stop().await, Some(0));
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once('m').map_or("", |(_, rest)| rest)
    })
}
