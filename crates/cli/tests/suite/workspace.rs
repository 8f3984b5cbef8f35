//! A Molecule workspace as its people see it from outside the chat: online, at work, told of long turns; and the
//! ancestor's conversations, which go on.

use crate::chat::Chat;
use crate::world::{World, within};
use bridge_sim::codex_for_tests;
use bridge_sim::molecule::Status;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

#[tokio::test]
async fn workspace_reports_presence_and_current_task() {
    let chat = Chat::with_settings("turn.progress_after_secs = 1\n").await;
    let (platform, alpha) = (&chat.platform, &chat.us);
    let daemon = chat.daemon().await;
    chat.until("online", |chat| platform.status(&chat.us) == Status::Online)
        .await;
    assert_eq!(platform.heartbeats(alpha).registrations, 1);
    let card = platform.agent_card(alpha).unwrap();
    assert_eq!(card["name"], "alpha", "{card}");

    platform.canvas_says(alpha, "hold:gate echo:done").unwrap();
    chat.until("a task", |_| {
        let beats = platform.heartbeats(alpha);
        beats.active_tasks == 1 && beats.current_task.is_some_and(|task| !task.is_empty())
    })
    .await;
    chat.until("a word in the chat", |chat| !chat.texts().is_empty())
        .await;
    assert!(
        chat.texts()[0].starts_with("Still working, 0 min so far: "),
        "{:?}",
        chat.texts()
    );
    chat.world.model.release("gate");
    chat.until("the answer", |chat| {
        chat.texts().contains(&"done".to_owned())
    })
    .await;
    chat.until("no task", |_| platform.heartbeats(alpha).active_tasks == 0)
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
pub(crate) async fn session(world: &World, text: &str) -> String {
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
async fn legacy_chats_resume_their_sessions_once() {
    let mut chat = Chat::new().await;
    let first = session(&chat.world, "echo:the first words").await;
    let canvas = format!("canvas:{}", chat.us.id);
    let peer = format!("peer:{}", chat.peer.id);
    let gone = "019a0000-0000-7000-8000-000000000000";
    let sessions = serde_json::json!({
        (canvas.as_str()): first, (peer.as_str()): gone, "canvas:x": "no uuid", "other": gone,
    });
    let old = old_home(&mut chat.world, &sessions);
    let mut daemon = chat.daemon().await;
    let log = daemon.log.wait_for("old conversations go on").await;
    assert!(log.contains("taken=2 known=0"), "{log}");
    assert!(log.contains("its id is no UUID"), "{log}");
    assert!(
        log.contains("neither canvas:<workspace> nor peer:<id>"),
        "{log}"
    );

    chat.says("echo:and more");
    chat.until("the answer", |chat| {
        chat.texts().contains(&"and more".to_owned())
    })
    .await;
    let shown = chat.world.shown_with("and more");
    assert!(
        shown.iter().any(|text| text.contains("the first words")),
        "{shown:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));

    std::fs::write(old.join("sessions.json"), "{}").unwrap();
    let daemon = chat.daemon().await;
    assert!(!daemon.log.text().contains("old conversations go on"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn the_doctor_looks_at_the_platform() {
    let mut chat = Chat::new().await;
    let check = |told: &Value| {
        let checks = told["checks"].as_array().unwrap().clone();
        let found = checks.into_iter().find(|check| check["id"] == "molecule");
        found.unwrap_or_else(|| panic!("{told}"))
    };
    let told = check(&chat.world.json(&["doctor", "--json"]).await);
    assert_eq!(told["status"], "ok", "{told}");
    assert!(
        told["detail"].as_str().unwrap().contains("token accepted"),
        "{told}"
    );

    chat.world
        .set_env("MOLECULE_WORKSPACE_TOKEN", "canary-wrong");
    let told = check(&chat.world.json(&["doctor", "--json"]).await);
    assert_eq!(told["status"], "fail", "{told}");
    assert!(
        told["fix"].as_str().unwrap().contains("Tokens tab"),
        "{told}"
    );
    assert!(!told.to_string().contains("canary-wrong"), "{told}");

    chat.platform.remove(&chat.us);
    let told = check(&chat.world.json(&["doctor", "--json"]).await);
    assert!(
        told["detail"].as_str().unwrap().contains("removed"),
        "{told}"
    );

    chat.platform.down().await;
    let told = check(&chat.world.json(&["doctor", "--json"]).await);
    assert!(
        told["detail"]
            .as_str()
            .unwrap()
            .contains("can't be reached"),
        "{told}"
    );
}
