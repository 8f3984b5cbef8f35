//! Finding F1: what commands of token holders may read, in messages and in tasks, on the real Codex.

use crate::tasks;
use crate::world::{Daemon, World, outside_every_sandbox, within};
use reqwest::Client;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const LISTEN: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[turn]\nconfig_probe_secs = 1\n";
const ACCEPTED: &str = "[tiers.tool]\nreads = \"disk\"\n";
/// Begins everything that nobody may see, and as it is found when somebody reads it backwards.
const CANARY: &str = "canary-";
const YRANAC: &str = "-yranac";

/// Whoever holds a token.
struct Holder {
    client: Client,
    base: String,
    token: String,
}

impl Holder {
    async fn new(world: &World, name: &str, scopes: &str) -> Self {
        let listen = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
        Self {
            client: Client::builder().tls_certs_only([]).build().unwrap(),
            base: format!("http://{}", listen.trim()),
            token: world.token(name, scopes).await,
        }
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let call = self.client.post(format!("{}{path}", self.base));
        let call = call.bearer_auth(&self.token).json(body);
        let call = call.header("Idempotency-Key", body.to_string().len().to_string());
        let response = within("an answer", call.send()).await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// A message; the text of its answer.
    async fn send(&self, world: &World, text: &str) -> Value {
        let (status, sent) = self.post("/v1/messages", &json!({"text": text})).await;
        assert_eq!(status, 201, "{sent}");
        let shown = world.finished(sent["message_id"].as_str().unwrap()).await;
        shown["answer"]["text"].clone()
    }

    /// A task and how it ended.
    async fn start(&self, world: &World, args: &Value) -> Value {
        let (status, begun) = self.post("/v1/tasks", args).await;
        assert_eq!(status, 201, "{begun}");
        let id = begun["task"]["task_id"].as_str().unwrap();
        tasks::finished(world, id).await.1
    }
}

/// Files that no token holder may read, each with a canary in it but the ledger.
fn plant(world: &World) -> Vec<PathBuf> {
    let ssh = world.person().join(".ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    let planted = [world.codex_home().join("auth.json"), ssh.join("id")];
    for path in &planted {
        std::fs::write(path, format!("{CANARY}{}\n", path.display())).unwrap();
    }
    let ledger = world.state_dir().join("ledger.db");
    assert!(ledger.exists());
    planted.into_iter().chain([ledger]).collect()
}

/// Reads these files in spellings that redaction does not know.
fn burglary(places: &[PathBuf]) -> String {
    let places: Vec<_> = places
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    format!(
        "for p in {}; do for t in rev 'fold -w1' base32 'cut -c1-9'; do if $t $p > said; then echo got-$t; head -c 200 said; fi; done; done",
        places.join(" ")
    )
}

/// The same without a file between, for turns that can't write.
fn quiet_burglary(places: &[PathBuf]) -> String {
    let script = burglary(places).replace("$t $p > said", "$t $p");
    script.replace("head -c 200 said;", "true;")
}

fn outputs(world: &World) -> String {
    let requests = world.model.requests();
    let outputs = requests.iter().flat_map(|seen| seen.outputs.clone());
    outputs.collect::<Vec<_>>().join("\n")
}

fn found_nothing(world: &World) {
    let seen = outputs(world);
    assert!(seen.contains("end-2"), "the commands ran: {seen}");
    for word in ["got-", CANARY, YRANAC] {
        assert!(!seen.contains(word), "{word}: {seen}");
    }
}

async fn world(settings: &str) -> (World, Daemon) {
    let world = World::with_settings(&format!("{LISTEN}{settings}")).await;
    let daemon = world.daemon().await;
    (world, daemon)
}

#[tokio::test]
async fn f1_token_messages_read_no_secret() {
    let (world, daemon) = world("").await;
    let ci = Holder::new(&world, "ci", "read,send").await;
    let script = quiet_burglary(&plant(&world));
    let text = format!("shell:{script}; echo end-$((1+1)) ;; echo:done");
    let shown = ci.send(&world, &text).await;
    assert_eq!(shown, "done");
    found_nothing(&world);
    daemon.stop().await;
}

#[tokio::test]
async fn f1_token_tasks_read_no_secret() {
    let root = outside_every_sandbox();
    let settings = format!("[tasks]\nroots = [{:?}]\n", root.path());
    let (world, daemon) = world(&settings).await;
    let agent = Holder::new(&world, "my-agent", "read,control").await;
    let places = plant(&world);
    let own = root.path().join("own");
    std::fs::write(&own, "own ground").unwrap();
    for (sandbox, script) in [
        ("read-only", quiet_burglary(&places)),
        ("workspace-write", burglary(&places)),
    ] {
        let prompt =
            format!("shell:{script}; cat own; touch made; echo end-$((1+1)) ;; echo:{sandbox}");
        let cwd = root.path();
        let args = json!({"prompt": prompt, "sandbox": sandbox, "cwd": cwd});
        let ended = agent.start(&world, &args).await;
        assert_eq!(ended["answer"], sandbox, "{ended:#}");
        found_nothing(&world);
        assert!(outputs(&world).contains("own ground"));
        let writes = sandbox == "workspace-write";
        assert_eq!(root.path().join("made").exists(), writes, "{sandbox}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn owner_token_may_name_any_directory() {
    let place = outside_every_sandbox();
    let (world, daemon) = world("").await;
    let args = json!({"prompt": "shell:pwd ;; echo:done", "cwd": place.path()});
    let boss = Holder::new(&world, "boss", "read,control,admin").await;
    let ended = boss.start(&world, &args).await;
    assert_eq!(ended["answer"], "done", "{ended:#}");
    assert_eq!(ended["cwd"], json!(place.path().canonicalize().unwrap()));
    let agent = Holder::new(&world, "agent", "read,control").await;
    let (status, refused) = agent.post("/v1/tasks", &args).await;
    assert_eq!(status, 403, "{refused}");
    let why = refused["detail"].as_str().unwrap();
    assert!(why.contains("the key `tasks.roots`"), "{why}");
    let home = json!({"prompt": "x", "cwd": "~", "sandbox": "workspace-write"});
    let (status, refused) = boss.post("/v1/tasks", &home).await;
    assert_eq!(status, 422, "what the local owner may not have: {refused}");
    daemon.stop().await;
}

/// What is looked for above would have been found.
#[tokio::test]
async fn f1_accepting_operators_give_the_disk_away() {
    let (world, mut daemon) = world(ACCEPTED).await;
    daemon.log.wait_for("as good as the owner's").await;
    let ci = Holder::new(&world, "ci", "read,send").await;
    let script = quiet_burglary(&plant(&world));
    let shown = ci
        .send(&world, &format!("shell:{script} ;; echo:done"))
        .await;
    assert_eq!(shown, "done");
    let seen = outputs(&world);
    for word in ["got-rev", "got-fold", "got-base32", "got-cut", YRANAC] {
        assert!(seen.contains(word), "{word}: {seen}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn f1_owner_tasks_read_the_disk() {
    let outside = outside_every_sandbox();
    let file = outside.path().join("file");
    std::fs::write(&file, "outside ground").unwrap();
    let (world, daemon) = world("").await;
    let prompt = format!("shell:cat {} ;; echo:done", file.display());
    let local = world.run(&["start", "--wait", &prompt]).await;
    assert_eq!(local.code, Some(0), "{local:?}");
    let read = |world: &World| outputs(world).matches("outside ground").count();
    assert_eq!(read(&world), 1);
    let boss = Holder::new(&world, "boss", "read,control,admin").await;
    let ended = boss.start(&world, &json!({"prompt": prompt})).await;
    assert_eq!(ended["answer"], "done", "{ended:#}");
    assert_eq!(read(&world), 2);
    let agent = Holder::new(&world, "agent", "read,control").await;
    let ended = agent.start(&world, &json!({"prompt": prompt})).await;
    assert_eq!(ended["answer"], "done", "{ended:#}");
    assert_eq!(read(&world), 2, "a token without admin is not the owner");
    daemon.stop().await;
}

#[tokio::test]
async fn f1_granted_paths_are_readable() {
    let (granted, beside) = (outside_every_sandbox(), outside_every_sandbox());
    for (place, text) in [(&granted, "granted ground"), (&beside, "canary-beside")] {
        std::fs::write(place.path().join("file"), text).unwrap();
    }
    let settings = format!("[tiers.tool]\nreads_also = [{:?}]\n", granted.path());
    let (world, daemon) = world(&settings).await;
    let ci = Holder::new(&world, "ci", "read,send").await;
    let at = |place: &Path| place.join("file").display().to_string();
    let (granted, beside) = (at(granted.path()), at(beside.path()));
    let text = format!(
        "shell:cat {granted} {beside}; echo x >> {granted}; echo end-$((1+1)) ;; echo:done"
    );
    ci.send(&world, &text).await;
    let seen = outputs(&world);
    assert!(seen.contains("granted ground"), "{seen}");
    found_nothing(&world);
    let kept = std::fs::read_to_string(&granted).unwrap();
    assert_eq!(kept, "granted ground", "it is granted for reading");
    daemon.stop().await;
}

#[tokio::test]
async fn f1_secrets_are_refused_as_granted_paths() {
    let world = World::new().await;
    for path in [world.codex_home(), world.person().to_owned(), "/".into()] {
        let settings = format!("[tiers.tool]\nreads_also = [{path:?}]\n");
        std::fs::write(world.config_file(), settings).unwrap();
        let refused = world.run(&["run"]).await;
        assert_ne!(refused.code, Some(0), "{path:?}");
        let said = &refused.stderr;
        assert!(said.contains("`tiers.tool.reads_also`"), "{said}");
    }
}

/// Everything below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() && !path.is_symlink() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[tokio::test]
async fn f1_no_state_file_holds_a_token() {
    let world = World::with_settings(LISTEN).await;
    std::fs::create_dir(world.state_dir()).unwrap();
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(world.state_dir(), mode).unwrap();
    let legacy = world.state_dir().join("token");
    let old = format!("cbt_{}", "5".repeat(64));
    std::fs::write(&legacy, format!("{old}\n")).unwrap();
    let mut daemon = world.daemon().await;
    daemon.log.wait_for("token add NAME --owner").await;
    assert!(!legacy.exists(), "the file of an earlier version goes");
    let owner = Holder::new(&world, "laptop", "read,send,control,approve,admin").await;
    let shown = owner.send(&world, "echo:hello").await;
    assert_eq!(shown, "hello");
    let stale = Holder {
        token: old,
        ..Holder::new(&world, "other", "read").await
    };
    let (status, _) = stale.post("/v1/messages", &json!({"text": "x"})).await;
    assert_eq!(status, 401, "its value does not count any more");
    for path in files(&world.state_dir()) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(&owner.token), "{}", path.display());
    }
    daemon.stop().await;
}

/// A script of the operator's before Codex, as version managers put it.
fn shim(world: &World, body: &str) -> String {
    let path = world.path().join("codex-shim");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn f1_isolated_turns_run_behind_a_shim() {
    let native = bridge_sim::codex_for_tests().unwrap();
    let native = native.display();
    for body in [
        format!("exec {native} \"$@\""),
        format!("{native} \"$@\"; exit $?"),
    ] {
        let world = World::with_settings(LISTEN).await;
        let codex = shim(&world, &body);
        let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
        let ci = Holder::new(&world, "ci", "read,send").await;
        let script = quiet_burglary(&plant(&world));
        let text = format!("shell:{script}; echo end-$((1+1)) ;; echo:done");
        let shown = ci.send(&world, &text).await;
        assert_eq!(shown, "done", "{body}");
        found_nothing(&world);
        daemon.stop().await;
    }
}

/// A launcher that becomes Codex for some calls only: what it runs can't be found out, so isolated turns are told so.
#[tokio::test]
async fn f1_unknown_shim_reports_its_remedy() {
    let native = bridge_sim::codex_for_tests().unwrap();
    let world = World::with_settings(LISTEN).await;
    let body = format!(
        "[ \"$PWD\" = \"${{PWD%/launcher}}\" ] || exit 3\nexec {} \"$@\"",
        native.display()
    );
    let codex = shim(&world, &body);
    let mut daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    let log = daemon.log.wait_for("isolated turns").await;
    assert!(log.contains("--codex-bin"), "{log}");
    let ci = Holder::new(&world, "ci", "read,send").await;
    let (status, sent) = ci.post("/v1/messages", &json!({"text": "echo:x"})).await;
    assert_eq!(status, 201, "{sent}");
    let id = sent["message_id"].as_str().unwrap().to_owned();
    let news = format!("{}/v1/messages/{id}/events", ci.base);
    let news = ci.client.get(news).bearer_auth(&ci.token);
    let mut news = within("news", news.send()).await.unwrap();
    let mut told = String::new();
    while !told.contains("--codex-bin") {
        let piece = within("its reason", news.chunk()).await.unwrap();
        told.push_str(&String::from_utf8_lossy(&piece.unwrap()));
    }
    let why = world.run(&["why", &id]).await;
    assert!(why.stdout.contains("--codex-bin"), "{why:?}");
    assert_eq!(world.ask("main", "echo:owner").await, "owner");
    daemon.stop().await;
}
