//! `send` as a person meets it: at a terminal of 80 columns, with a daemon that dies, stops or asks.

use crate::terminal::{Terminal, plain};
use crate::world::World;
use nix::sys::signal::Signal;

const COLUMNS: u16 = 80;
const ASKS: &str = "escal:touch published ;; echo:published";

fn at_terminal(world: &World, args: &[&str]) -> Terminal {
    let mut command = world.command(args);
    command.env("NO_COLOR", "1");
    Terminal::wide(command, COLUMNS)
}

/// What is left on the screen: the last of what each line was overwritten with.
fn left_on(screen: &str) -> Vec<String> {
    let lines = plain(screen).replace("\r\n", "\n");
    let last = |line: &str| line.rsplit('\r').next().unwrap_or_default().to_owned();
    lines.lines().map(last).collect()
}

#[track_caller]
fn assert_fits(screen: &str) {
    let wide = left_on(screen)
        .into_iter()
        .find(|line| line.chars().count() > usize::from(COLUMNS));
    assert_eq!(wide, None, "wider than the terminal");
}

/// D3: a daemon that dies under `send` is named at once, and the answer comes after its return.
#[tokio::test]
async fn send_tells_of_dead_daemon() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut terminal = at_terminal(&world, &["send", "hold:gate echo:the answer"]);
    world.model.wait_held("gate").await.unwrap();
    terminal.screen.wait_for("works on it").await;
    daemon.kill_9().await;
    let away = "the daemon went away; waiting for it to come back (the message is safe)";
    terminal.screen.wait_for(away).await;
    terminal.screen.wait_for("waiting for the daemon").await;
    let daemon = world.daemon().await;
    terminal.screen.wait_for("the daemon is back").await;
    world.model.release("gate");
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches("went away").count(), 1, "{screen}");
    assert!(screen.contains("the answer"), "{screen}");
    assert_fits(&screen);
    assert_eq!(daemon.stop().await, Some(0));
}

/// D15: a stopping daemon surely refused; nobody need fear a double.
#[tokio::test]
async fn stopping_daemon_refuses_for_sure() {
    let world = World::new().await;
    let mut daemon = world.daemon().await;
    let first = world.start(&["send", "hold:gate echo:one"]).await;
    world.model.wait_held("gate").await.unwrap();
    daemon.terminate();
    daemon.log.wait_for("INFO stopping").await;
    let mut second = world.start(&["send", "--wait", "5", "echo:two"]).await;
    second.stderr.wait_for("the daemon is stopping").await;
    world.model.release("gate");
    assert_eq!(daemon.ended().await, Some(0));
    let ended = second.ended().await;
    ended.must(1, &["not sent:", "the daemon is stopping"]);
    assert!(!ended.stderr.contains("not known to have"), "{ended:?}");
    assert_eq!(world.times_asked("two"), 0);
    drop(first);
}

/// D2: who waited long enough, or leaves, is told that Codex waits for a decision.
#[tokio::test]
async fn open_question_is_named_at_end() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let waited = world.run(&["send", "--wait", "4", ASKS]).await;
    waited.must(75, &["waiting for you: Codex asks ", "declined in 5"]);
    assert!(!waited.stderr.contains("still working"), "{waited:?}");

    let mut terminal = at_terminal(&world, &["send", "-c", "other", ASKS]);
    let screen = terminal.screen.wait_for("l later > ").await;
    let shown = left_on(&screen).join("\n");
    assert_eq!(shown.matches("touch published").count(), 1, "{shown}");
    crate::world::signal(terminal.pid(), Signal::SIGINT);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(130), "{screen}");
    let left = left_on(&screen).join(" ");
    for words in [
        "waiting for you: Codex asks ",
        "declined in 5",
        "codex-bridge approve ",
    ] {
        assert!(left.contains(words), "{words}: {screen}");
    }
    assert_fits(&screen);
    daemon.kill_9().await;
}

