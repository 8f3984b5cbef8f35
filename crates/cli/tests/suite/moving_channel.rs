//! Users of codex-channel-molecule move over: its command name, its state directory, its platforms, its agents, and the
//! platform's MCP server beside the daemon.

use crate::chat::Chat;
use crate::requests::{Stage, WAITS};
use crate::world::{Daemon, Running, World};
use bridge_sim::codex_for_tests;
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

const NAME: &str = "codex-channel-molecule";
const OWNER: &str = "[molecule.origins]\ncanvas = 'owner'\n";

/// Somebody who has the old program's files and starts a link of its name: no flags, the configuration at its usual place.
struct Mover {
    chat: Chat,
    home: PathBuf,
    link: PathBuf,
}

impl Mover {
    async fn new(settings: &str) -> Self {
        let chat = Chat::new().await;
        let home = chat.world.path().join("u");
        let config = home.join(".config/codex-bridge");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("codex-bridge.toml"), settings).unwrap();
        std::fs::create_dir(home.join("project")).unwrap();
        let link = chat.world.path().join(NAME);
        symlink(env!("CARGO_BIN_EXE_codex-bridge"), &link).unwrap();
        Self { chat, home, link }
    }

    /// The old program's directory as it leaves it: for everybody to read.
    fn left(&self, sessions: &Value) -> PathBuf {
        let old = self.home.join(".codex-channel-molecule");
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join("sessions.json"), sessions.to_string()).unwrap();
        std::fs::set_permissions(&old, PermissionsExt::from_mode(0o755)).unwrap();
        old
    }

    fn command(&self, directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.link);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.home)
            .env("CODEX_HOME", self.chat.world.codex_home())
            .env("CODEX_BRIDGE_CODEX_BIN", codex_for_tests().unwrap())
            .env("WORKSPACE_ID", &self.chat.us.id)
            .env("PLATFORM_URL", self.chat.platform.url())
            .env("MOLECULE_WORKSPACE_TOKEN", &self.chat.us.token)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn outputs(&self) -> String {
        outputs(&self.chat.world)
    }
}

