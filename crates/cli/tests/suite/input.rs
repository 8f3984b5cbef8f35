//! Texts that people and programs really send: empty, huge, full of dashes, escapes and bytes that are no text.
//! Each is taken whole or refused at the door with the reason; nothing a text holds is obeyed.

use crate::world::{World, outside_every_sandbox, processes_with};
use serde_json::Value;

/// Codex's limit, and so ours.
const MESSAGE_MAX_CHARS: usize = 1_048_576;

/// Colours, a title, the clipboard, a hyperlink, a cursor move, a reversed reading direction, a hidden character.
const NASTY: &str = "\u{1b}[31mred\u{1b}]0;title\u{7}\u{1b}]52;c;aGk=\u{7}\u{1b}]8;;http://x\u{1b}\\ \u{9b}2J a\rb exe\u{202e}fdp \u{200b}\u{7f}";

async fn messages(world: &World) -> u64 {
    let status = world.json(&["status", "--json"]).await;
    let counts = status["counts"].as_object().unwrap();
    counts.values().filter_map(Value::as_u64).sum()
}

#[tokio::test]
async fn rejects_invalid_input_storing_nothing() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let long_key = "k".repeat(201);
    for (key, says) in [
        ("", "is empty"),
        ("a\nb", "control characters"),
        (long_key.as_str(), "longer than 200 characters"),
    ] {
        let ended = world.run(&["send", "-c", key, "echo:hi"]).await;
        ended.must(1, &["the conversation key", says]);
    }
    let mut too_long = "x".repeat(MESSAGE_MAX_CHARS + 1);
    let far_too_long = "\u{1f600}".repeat(MESSAGE_MAX_CHARS + 1);
    for (input, says) in [
        (
            &b"a\0b"[..],
            &["a NUL character at position 1", "send again"][..],
        ),
        (b"caf\xe9", &["not UTF-8 text (byte 3)", "iconv"]),
        (too_long.as_bytes(), &["1048577", "1048576", "in a file"]),
        (
            far_too_long.as_bytes(),
            &["more than 4194304 bytes", "1048576"],
        ),
    ] {
        let ended = world.run_with_input(&["send", "-"], input).await;
        ended.must(1, says);
        assert_eq!(ended.stdout, "");
    }
    assert_eq!(messages(&world).await, 0, "nothing was taken in");
    assert_eq!(world.model.requests(), []);

    too_long.truncate(MESSAGE_MAX_CHARS);
    too_long.replace_range(..8, "echo:ok ");
    let ended = world
        .run_with_input(&["send", "-"], too_long.as_bytes())
        .await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout.len(), MESSAGE_MAX_CHARS - "echo:".len() + 1);
    assert_eq!(world.shown_with("echo:ok"), [too_long]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn empty_message_is_answered_without_turn() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    for args in [&["send", ""][..], &["send", "--", " \t\n"], &["send", "-"]] {
        let ended = world.run(args).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stdout.trim(), "(empty prompt — nothing to do)");
    }
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["counts"]["done"], 3, "{status:#}");
    assert_eq!(status["counts"]["dead"], Value::Null, "{status:#}");
    assert_eq!(world.model.requests(), []);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Threat 7: a text that looks like an option is a text behind `--`, for us and for Codex, and refused without it.