/// D11: `y` and `n` mean what they say; Enter means nothing.
#[tokio::test]
async fn yes_and_no_answer_commands() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    for (key, said) in [("y\n", "you accepted"), ("n\n", "you declined")] {
        let mut terminal = at_terminal(&world, &["send", "-c", key.trim(), ASKS]);
        terminal.screen.wait_for("l later > ").await;
        terminal.types("\n");
        terminal.screen.wait_for("Enter alone decides").await;
        terminal.screen.wait_times("l later > ", 2).await;
        terminal.types(key);
        terminal.screen.wait_for(said).await;
        let (code, screen) = terminal.ended().await;
        assert_eq!(code, Some(0), "{screen}");
        assert!(!screen.contains("by local owner"), "told once: {screen}");
        assert_eq!(screen.contains("did not run"), key == "n\n", "{screen}");
        assert_fits(&screen);
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// D7: `send` says where it works and what it may do, and the first message of a conversation fixes both.
#[tokio::test]
async fn first_message_fixes_the_terms() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let project = world.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let place = project.display().to_string();
    let terms = [
        "send",
        "-c",
        "p",
        "--cwd",
        "project",
        "--sandbox",
        "read-only",
    ];
    let ask = |text| [&terms[..], &[text]].concat();
    let first = world
        .run(&ask("shell:pwd; touch x || echo refused ;; echo:ok"))
        .await;
    first.must(0, &[&format!("works in {place}, may only read")]);
    let output = world.model.requests().last().unwrap().outputs.concat();
    assert!(
        output.contains(&place) && output.contains("refused"),
        "{output}"
    );
    assert!(!project.join("x").exists());

    let again = world.run(&ask("echo:again")).await;
    again.must(0, &["works in"]);
    let plain = world.run(&["send", "-c", "p", "echo:plain"]).await;
    assert!(!plain.stderr.contains("works in"), "only once: {plain:?}");
    let other = ["send", "-c", "p", "--sandbox", "workspace-write", "echo:no"];
    let refused = world.run(&other).await;
    refused.must(1, &["not sent:", "the conversation p exists", "read-only"]);
    let unknown = [
        "send",
        "-c",
        "q",
        "--sandbox",
        "danger-full-access",
        "echo:no",
    ];
    world
        .run(&unknown)
        .await
        .must(1, &["read-only or workspace-write"]);
    assert_eq!(world.times_asked("echo:no"), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn send_takes_files_and_waits_not() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    std::fs::write(world.path().join("notes.txt"), "remember the milk").unwrap();
    let text = "shell:cat attachments/*/notes.txt ;; echo:ok";
    let sent = world
        .run(&["send", "--file", "notes.txt", "--no-wait", text])
        .await;
    sent.must(0, &["codex-bridge watch "]);
    let told = world.finished(sent.stdout.trim()).await;
    assert_eq!(told["answer"]["text"], "ok");
    let output = world.model.requests().last().unwrap().outputs.concat();
    assert!(output.contains("remember the milk"), "{output}");
    let missing = world
        .run(&["send", "--file", "nothing.txt", "echo:no"])
        .await;
    missing.must(1, &["not sent", "nothing.txt"]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// D10: what a command wrote, its exit code, the time and the tokens; Markdown is rendered on a terminal alone.
#[tokio::test]
async fn terminal_shows_output_and_tokens() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let text = "usage:3000:402 shell:echo one; echo 'two words'; exit 7 ;; usage:3000:402 echo:**done** `now`";
    let terminal = at_terminal(&world, &["send", text]);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    let left = left_on(&screen).join("\n");
    for words in [
        "✗ ran ",
        "(exit code 7)",
        "│ one",
        "│ two words",
        " tokens",
        "done now",
    ] {
        assert!(left.contains(words), "{words}: {left}");
    }
    assert!(screen.contains("Codex works on it"), "{screen}");
    assert!(!left.contains("Codex works on it"), "it is cleared: {left}");
    assert_fits(&screen);
    let piped = world.run(&["send", "echo:**done** `now`"]).await;
    assert_eq!(piped.stdout, "**done** `now`\n");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Whoever has no daemon is offered one at a terminal, and told elsewhere.
#[tokio::test]
async fn send_offers_to_start_daemon() {
    let world = World::new().await;
    let told = world.run(&["send", "echo:hi"]).await;
    told.must(1, &["not sent:", "no daemon runs", "codex-bridge run"]);
    let mut terminal = at_terminal(&world, &["send", "echo:hi"]);
    terminal.screen.wait_for("start one now? [y/N] ").await;
    terminal.types("\n");
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(1), "{screen}");

    let mut terminal = at_terminal(&world, &["send", "echo:hello there"]);
    terminal.screen.wait_for("start one now? [y/N] ").await;
    terminal.types("y\n");
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        left_on(&screen).contains(&"hello there".to_owned()),
        "{screen}"
    );
    let status = world.json(&["status", "--json"]).await;
    let pid = i32::try_from(
        status["health"]["pid"]
            .as_i64()
            .unwrap_or_else(|| panic!("{status}")),
    )
    .unwrap();
    assert!(world.state_dir().join("daemon.log").exists());
    crate::world::signal(pid, Signal::SIGTERM);
    crate::world::gone(pid).await;
}
