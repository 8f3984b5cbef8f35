//! A Molecule workspace as its people see it from outside the chat: online, at work, told of long turns; and the
//! ancestor's conversations, which go on.

use crate::world::{World, within};
use bridge_sim::codex_for_tests;
use bridge_sim::molecule::{MoleculeOptions, MoleculePlatform, Status, Workspace};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

struct Site {
    world: World,
    platform: MoleculePlatform,
    alpha: Workspace,
}

impl Site {
    async fn new(settings: &str) -> Self {
        let platform = MoleculePlatform::start(MoleculeOptions::default())
            .await
            .unwrap();
        let alpha = platform.workspace("alpha");
        let mut world = World::with_settings(settings).await;
        world.set_env("WORKSPACE_ID", &alpha.id);
        world.set_env("PLATFORM_URL", &platform.url());
        world.set_env("MOLECULE_WORKSPACE_TOKEN", &alpha.token);
        Self {
            world,
            platform,
            alpha,
        }
    }

    async fn until(&self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let seen = self.platform.wait_until(what, |_| reached(self));
        if let Err(error) = seen.await {
            panic!("{error}: {:?}", self.platform.heartbeats(&self.alpha));
        }
    }

    fn texts(&self) -> Vec<String> {
        let bubbles = self.platform.bubbles(&self.alpha);
        bubbles.into_iter().map(|bubble| bubble.text).collect()
    }
}

#[tokio::test]
async fn a_workspace_is_online_shows_what_codex_does_and_says_goodbye() {
    let site = Site::new("[turn]\nprogress_after_secs = 1\n").await;
    let (platform, alpha) = (&site.platform, &site.alpha);
    let daemon = site.world.daemon().await;
    site.until("online", |site| {
        platform.status(&site.alpha) == Status::Online
    })
    .await;
    assert_eq!(platform.heartbeats(alpha).registrations, 1);
    let card = platform.agent_card(alpha).unwrap();
    assert_eq!(card["name"], "alpha", "{card}");

    platform.canvas_says(alpha, "hold:gate echo:done").unwrap();
    site.until("a task", |_| {
        let beats = platform.heartbeats(alpha);
        beats.active_tasks == 1 && beats.current_task.is_some_and(|task| !task.is_empty())
    })
    .await;
    site.until("a word in the chat", |site| !site.texts().is_empty())
        .await;
    assert!(
        site.texts()[0].starts_with("Still working, 0 min so far: "),
        "{:?}",
        site.texts()
    );
    site.world.model.release("gate");
    site.until("the answer", |site| {
        site.texts().contains(&"done".to_owned())
    })
    .await;
    site.until("no task", |_| platform.heartbeats(alpha).active_tasks == 0)
        .await;

    let before = platform.heartbeats(alpha).count;
    assert_eq!(daemon.stop().await, Some(0));
    let beats = platform.heartbeats(alpha);
    assert!(
        beats.count > before && beats.active_tasks == 0,
        "a last word"
    );
}

/// A session as the ancestor made them: `codex exec`, outside of any bridge.
async fn session(world: &World, text: &str) -> String {
    let mut command = Command::new(codex_for_tests().unwrap());
    let mut child = command
        .args(["exec", "--json", "--skip-git-repo-check", "-"])
        .env("CODEX_HOME", world.codex_home())
        .current_dir(world.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = within("codex exec", child.wait_with_output())
        .await
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut events = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let started = events.find(|event| event["type"] == "thread.started");
    started.unwrap()["thread_id"].as_str().unwrap().to_owned()
}

/// The ancestor's home, with a record of its sessions in it.
fn old_home(world: &mut World, sessions: &Value) -> PathBuf {
    let home = world.path().join("user");
    let old = home.join(".codex-channel-molecule");
    std::fs::create_dir_all(&old).unwrap();
    std::fs::write(old.join("sessions.json"), sessions.to_string()).unwrap();
    world.set_env("HOME", home.to_str().unwrap());
    old
}

#[tokio::test]
async fn the_ancestor_s_chats_go_on_on_their_sessions_once() {
    let mut site = Site::new("").await;
    let first = session(&site.world, "echo:the first words").await;
    let canvas = format!("canvas:{}", site.alpha.id);
    let beta = site.platform.workspace("beta");
    let peer = format!("peer:{}", beta.id);
    let gone = "019a0000-0000-7000-8000-000000000000";
    let sessions = serde_json::json!({
        (canvas.as_str()): first, (peer.as_str()): gone, "canvas:x": "no uuid", "other": gone,
    });
    let old = old_home(&mut site.world, &sessions);
    let mut daemon = site.world.daemon().await;
    let log = daemon.log.wait_for("old conversations go on").await;
    assert!(log.contains("taken=2 known=0"), "{log}");
    assert!(log.contains("its id is no UUID"), "{log}");
    assert!(
        log.contains("neither canvas:<workspace> nor peer:<id>"),
        "{log}"
    );

    site.platform
        .canvas_says(&site.alpha, "echo:and more")
        .unwrap();
    site.until("the answer", |site| {
        site.texts().contains(&"and more".to_owned())
    })
    .await;
    let shown = site.world.shown_with("and more");
    assert!(
        shown.iter().any(|text| text.contains("the first words")),
        "{shown:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));

    std::fs::write(old.join("sessions.json"), "{}").unwrap();
    let daemon = site.world.daemon().await;
    assert!(!daemon.log.text().contains("old conversations go on"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn the_doctor_looks_at_the_platform() {
    let mut site = Site::new("").await;
    let check = |told: &Value| {
        let checks = told["checks"].as_array().unwrap().clone();
        let found = checks.into_iter().find(|check| check["id"] == "molecule");
        found.unwrap_or_else(|| panic!("{told}"))
    };
    let told = check(&site.world.json(&["doctor", "--json"]).await);
    assert_eq!(told["status"], "ok", "{told}");
    assert!(
        told["detail"].as_str().unwrap().contains("token accepted"),
        "{told}"
    );

    site.world
        .set_env("MOLECULE_WORKSPACE_TOKEN", "canary-wrong");
    let told = check(&site.world.json(&["doctor", "--json"]).await);
    assert_eq!(told["status"], "fail", "{told}");
    assert!(
        told["fix"].as_str().unwrap().contains("Tokens tab"),
        "{told}"
    );
    assert!(!told.to_string().contains("canary-wrong"), "{told}");

    site.platform.remove(&site.alpha);
    let told = check(&site.world.json(&["doctor", "--json"]).await);
    assert!(
        told["detail"].as_str().unwrap().contains("removed"),
        "{told}"
    );

    site.platform.down().await;
    let told = check(&site.world.json(&["doctor", "--json"]).await);
    assert!(
        told["detail"]
            .as_str()
            .unwrap()
            .contains("can't be reached"),
        "{told}"
    );
}
