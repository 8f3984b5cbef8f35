//! What nobody on a Molecule platform gets: the workspace's token. It is looked for in everything that commands of a
//! peer and of the canvas can reach, in every process, and in everything that is written, shown or said.

use crate::chat::Chat;
use crate::secrets::{all_private, without_umask};
use crate::world::Daemon;
use bridge_sim::molecule::{FaultBody, MoleculeFault, MoleculeOptions, Route, Said, SaidFile};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn proc_file(pid: i32, name: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Every file below a directory, without following links.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found
}

fn holds(path: &Path, token: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).contains(token)
}

/// A script of commands that look for the token everywhere.
fn burglary(chat: &Chat, token: &Path) -> String {
    let (token, state) = (token.display(), chat.world.state_dir());
    let (state, config) = (state.display(), chat.world.config_file());
    format!(
        "shell:env; cat {token} /proc/self/root{token} /proc/1/root{token}; cat {}; \
         cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; find {state} -type f | xargs cat; \
         echo looked around ;; echo:done",
        config.display()
    )
}

/// What commands gave back to the model so far.
fn outputs(chat: &Chat) -> String {
    let requests = chat.world.model.requests();
    let outputs = requests.iter().flat_map(|seen| seen.outputs.clone());
    outputs.collect::<Vec<_>>().join("\n")
}

/// No process of this world has it, the daemon included: its token came by a file.
fn no_process_has(chat: &Chat, daemon: &Daemon, token: &str) {
    let pids: Vec<i32> = chat
        .world
        .processes()
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    let children = pids.iter().filter(|pid| **pid != daemon.pid());
    assert!(
        pids.contains(&daemon.pid()) && children.count() >= 2,
        "{pids:?}"
    );
    for pid in pids {
        for name in ["environ", "cmdline"] {
            assert!(!proc_file(pid, name).contains(token), "{pid} {name}");
        }
    }
}

/// What runs the turns is `transport`.
async fn traced(transport: &str) -> (Chat, PathBuf) {
    let settings = format!("[molecule]\npoll_secs = 1\ntransport = \"{transport}\"\n");
    let mut chat = Chat::with(MoleculeOptions::default(), &settings).await;
    chat.world.set_env("CODEX_BRIDGE_LOG", "trace");
    let file = chat.token_in_a_file();
    (chat, file)
}

/// Ids of all messages, from the ledger.
fn message_ids(chat: &Chat) -> Vec<String> {
    let ledger = chat.world.state_dir().join("ledger.db");
    let ledger = rusqlite::Connection::open(ledger).unwrap();
    let mut ask = ledger.prepare("SELECT message_id FROM message").unwrap();
    let ids = ask.query_map([], |row| row.get(0)).unwrap();
    ids.map(|id| id.unwrap()).collect()
}

/// Everything that the operator's commands say.
async fn told(chat: &Chat) -> String {
    let ids = message_ids(chat);
    assert_eq!(ids.len(), 3);
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["status", "--json"],
        vec!["config", "check"],
        vec!["doctor"],
        vec!["dead", "list"],
    ];
    for id in &ids {
        commands.push(vec!["show", "--json", id]);
        commands.push(vec!["why", id]);
    }
    let mut said = String::new();
    for command in commands {
        let ended = chat.world.run(&command).await;
        said += &ended.stdout;
        said += &ended.stderr;
    }
    said
}

/// Threats 5, 6 and 27: a peer makes Codex look for the token, and so does the canvas user, who may read the file.
#[tokio::test]
async fn threat_27_workspace_token_never_leaks() {
    look_for_the_token("app-server").await;
}

/// The same where every turn is a `codex exec` of its own.
#[tokio::test]
async fn threat_27_exec_never_leaks_workspace_token() {
    look_for_the_token("exec").await;
}

async fn look_for_the_token(transport: &str) {
    let (chat, file) = traced(transport).await;
    let token = chat.us.token.clone();
    let mut daemon = chat.daemon().await;
    chat.peer_says(&burglary(&chat, &file));
    assert_eq!(chat.peer_got(1).await, ["done"]);
    let seen = outputs(&chat);
    assert!(seen.contains("looked around"), "{seen}");
    assert!(!seen.contains(&token), "a peer's command saw the token");

    // The canvas user is the owner of this machine: the file is theirs to read, so the looking finds what is there.
    chat.says(&burglary(&chat, &file));
    assert_eq!(chat.bubbles(1).await, ["done"]);
    assert!(outputs(&chat).contains(&token), "nothing was looked for");

    chat.says("hold:gate echo:held");
    chat.world.model.wait_held("gate").await.unwrap();
    no_process_has(&chat, &daemon, &token);
    chat.world.model.release("gate");
    assert_eq!(chat.bubbles(2).await[1], "held");

    let said = told(&chat).await;
    assert!(said.contains("looked around"), "the story is shown: {said}");
    assert!(!said.contains(&token), "a command says the token");

    daemon.terminate();
    let log = daemon.log.wait_for("stopped").await;
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    assert!(!log.contains(&token), "the log holds the token");
    assert_eq!(daemon.ended().await, Some(0));
    for path in files(&chat.world.state_dir()) {
        assert!(!holds(&path, &token), "{}", path.display());
    }
}