#[tokio::test]
async fn threat_7_option_like_text_stays_text() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let marked = format!("--mark-{}", std::process::id());
    let unknown = [
        "--dangerously-bypass-approvals-and-sandbox",
        "-s danger-full-access",
        "-1",
        marked.as_str(),
    ];
    for text in unknown {
        world.run(&["send", text]).await.must(2, &["unexpected"]);
    }
    let misspelt = world.run(&["send", "--quite"]).await;
    misspelt.must(2, &["a similar argument exists: '--quiet'"]);
    assert_eq!(world.model.requests(), []);
    let ours = ["--help", "-q", "--json", "-V", "--wait=1", "--"];
    let mut sent = Vec::new();
    for text in unknown.iter().chain(&ours) {
        let ended = world.run(&["send", "--", text]).await;
        assert_eq!(ended.code, Some(0), "{text:?}: {ended:?}");
        sent.push((*text).to_owned());
        let seen = world.model.requests();
        assert_eq!(seen.last().unwrap().users, sent, "as it was, and only once");
    }
    assert_eq!(processes_with(&marked), [], "no text in a command line");

    let outside = outside_every_sandbox();
    let file = outside.path().join("escaped");
    let text = format!("shell:touch {} || echo refused ;; echo:ok", file.display());
    assert_eq!(world.ask("main", &text).await, "ok");
    let requests = world.model.requests();
    let output = requests.last().unwrap().outputs.concat();
    assert!(output.contains("refused"), "the sandbox holds: {output}");
    assert!(!file.exists());
    assert_eq!(daemon.stop().await, Some(0));
}

/// Threat 20: what a text or an answer holds is shown, not obeyed; programs get it as it is.
#[tokio::test]
async fn threat_20_cli_escapes_messages_and_answers() {
    let world = World::new().await;
    let mut daemon = world.daemon().await;
    let text = format!("echo:{NASTY}");
    let ended = world
        .run_with_input(&["send", "-c", "a", "-"], text.as_bytes())
        .await;
    ended.must(0, &["is on disk"]);
    let told = world
        .run_with_input(&["send", "-c", "a", "--json", "-"], text.as_bytes())
        .await;
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["text"], text);
    assert_eq!(told["answer"]["text"], NASTY);
    let id = told["message_id"].as_str().unwrap();
    let shown = world.run(&["show", id]).await;
    // What Codex does with a command that holds escapes is on stderr, and in the log if it fails.
    let shell = format!("shell:echo '{NASTY}' ;; echo:ok");
    let progress = world
        .run_with_input(&["send", "-c", "a", "-"], shell.as_bytes())
        .await;
    assert!(progress.stderr.contains("running"), "{progress:?}");
    daemon.terminate();
    let log = daemon.log.wait_for("stopped").await;
    for (what, said) in [
        ("send", &ended.stdout),
        ("send's progress", &ended.stderr),
        ("show", &shown.stdout),
        ("a command's progress", &progress.stderr),
        ("the log", &log),
    ] {
        let obeyed = |c: char| {
            (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}' | '\u{9b}')
        };
        assert!(!said.contains(obeyed), "{what}: {said:?}");
    }
    assert!(ended.stdout.contains("\\e]52;c;aGk=\\u{7}"), "{ended:?}");
    assert!(shown.stdout.matches("\\u{202e}").count() >= 2, "{shown:?}");
    assert_eq!(daemon.ended().await, Some(0));
}

/// A reader that leaves early is no crash, and one that can't take the answer is told where it is.
#[tokio::test]
async fn send_survives_closed_or_full_stdout() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let send = |to: std::process::Stdio| {
        let mut command = world.command(&["send", "big:300000"]);
        command.stdout(to);
        crate::world::Running::of(command)
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = send(writer.into()).ended().await;
    ended.must(0, &["is on disk"]);
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let ended = send(full.into()).ended().await;
    ended.must(1, &["could not be printed"]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// N11: a daemon whose log nobody reads any more works on.
#[tokio::test]
async fn n11_daemon_survives_closed_stderr() {
    let world = World::new().await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = world.command(&["run"]);
    command.stderr(writer);
    let mut daemon = command.spawn().unwrap();
    let socket = world.state_dir().join("api.sock");
    let mut look = tokio::time::interval(std::time::Duration::from_millis(5));
    crate::world::within("the daemon's socket", async {
        while !socket.exists() {
            look.tick().await;
        }
    })
    .await;
    assert_eq!(world.ask("a", "echo:still here").await, "still here");
    let pid = i32::try_from(daemon.id().unwrap()).unwrap();
    crate::world::signal(pid, nix::sys::signal::Signal::SIGTERM);
    let ended = crate::world::within("its end", daemon.wait())
        .await
        .unwrap();
    assert_eq!(ended.code(), Some(0));
    assert_eq!(world.processes(), []);
}