/// What commands gave back to the model.
fn outputs(world: &World) -> String {
    let requests = world.model.requests();
    let outputs = requests.iter().flat_map(|seen| seen.outputs.clone());
    outputs.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn old_name_works_where_it_started() {
    let mover = Mover::new(OWNER).await;
    let gone = "019a0000-0000-7000-8000-000000000000";
    let canvas = format!("canvas:{}", mover.chat.us.id);
    let old = mover.left(&json!({ canvas.as_str(): gone }));
    let project = mover.home.join("project");
    let mut daemon = Daemon::of(mover.command(&project, &[])).await;
    let log = daemon.log.wait_for("old conversations go on").await;
    assert!(log.contains("taken=1"), "{log}");
    mover.chat.says("shell:pwd && touch made ;; echo:done");
    assert!(mover.chat.bubbles(1).await.contains(&"done".to_owned()));
    let project = project.canonicalize().unwrap();
    assert!(mover.outputs().contains(project.to_str().unwrap()));
    assert!(project.join("made").exists());
    let state = mover.home.join(".local/state/codex-bridge");
    assert!(state.join("ledger.db").exists(), "the usual place");
    assert!(!old.join("ledger.db").exists());
    let status = Running::of(mover.command(&project, &["status", "--json"]));
    status.ended().await.must(0, &[]);
    assert_eq!(daemon.stop().await, Some(0));
    let mut without = mover.command(&project, &[]);
    without.env_remove("WORKSPACE_ID");
    let refused = Running::of(without).ended().await;
    refused.must(1, &["no workspace to serve", "PLATFORM_URL"]);
    let version = Running::of(mover.command(&project, &["--version"]));
    let version = version.ended().await.stdout;
    assert!(version.starts_with("codex-bridge 0."), "{version}");
}

#[tokio::test]
async fn old_name_starts_at_home_too() {
    let mover = Mover::new(OWNER).await;
    let mut daemon = Daemon::of(mover.command(&mover.home, &[])).await;
    let log = daemon.log.wait_for("holds the home directory").await;
    assert!(log.contains("--workdir"), "{log}");
    mover.chat.says("shell:pwd ;; echo:done");
    assert_eq!(mover.chat.bubbles(1).await, ["done"]);
    assert!(mover.outputs().contains("/codex-bridge/work/"));
    assert_eq!(daemon.stop().await, Some(0));
    let named = ["--workdir", mover.home.to_str().unwrap()];
    let refused = Running::of(mover.command(&mover.home, &named));
    let refused = refused.ended().await;
    refused.must(1, &["--workdir: names", "holds the home directory"]);
}

#[tokio::test]
async fn old_state_directory_is_closed_and_used() {
    let mover = Mover::new(OWNER).await;
    let gone = "019a0000-0000-7000-8000-000000000000";
    let peer = format!("peer:{}", mover.chat.peer.id);
    let old = mover.left(&json!({ peer.as_str(): gone }));
    let mut command = mover.command(&mover.home.join("project"), &[]);
    command.env("CODEX_CHANNEL_MOLECULE_STATE_DIR", &old);
    let mut daemon = Daemon::of(command).await;
    let log = daemon.log.wait_for("old conversations go on").await;
    assert!(log.contains("its mode is 700 now"), "{log}");
    let mode = std::fs::metadata(&old).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    assert!(old.join("ledger.db").exists());
    assert_eq!(daemon.stop().await, Some(0));
    // Where others could have written, it is not believed.
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = mover.command(&mover.home.join("project"), &[]);
    command.env("CODEX_CHANNEL_MOLECULE_STATE_DIR", &old);
    let refused = Running::of(command).ended().await;
    refused.must(1, &["others may use it (mode 777)", "chmod 700"]);
}

/// `0.0.0.0` reaches this machine and is no loopback address, so it stands for another machine.
#[tokio::test]
async fn threat_30_plain_http_by_flag_warns() {
    let mover = Mover::new("").await;
    let project = mover.home.join("project");
    let url = mover.chat.platform.url().replace("127.0.0.1", "0.0.0.0");
    let with = |args: &[&str]| {
        let mut command = mover.command(&project, args);
        command.env("PLATFORM_URL", &url);
        command
    };
    let refused = Running::of(with(&[])).ended().await;
    refused.must(1, &["--allow-http", "CODEX_BRIDGE_ALLOW_HTTP=1"]);
    let daemon = Daemon::of(with(&["--allow-http"])).await;
    let log = daemon.log.text();
    assert!(log.contains("its token travels in the clear"), "{log}");
    mover.chat.says("/status");
    let told = mover.chat.bubbles(1).await;
    assert!(told[0].contains("only an owner can give one"), "{told:?}");
    mover.chat.says("echo:hello");
    assert_eq!(mover.chat.bubbles(2).await[1], "hello");
    assert_eq!(daemon.stop().await, Some(0));
    let mut command = with(&[]);
    command.env("CODEX_BRIDGE_ALLOW_HTTP", "1");
    let daemon = Daemon::of(command).await;
    assert!(daemon.log.text().contains("travels in the clear"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn d1_named_agent_writes_in_its_directory() {
    let chat = Chat::new().await;
    let work = chat.world.path().join("ground");
    std::fs::create_dir(&work).unwrap();
    let (us, named) = (&chat.us.id, &chat.peer.id);
    let settings = format!(
        "{OWNER}[[molecule.peers]]\nid = '{named}'\ntier = 'tool'\n[tiers.tool]\nsandbox = 'workspace-write'\nworkdir = '{}'\n",
        work.display()
    );
    std::fs::write(chat.world.config_file(), settings).unwrap();
    let daemon = chat.daemon().await;
    let text = "shell:touch made ;; echo:done";
    chat.peer_says(text);
    assert_eq!(chat.peer_got(1).await, ["done"]);
    assert!(work.join("made").exists());
    std::fs::remove_file(work.join("made")).unwrap();
    let other = chat.platform.add_workspace("gamma");
    chat.platform.peer_says(&other, &chat.us, text).unwrap();
    let got = chat.platform.wait_for_inbox(&other, 1).await.unwrap();
    assert_eq!(got[0].text, "done");
    assert!(!work.join("made").exists());
    // What it writes is data and no command.
    chat.peer_says("/stop");
    assert_eq!(chat.peer_got(2).await.len(), 2);
    for (sender, tier) in [
        (named, "tool"),
        (&other.id, "peer"),
        (&"canvas".to_owned(), "owner"),
    ] {
        let channel = format!("molecule:{us}");
        let args = [
            "policy",
            "explain",
            "--json",
            "--channel",
            &channel,
            "--sender",
            sender,
            "--",
            "ls",
        ];
        assert_eq!(chat.world.json(&args).await["tier"], tier, "{sender}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

const TOOL_RULES: &str = "\
[[rules]]
name = 'nothing that asks'
kind = ['mcp-tool']
server = ['asker']
tool = ['page']
then = 'deny'

[[rules]]
name = 'plain tools'
tier = ['owner']
kind = ['mcp-tool']
server = ['asker']
tool = ['plain']
then = 'allow'
";

#[tokio::test]
async fn mcp_tools_follow_the_rules() {
    let stage = Stage::new(TOOL_RULES).await;
    let mut daemon = stage.daemon().await;
    let ask = async |tool: &str| {
        let text = format!("nstool:mcp__asker:{tool}:{{}} ;; echo:ok");
        stage.world.ask("a", &text).await
    };
    assert_eq!(ask("plain").await, "ok");
    assert!(outputs(&stage.world).contains("nothing was asked"));
    assert_eq!(ask("page").await, "ok");
    let log = daemon.log.text();
    assert!(!log.contains(WAITS), "{log}");
    let asking = stage
        .asks(&mut daemon, "nstool:mcp__asker:form:{} ;; echo:done", 1)
        .await;
    let asked = stage.waiting().await;
    assert_eq!(asked["kind"], "mcp_tool", "{asked:#}");
    stage.rules("decline", Value::Null).await;
    asking.answered().await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn policy_explain_knows_mcp_tools() {
    let world = World::with_settings(TOOL_RULES).await;
    let explain = async |tier: &str, tool: &str| {
        let args = [
            "policy", "explain", "--json", "--tier", tier, "--server", "asker", "--tool", tool,
        ];
        let said = world.json(&args).await;
        (said["decision"].clone(), said["rule"].clone())
    };
    assert_eq!(
        explain("owner", "plain").await,
        (json!("allow"), json!("plain tools"))
    );
    assert_eq!(explain("peer", "plain").await, (json!("ask"), Value::Null));
    assert_eq!(
        explain("tool", "page").await,
        (json!("deny"), json!("nothing that asks"))
    );
    let words = world
        .run(&[
            "policy", "explain", "--tier", "owner", "--server", "asker", "--tool", "plain",
        ])
        .await;
    for part in ["allow: accepted", "outside of every sandbox"] {
        assert!(words.stdout.contains(part), "{words:?}");
    }
    let text = "[[rules]]\nname = 'all'\ntier = ['owner']\nkind = ['mcp-tool']\nthen = 'allow'\n";
    std::fs::write(world.config_file(), text).unwrap();
    world
        .run(&["config", "check"])
        .await
        .must(1, &["`server = [\"NAME\"]`"]);
}