/// Threat 27: tokens from a file are redacted in answers and bubbles like those of the environment, the one that was
/// replaced included.
#[tokio::test]
async fn threat_27_redacts_old_and_new_tokens() {
    let (chat, file) = traced("app-server").await;
    let mut daemon = chat.daemon().await;
    let old = chat.us.token.clone();
    chat.says(&format!("echo:it is {old}"));
    let shown = chat.bubbles(1).await;
    assert!(shown[0].starts_with("it is [withheld]"), "{shown:?}");
    let new = chat.platform.rotate(&chat.us).token;
    std::fs::write(&file, &new).unwrap();
    chat.says(&format!("echo:{old} and {new}"));
    let shown = chat.bubbles(2).await;
    assert!(
        shown[1].starts_with("[withheld] and [withheld]"),
        "{shown:?}"
    );
    chat.peer_says(&format!("echo:{new}"));
    let told = chat.peer_got(1).await;
    assert!(told[0].starts_with("[withheld]"), "{told:?}");
    daemon.terminate();
    let log = daemon.log.wait_for("stopped").await;
    assert!(!log.contains(&old) && !log.contains(&new), "the log");
    assert_eq!(daemon.ended().await, Some(0));
}

/// The status while every look at the feed, and every heartbeat, meets this answer.
async fn in_trouble(chat: &Chat, answer: MoleculeFault) -> String {
    let state = |status: &Value| status["health"]["channels"][0]["state"].clone();
    for route in [Route::Activity, Route::Heartbeat] {
        chat.platform.stand(route, answer.clone());
    }
    let status = chat.status_until("a retry", |status| state(status) == "retrying");
    let status = status.await.to_string();
    for route in [Route::Activity, Route::Heartbeat] {
        chat.platform.stand(route, MoleculeFault::None);
    }
    chat.status_until("the feed", |status| state(status) == "receiving")
        .await;
    status
}

/// Threat 6: something in front of the platform quotes the call that it refuses, headers and all; once so that a
/// shortened quote would end in the middle of the token.
#[tokio::test]
async fn threat_6_quoted_token_is_redacted() {
    let (chat, _file) = traced("app-server").await;
    let token = chat.us.token.clone();
    let quotes = [
        format!("bad call: Authorization: Bearer {token}"),
        format!("{} {token}", "x".repeat(170)),
    ];
    let part = &token[..16];
    let mut daemon = chat.daemon().await;
    for (at, quote) in quotes.iter().enumerate() {
        let refused = MoleculeFault::refuse(400, quote);
        chat.platform.script(Route::Notify, [refused.clone()]);
        chat.says("echo:hello");
        let dead = at + 1;
        chat.status_until("a dead letter", |status| status["summary"]["dead"] == dead)
            .await;
        let page = MoleculeFault::Refuse {
            status: 200,
            retry_after: None,
            body: FaultBody::Json(Value::String(quote.clone())),
        };
        for answer in [refused, page] {
            let status = in_trouble(&chat, answer).await;
            assert!(!status.contains(part), "{status}");
        }
    }
    let list = chat.world.run(&["dead", "list", "--json"]).await.stdout;
    assert!(list.contains("[withheld]"), "it was not quoted: {list}");
    assert!(!list.contains(part), "{list}");
    daemon.terminate();
    let log = daemon.log.wait_for("stopped").await;
    assert!(!log.contains(part), "the log holds the token: {log}");
    assert_eq!(daemon.ended().await, Some(0));
    for path in files(&chat.world.state_dir()) {
        assert!(!holds(&path, part), "{}", path.display());
    }
}

/// Threat 16: files of a chat are for the owner of the state alone, whatever the umask, while they are there and after.
#[tokio::test]
async fn threat_16_chat_files_are_private() {
    let chat = Chat::new().await;
    let mut daemon = Daemon::of(without_umask(&chat.world.command(&["run"]))).await;
    let before = all_private(&chat.world);
    let said = Said {
        files: vec![SaidFile {
            name: "notes.txt".to_owned(),
            media_type: "text/plain".to_owned(),
            bytes: b"remember the milk".to_vec(),
        }],
        ..Said::text("shell:cat attachments/*/notes.txt ;; echo:read")
    };
    chat.platform.canvas_says_with(&chat.us, &said).unwrap();
    assert_eq!(chat.bubbles(1).await, ["read"]);
    assert!(outputs(&chat).contains("remember the milk"));
    assert!(all_private(&chat.world) > before, "the file is kept");
    daemon.terminate();
    daemon.log.wait_for("stopped").await;
    assert_eq!(daemon.ended().await, Some(0));
    all_private(&chat.world);
}
