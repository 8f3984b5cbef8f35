//! `--json` is one language: every command prints one value that fits its published schema, streams print one per line, and
//! every failure has one form and the exit code that it has without `--json`.

use crate::json_schema::{commands, must_fit};
use crate::world::{Daemon, Ended, World, signal, within};
use bridge_sim::PeerAgent;
use nix::sys::signal::Signal::SIGINT;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

/// Commands whose outputs are tried elsewhere: in `drill.rs`, in `ledger_copy.rs`, and where several daemons share a database.
const ELSEWHERE: [&str; 6] = [
    "drill",
    "ledger copy",
    "move",
    "node activate",
    "node drain",
    "rehearse",
];

/// A world whose commands are asked for JSON, and what was asked so far.
struct Asked {
    world: World,
    tried: BTreeSet<String>,
}

impl Asked {
    async fn new() -> (Self, Daemon) {
        let world = World::new().await;
        let daemon = world.daemon().await;
        let tried = BTreeSet::new();
        (Self { world, tried }, daemon)
    }

    /// What a command prints: one value of this form.
    async fn prints(&mut self, form: &str, args: &[&str]) -> Value {
        let ended = self.world.run(&with_json(args)).await;
        self.fits(form, &ended)
    }

    fn fits(&mut self, form: &str, ended: &Ended) -> Value {
        let value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{form}: {error}: {ended:?}"));
        must_fit(form, &value);
        self.tried.insert(form.to_owned());
        value
    }
}

/// `--json` in front of what follows a `--`.
fn with_json<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let at = args.iter().position(|arg| *arg == "--");
    let mut args = args.to_vec();
    args.insert(at.unwrap_or(args.len()), "--json");
    args
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}"))
}

