//! A conversation in Codex's own terminal: the built binary and the real terminal in tmux, or another Codex in its place.
//! Messages wait meanwhile, and know afterwards what was said there.

use crate::foreign::Foreign;
use crate::world::{Ended, World, gone, within};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;

/// A command in a terminal of tmux, which draws its screen.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    async fn run(world: &World, command: Command) -> Self {
        let settings = world.path().join("tmux.conf");
        std::fs::write(&settings, "set -g remain-on-exit on\n").unwrap();
        let tmux = Self {
            socket: world.path().join("tmux.sock"),
        };
        let command = command.as_std();
        let mut all = tmux.command();
        all.arg("-f").arg(settings);
        all.args(["new-session", "-d", "-x", "110", "-y", "40"]);
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                let mut set = name.to_owned();
                set.push("=");
                set.push(value);
                all.arg("-e").arg(set);
            }
        }
        all.arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        assert!(all.status().await.unwrap().success());
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket);
        command
    }

    async fn says(&self, args: &[&str]) -> String {
        let said = self.command().args(args).output().await.unwrap();
        String::from_utf8(said.stdout).unwrap()
    }

    /// Waits until the screen holds a text.
    async fn shows(&self, text: &str) {
        let mut look = tokio::time::interval(Duration::from_millis(50));
        let seen = async {
            while !self.says(&["capture-pane", "-p"]).await.contains(text) {
                look.tick().await;
            }
        };
        within(&format!("{text:?} on the screen"), seen).await;
    }

    /// Types a line, and sends it once it is on the screen: what comes all at once is taken for a paste.
    async fn types(&self, line: &str) {
        self.says(&["send-keys", "-l", line]).await;
        self.shows(&format!("› {line}")).await;
        self.says(&["send-keys", "Enter"]).await;
    }

    /// Waits until the command has ended well.
    async fn ended(&self) {
        self.shows("Pane is dead (status 0").await;
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut end = std::process::Command::new("tmux");
        let _gone = end.arg("-S").arg(&self.socket).arg("kill-server").status();
    }
}

fn assert_answered(ended: &Ended, answer: &str) {
    let said = (ended.code, ended.stdout.trim_end());
    assert_eq!(said, (Some(0), answer), "{ended:?}");
}

/// What the record of a conversation says, oldest first: who, what, and the answer.
async fn logged(world: &World, conversation: &str) -> Vec<[String; 3]> {
    let log = world.json(&["log", "--json", conversation]).await;
    let messages = log["messages"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages
        .map(|one| {
            let answer = text(&one["answer"]["text"]);
            [text(&one["sender"]), text(&one["text"]), answer]
        })
        .collect()
}

/// Calls `lend` as the command does, for so many seconds.
async fn lend_for(world: &World, conversation: &str, seconds: u64) -> Value {
    let body = json!({"loan_id": "l1", "for_secs": seconds}).to_string();
    let call = format!(
        "POST /v1/conversations/{conversation}/lend HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let socket = world.state_dir().join("api.sock");
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(call.as_bytes()).await.unwrap();
    let mut said = String::new();
    within("the answer to lend", stream.read_to_string(&mut said))
        .await
        .unwrap();
    serde_json::from_str(said.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The thread of a conversation's newest message.
async fn thread_of(world: &World, conversation: &str) -> String {
    let shown = world.json(&["show", "--json", conversation]).await;
    shown["thread_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn terminal_turns_join_the_conversation() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    let tmux = Tmux::run(&world, world.command(&["open", "a"])).await;
    tmux.shows("• first").await;
    tmux.types("echo:said there").await;
    tmux.shows("• said there").await;
    let mut send = world.start(&["send", "-c", "a", "echo:meanwhile"]).await;
    let id = send.on_disk().await;
    let why = world.run(&["why", &id]).await;
    assert!(why.stdout.contains("lent to local owner"), "{why:?}");
    for command in ["ls", "status"] {
        let said = world.run(&[command]).await.stdout;
        assert!(said.contains("lent to local owner"), "{said}");
    }
    assert_eq!(world.ask("b", "echo:others go on").await, "others go on");
    assert_eq!(world.times_asked("echo:meanwhile"), 0);
    let again = world.run(&["lend", "--print", "a"]).await;
    again.must(1, &["lent already"]);
    tmux.types("/quit").await;
    assert_answered(&send.ended().await, "meanwhile");
    tmux.ended().await;
    assert_eq!(
        world.shown_with("echo:meanwhile"),
        ["echo:first", "echo:said there", "echo:meanwhile"]
    );
    assert_eq!(
        logged(&world, "a").await,
        [
            ["local owner", "echo:first", "first"],
            ["local owner at a terminal", "echo:said there", "said there"],
            ["local owner", "echo:meanwhile", "meanwhile"],
        ]
    );
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status.get("lent"), None, "{status:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The daemon dies while a terminal has the thread, and is back before that ends.
#[tokio::test]
async fn k17_loan_survives_daemon_death() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    let tmux = Tmux::run(&world, world.command(&["lend", "a"])).await;
    tmux.shows("• first").await;
    let codex = world.codex_pid();
    daemon.kill_9().await;
    crate::world::kill_9(codex);
    gone(codex).await;
    tmux.types("echo:alone").await;
    tmux.shows("• alone").await;
    let daemon = world.daemon().await;
    let mut send = world.start(&["send", "-c", "a", "echo:after"]).await;
    let id = send.on_disk().await;
    let why = world.run(&["why", &id]).await;
    assert!(why.stdout.contains("lent to local owner"), "{why:?}");
    // A terminal that is closed is one that has ended.
    tmux.says(&["send-keys", "C-d"]).await;
    assert_answered(&send.ended().await, "after");
    assert_eq!(
        world.shown_with("echo:after"),
        ["echo:first", "echo:alone", "echo:after"]
    );
    assert_eq!(logged(&world, "a").await.len(), 3);
    assert_eq!(daemon.stop().await, Some(0));
}

/// A loan ends by its time, and whoever still has the thread open is waited for.
#[tokio::test]
async fn forgotten_loan_ends_by_time() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    let lent = lend_for(&world, "a", 2).await;
    assert_eq!(lent["state"], "ready", "{lent:#}");
    let mut terminal = Foreign::server(&world).await;
    let thread = thread_of(&world, "a").await;
    let resume = json!({"threadId": thread, "excludeTurns": true});
    terminal.call("thread/resume", resume).await;
    let mut send = world.start(&["send", "-c", "a", "echo:ours"]).await;
    let id = send.on_disk().await;
    let open = "another program has this conversation's thread open";
    let mut look = tokio::time::interval(Duration::from_millis(100));
    let over = async {
        while !world.run(&["why", &id]).await.stdout.contains(open) {
            look.tick().await;
        }
    };
    within("the end of a loan", over).await;
    let back = world.run(&["return", "a"]).await;
    back.must(75, &[]);
    assert!(back.stdout.contains(open), "{back:?}");
    terminal.turn(&thread, "theirs", "echo:theirs").await;
    terminal.until("turn/completed").await;
    terminal.quit().await;
    assert_answered(&send.ended().await, "ours");
    assert_eq!(
        world.shown_with("echo:ours"),
        ["echo:first", "echo:theirs", "echo:ours"]
    );
    let texts = logged(&world, "a").await;
    let texts: Vec<_> = texts.iter().map(|[_, text, _]| text.as_str()).collect();
    assert_eq!(texts, ["echo:first", "echo:theirs", "echo:ours"]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// C24: as a release leaves it that was cut in the middle, or `codex archive` at the terminal.
#[tokio::test]
async fn c26_archived_thread_comes_back() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    let archive = async |world: &World| {
        let thread = json!({"threadId": thread_of(world, "a").await});
        let mut terminal = Foreign::server(world).await;
        terminal.call("thread/archive", thread).await;
        terminal.quit().await;
    };
    lend_for(&world, "a", 60).await;
    archive(&world).await;
    let again = lend_for(&world, "a", 60).await;
    assert_eq!(again["state"], "ready", "{again:#}");
    archive(&world).await;
    world.run(&["return", "a"]).await.must(0, &[]);
    let ended = world.run(&["send", "-c", "a", "echo:second"]).await;
    assert_answered(&ended, "second");
    assert_eq!(
        world.shown_with("echo:second"),
        ["echo:first", "echo:second"]
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn running_turn_is_waited_for() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    let mut first = world
        .start(&["send", "-c", "a", "hold:gate echo:long"])
        .await;
    first.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let refused = world.run(&["lend", "--print", "--wait", "0", "a"]).await;
    refused.must(75, &["is at work in it", "codex-bridge stop"]);
    let lend = world.start(&["lend", "--print", "a"]).await;
    lend.stderr.clone().wait_for("is at work in it").await;
    let mut second = world.start(&["send", "-c", "a", "echo:second"]).await;
    second.on_disk().await;
    world.model.release("gate");
    assert_answered(&first.ended().await, "long");
    let lent = lend.ended().await;
    assert_eq!(lent.code, Some(0), "{lent:?}");
    let thread = thread_of(&world, "a").await;
    assert!(lent.stdout.trim_end().ends_with(&thread), "{lent:?}");
    assert_eq!(world.times_asked("echo:second"), 0, "it waits for the loan");
    world.run(&["return", "a"]).await.must(0, &[]);
    assert_answered(&second.ended().await, "second");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn stranger_is_named_before_it_is_lent() {
    let settings = "[http]\nlisten = \"127.0.0.1:0\"\n[tiers.tool]\nreads = \"disk\"\n";
    let world = World::with_settings(settings).await;
    let daemon = world.daemon().await;
    let none = world.run(&["lend", "--print", "nothing"]).await;
    none.must(1, &["nothing is called nothing"]);
    let token = world.token("mallory", "read,send").await;
    let address = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
    let call = |path: &str| {
        let client = reqwest::Client::new();
        let call = client.post(format!("http://{}{path}", address.trim()));
        call.bearer_auth(&token).header("Idempotency-Key", "k")
    };
    let text = json!({"conversation": "theirs", "text": "echo:hello"});
    let sent = call("/v1/messages").json(&text).send().await.unwrap();
    let sent: Value = sent.json().await.unwrap();
    world.finished(sent["message_id"].as_str().unwrap()).await;
    let name = "@mallory/theirs";
    let lend = json!({"loan_id": "l1"});
    let path = "/v1/conversations/%40mallory%2Ftheirs/lend";
    let status = call(path).json(&lend).send().await.unwrap().status();
    assert_eq!(status, 403, "for the owner at this machine alone");
    let refused = world.run(&["lend", "--print", name]).await;
    refused.must(1, &["mallory", "not yours", "--yes"]);
    let lent = world.run(&["lend", "--print", "--yes", name]).await;
    assert_eq!(lent.code, Some(0), "{lent:?}");
    assert!(lent.stdout.contains("--sandbox="), "{lent:?}");
    assert!(!lent.stdout.contains("hello"), "no text of anybody");
    world.run(&["return", name]).await.must(0, &[]);
    assert_eq!(daemon.stop().await, Some(0));
}