/// A command that goes on, line by line.
struct Stream {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stream {
    fn of(world: &World, args: &[&str]) -> Self {
        let mut child = world.command(args).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn next(&mut self) -> Value {
        let line = within("a line", self.lines.next_line()).await.unwrap();
        let line = line.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Ctrl-C; gives the exit code.
    async fn leave(mut self) -> Option<i32> {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        signal(pid, SIGINT);
        within("the end of a stream", self.child.wait())
            .await
            .unwrap()
            .code()
    }
}

#[tokio::test]
async fn outputs_fit_their_schemas() {
    let (mut asked, daemon) = Asked::new().await;
    talks(&mut asked).await;
    decides(&mut asked).await;
    stops(&mut asked).await;
    fails(&mut asked).await;
    manages(&mut asked).await;
    streams(&mut asked).await;
    assert_eq!(daemon.stop().await, Some(0));
    keeps_a_codex(&asked.world);
    let back = asked.prints("upgrade-codex", &["upgrade-codex", "--rollback"]);
    assert_eq!(back.await["outcome"], "at_next_start");
    let sound = asked.prints("recover", &["recover"]).await;
    assert_eq!(sound["outcome"], "sound");
    let backup = asked.prints("backup", &["backup"]).await;
    std::fs::remove_file(asked.world.state_dir().join("ledger.db")).unwrap();
    let again = ["recover", "--from", text(&backup["path"])];
    let again = asked.prints("recover", &again).await;
    assert_eq!(again["outcome"], "recovered");
    let all = commands();
    let left: Vec<_> = all.difference(&asked.tried).collect();
    assert_eq!(left, ELSEWHERE, "every schema is tried");
}

/// An earlier Codex that worked, as the daemon remembers it.
fn keeps_a_codex(world: &World) {
    let directory = world.state_dir().join("codex");
    let copy = directory.join("copy");
    let record = json!({"kept": [{"version": "0.165.0", "digest": "d", "codex": copy}]});
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(&copy, "").unwrap();
    std::fs::write(directory.join("record.json"), record.to_string()).unwrap();
}

async fn talks(asked: &mut Asked) {
    let sent = asked.prints("send", &["send", "echo:hi"]).await;
    assert_eq!(sent["answer"]["text"], "hi");
    let kept = ["send", "--no-wait", "-c", "b", "echo:hi"];
    let kept = asked.prints("send", &kept).await;
    asked.world.finished(text(&kept["message_id"])).await;
    asked.prints("lend", &["lend", "--print", "b"]).await;
    asked.prints("return", &["return", "b"]).await;
    let waits = asked.prints("start", &["start", "--wait", "echo:t"]).await;
    assert_eq!(waits["task"]["status"], "completed", "{waits:#}");
    let task = text(&waits["task"]["task_id"]).to_owned();
    asked.prints("status ID", &["status", &task]).await;
    for (form, args) in [
        ("ls", &["ls"][..]),
        ("log", &["log"]),
        ("show", &["show", "last"]),
        ("why", &["why", "b"]),
        ("status", &["status"]),
        ("status ID", &["status", "last"]),
        ("list", &["list"]),
        ("node list", &["node", "list"]),
        ("notify-completed", &["notify-completed", "--dry-run"]),
    ] {
        asked.prints(form, args).await;
    }
    let peer = PeerAgent::start().await.unwrap();
    let url = peer.url();
    let call = ["call", &url, "hi", "--allow-private"];
    let answer = asked.prints("call", &call).await;
    assert_eq!(answer["text"], "you said: hi");
}

async fn decides(asked: &mut Asked) {
    for (form, conversation) in [("approve", "x"), ("decline", "y"), ("respond", "z")] {
        let file = format!("escal:touch asked-{form} ;; echo:went on");
        let args = ["send", "-c", conversation, &file];
        let mut sends = asked.world.start(&args).await;
        sends.stderr.wait_for("Codex asks").await;
        let open = asked.prints("requests", &["requests"]).await;
        let code = text(&open["requests"][0]["code"]).to_owned();
        match form {
            "respond" => {
                let args = ["respond", conversation, &code, "accept"];
                asked.prints(form, &args).await
            }
            _ => asked.prints(form, &[form, &code]).await,
        };
        assert_eq!(sends.ended().await.code, Some(0));
    }
    asked.prints("requests", &["requests", "--all"]).await;
}

async fn stops(asked: &mut Asked) {
    let task = asked.prints("start", &["start", "hold:task echo:t"]).await;
    let task = text(&task["task"]["task_id"]).to_owned();
    asked.world.model.wait_held("task").await.unwrap();
    asked.prints("steer", &["steer", &task, "echo:more"]).await;
    asked.prints("stop TASK", &["stop", &task]).await;
    let held = ["send", "-c", "held", "hold:message echo:no"];
    let held = asked.world.start(&with_json(&held)).await;
    asked.world.model.wait_held("message").await.unwrap();
    let stopped = asked.prints("stop", &["stop", "held"]).await;
    assert_eq!(stopped["outcome"], "cancelled");
    let held = held.ended().await;
    assert_eq!(held.code, Some(3), "{held:?}");
    asked.fits("send", &held);
    let late = asked.prints("stop", &["stop", "held"]).await;
    assert_eq!(late["outcome"], "too_late");
    let sender = ["stop", "--sender", "mallory"];
    asked.prints("stop --sender", &sender).await;
}

async fn fails(asked: &mut Asked) {
    let again = ["send", "-c", "again", "fail:400:1 echo:after all"];
    let failed = asked.prints("send", &again).await;
    assert_eq!(failed["phase"], "failed");
    asked.prints("failed", &["failed"]).await;
    asked.prints("retry", &["retry", "again"]).await;
    asked.world.finished(text(&failed["message_id"])).await;
    let good = asked.prints("retry", &["retry", "again", "nobody"]).await;
    assert_eq!(good["refused"].as_array().unwrap().len(), 2, "{good:#}");
    asked.prints("send", &["send", "fail:400"]).await;
    let all = ["discard", "--all"];
    let not = asked.prints("error", &all).await;
    assert_eq!(not["error"]["title"], "not confirmed", "{not:#}");
    let gone = asked
        .prints("discard", &["discard", "--all", "--yes"])
        .await;
    assert_eq!(gone["dropped"].as_array().unwrap().len(), 1, "{gone:#}");
}

async fn manages(asked: &mut Asked) {
    let token = ["token", "add", "ci", "--scope", "read"];
    for (form, args) in [
        ("token add", &token[..]),
        ("token list", &["token", "list"]),
        ("token revoke", &["token", "revoke", "ci"]),
        ("peers add", &["peers", "add", "planner"]),
        ("peers list", &["peers", "list"]),
        ("peers revoke", &["peers", "revoke", "planner"]),
        ("console", &["console"]),
        ("reload", &["reload"]),
        ("config check", &["config", "check"]),
        ("doctor", &["doctor"]),
        ("backup", &["backup"]),
        ("audit", &["audit", "--verify"]),
    ] {
        asked.prints(form, args).await;
    }
    let explain = ["policy", "explain", "--tier", "tool", "--", "git", "push"];
    asked.prints("policy explain", &explain).await;
    let key = ["audit", "--public-key"];
    let key = asked.prints("audit --public-key", &key).await;
    let key = text(&key["public_key"]).to_owned();
    let mut acts = asked.prints("audit", &["audit"]).await;
    assert!(acts["entries"][0]["at"].is_string(), "{acts:#}");
    let file = asked.world.path().join("acts.json");
    let path = file.to_str().unwrap().to_owned();
    let verify = ["audit", "--verify", "--public-key", &key, "--file", &path];
    for ok in [true, false] {
        std::fs::write(&file, acts.to_string()).unwrap();
        let found = asked.prints("audit", &verify).await;
        assert_eq!(found["ok"], ok, "{found:#}");
        assert_eq!(found["signature_verified"], true, "{found:#}");
        acts["entries"][0]["actor"] = "bob".into();
    }
}

async fn streams(asked: &mut Asked) {
    for (form, args) in [
        ("watch", &["watch", "last", "--json"][..]),
        ("watch", &["watch", "--json"]),
        ("log --follow", &["log", "-f", "--json"]),
        ("status --watch", &["status", "--watch", "--json"]),
    ] {
        let mut stream = Stream::of(&asked.world, args);
        must_fit(form, &stream.next().await);
        asked.tried.insert(form.to_owned());
        if args.contains(&"last") {
            let ended = asked.world.run(args).await;
            assert!(ended.stdout.lines().count() > 0, "{ended:?}");
            for line in ended.stdout.lines() {
                must_fit(form, &serde_json::from_str(line).unwrap());
            }
        } else {
            assert_eq!(stream.leave().await, Some(130), "{args:?}");
        }
    }
}

/// Every command that needs a daemon.
const NEED_A_DAEMON: [&[&str]; 30] = [
    &["send", "hi"],
    &["start", "hi"],
    &["start", "--wait", "hi"],
    &["steer", "last", "more"],
    &["stop", "last"],
    &["stop", "--sender", "mallory"],
    &["ls"],
    &["log"],
    &["log", "-f"],
    &["show", "last"],
    &["why", "last"],
    &["watch"],
    &["watch", "last"],
    &["status"],
    &["status", "last"],
    &["status", "--watch"],
    &["list"],
    &["requests"],
    &["approve", "abcdef"],
    &["decline", "abcdef"],
    &["respond", "last", "abcdef", "accept"],
    &["failed"],
    &["retry", "last"],
    &["discard", "last"],
    &["notify-completed"],
    &["reload"],
    &["token", "list"],
    &["token", "revoke", "x"],
    &["peers", "add", "x"],
    &["peers", "list"],
];

/// How a command fails as JSON; it has the exit code that it has without.
async fn failure(world: &World, args: &[&str]) -> Value {
    let plain = world.run(args).await;
    let ended = world.run(&with_json(args)).await;
    assert_ne!(ended.code, Some(0), "{args:?}: {ended:?}");
    assert_eq!(ended.code, plain.code, "{args:?}: {ended:?} {plain:?}");
    assert_eq!(ended.stdout.lines().count(), 1, "{args:?}: {ended:?}");
    assert_eq!(ended.stderr, "", "{args:?}");
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    must_fit("error", &value);
    value["error"].clone()
}

#[tokio::test]
async fn failures_have_one_form() {
    let world = World::new().await;
    for args in NEED_A_DAEMON {
        let error = failure(&world, args).await;
        assert_eq!(error["title"], "no daemon", "{args:?}: {error:#}");
    }
    let explain = ["policy", "explain", "--tier", "owner"];
    for (title, args) in [
        ("failed", &["backup"][..]),
        ("failed", &["recover"]),
        ("failed", &["audit", "--public-key"]),
        ("failed", &["audit", "--verify", "--public-key"]),
        ("failed", &["call", "http://127.0.0.1:1", "hi"]),
        ("failed", &["drill", "--codex-bin", "/nonexistent"]),
        ("failed", &explain),
    ] {
        let error = failure(&world, args).await;
        assert_eq!(error["title"], title, "{args:?}: {error:#}");
    }
    std::fs::write(world.config_file(), "log.level = 3\nx = 1\n").unwrap();
    for args in [&["config", "check"][..], &explain] {
        let error = failure(&world, args).await;
        assert_eq!(error["title"], "configuration", "{args:?}: {error:#}");
        assert_eq!(error["problems"][1]["line"], 2, "{args:?}: {error:#}");
    }
    let unwell = world.run(&["doctor", "--json"]).await;
    assert_eq!(unwell.code, Some(1), "{unwell:?}");
    must_fit("doctor", &serde_json::from_str(&unwell.stdout).unwrap());
}

#[tokio::test]
async fn misuse_is_told_without_usage() {
    let world = World::new().await;
    for (args, detail) in [
        (
            &["show"][..],
            "the following required arguments were not provided:\n  <ID>",
        ),
        (&["send", "--quite"], "unexpected argument '--quite' found"),
        (
            &["no-such-command"],
            "unrecognized subcommand 'no-such-command'",
        ),
        (
            &["start", "--task-id", "codex-1"],
            "unexpected argument '--task-id' found",
        ),
    ] {
        let error = failure(&world, args).await;
        assert_eq!(error["title"], "usage", "{args:?}: {error:#}");
        assert_eq!(error["detail"], detail, "{args:?}: {error:#}");
    }
    let text = world.run(&["show", "--quite", "--", "--json"]).await;
    text.must(2, &["--quite"]);
    assert_eq!(text.stdout, "", "a text is no flag");
}

#[tokio::test]
async fn refusals_have_one_form() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    for (title, args) in [
        ("not found", &["show", "ffffffff"][..]),
        ("not found", &["why", "ffffffff"]),
        ("not found", &["watch", "ffffffff"]),
        ("not found", &["log", "nothing"]),
        ("not found", &["stop", "ffffffff"]),
        ("not found", &["status", "codex-ffff"]),
        ("not found", &["status", "codex-ffffffffffff"]),
        ("not found", &["steer", "ffffffff", "more"]),
        ("not found", &["peers", "revoke", "nobody"]),
        ("not found", &["token", "revoke", "nobody"]),
        ("not a name", &["token", "revoke", "../x"]),
        ("failed", &["approve", "zzzzzz"]),
    ] {
        let error = failure(&world, args).await;
        assert_eq!(error["title"], title, "{args:?}: {error:#}");
        let told = error["detail"].as_str().unwrap();
        assert!(!told.is_empty(), "{args:?}: {error:#}");
    }
    std::fs::write(world.config_file(), "x = 1\n").unwrap();
    let error = failure(&world, &["reload"]).await;
    assert_eq!(error["title"], "configuration", "{error:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Whoever leaves, or waits no longer, is told what goes on.
#[tokio::test]
async fn leaving_tells_what_goes_on() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    for (gate, command) in [("a", "send"), ("b", "start")] {
        let held = format!("hold:{gate} echo:x");
        let args: &[&str] = match command {
            "send" => &["send", "-c", gate, &held, "--json"],
            _ => &["start", "--wait", &held, "--json"],
        };
        let waits = world.start(args).await;
        world.model.wait_held(gate).await.unwrap();
        signal(waits.pid(), SIGINT);
        let left = waits.ended().await;
        assert_eq!(left.code, Some(130), "{left:?}");
        let left: Value = serde_json::from_str(&left.stdout).unwrap();
        must_fit("error", &left);
        assert_eq!(left["error"]["title"], "left", "{left:#}");
        let id = text(&left["error"]["id"]);
        world.model.release(gate);
        let watched = world.run(&["watch", id, "--json"]).await;
        assert_eq!(watched.code, Some(0), "{watched:?}");
    }
    let waits = ["send", "--wait", "1", "-c", "c", "hold:c echo:x", "--json"];
    let waits = world.run(&waits).await;
    assert_eq!(waits.code, Some(75), "{waits:?}");
    must_fit("send", &serde_json::from_str(&waits.stdout).unwrap());
    let peer = PeerAgent::start().await.unwrap();
    let url = peer.url();
    let call = [
        "call",
        &url,
        "hold:gate x",
        "--allow-private",
        "--wait",
        "1",
    ];
    let late = failure(&world, &[&call[..], &["-q"]].concat()).await;
    assert_eq!(late["title"], "not yet", "{late:#}");
    assert_eq!(late["id"], "task-1", "{late:#}");
    world.model.release("c");
    assert_eq!(daemon.stop().await, Some(0));
}

/// While the daemon is away, `status --watch` says so in the same form, and goes on when it is back.
#[tokio::test]
async fn status_lines_stay_json_without_daemon() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut stream = Stream::of(&world, &["status", "--watch", "--json"]);
    must_fit("status --watch", &stream.next().await);
    assert_eq!(daemon.stop().await, Some(0));
    let away = until(&mut stream, |line| line.get("error").is_some()).await;
    must_fit("error", &away);
    assert_eq!(away["error"]["title"], "no daemon", "{away:#}");
    let daemon = world.daemon().await;
    until(&mut stream, |line| line["health"]["ready"] == json!(true)).await;
    assert_eq!(stream.leave().await, Some(130));
    assert_eq!(daemon.stop().await, Some(0));
}

/// The first line of this kind.
async fn until(stream: &mut Stream, is_it: impl Fn(&Value) -> bool) -> Value {
    let found = async {
        loop {
            let line = stream.next().await;
            if is_it(&line) {
                return line;
            }
        }
    };
    within("a line of this kind", found).await
}
