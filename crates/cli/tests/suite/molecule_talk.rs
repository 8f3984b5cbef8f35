//! A chat on the Molecule platform as the people in it know it: commands, talks that end and are taken up again,
//! several workspaces, tokens that change, and sessions of the ancestor. Judged by what the platform shows.

use crate::chat::Chat;
use crate::workspace::session;
use bridge_sim::molecule::{AuthSeen, MoleculeOptions, Route, Said, Seen, Workspace};
use serde_json::{Value, json};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A text in the talk of this name.
fn in_talk(context: &str, text: &str) -> Said {
    Said {
        context: Some(context.to_owned()),
        ..Said::text(text)
    }
}

/// Waits until the canvas user sees a bubble that holds these words.
async fn sees(chat: &Chat, words: &str) {
    let found = |chat: &Chat| chat.texts().iter().any(|text| text.contains(words));
    chat.until(words, found).await;
}

/// What `status` says of a workspace.
async fn health(chat: &Chat, workspace: &Workspace) -> Value {
    let status = chat.world.json(&["status", "--json"]).await;
    let channels = status["health"]["channels"].as_array().unwrap().clone();
    let name = format!("molecule:{}", workspace.id);
    let found = channels.into_iter().find(|told| told["channel"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {status:#}"))
}

#[tokio::test]
async fn new_begins_a_conversation_that_remembers_nothing() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("first echo:one");
    chat.bubbles(1).await;
    chat.says("/new");
    let told = chat.bubbles(2).await;
    assert_eq!(told[1], "A new conversation begins with your next message.");
    chat.says("second echo:two");
    assert_eq!(chat.bubbles(3).await[2], "two");
    assert_eq!(chat.world.shown_with("second"), ["second echo:two"]);
    let threads = chat.threads();
    assert_ne!(threads[0], threads[1]);
    chat.says("third echo:three");
    chat.bubbles(4).await;
    assert_eq!(chat.threads()[2], threads[1]);
    assert_eq!(chat.world.model.requests().len(), 3, "Codex saw no command");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn stop_ends_what_runs_and_what_waits() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("hold:gate echo:never");
    chat.world.model.wait_held("gate").await.unwrap();
    chat.says("echo:nor this");
    chat.says("/Stop");
    sees(&chat, "Codex is being stopped, and 1 that waited.").await;
    // The gate is closed still: only an interruption ends this turn.
    chat.world.model.wait_aborted(1).await.unwrap();
    chat.says("echo:next");
    sees(&chat, "next").await;
    assert_eq!(daemon.stop().await, Some(0));
    let told = chat.texts();
    assert!(!told.contains(&"never".to_owned()), "{told:?}");
    assert!(!told.contains(&"nor this".to_owned()), "{told:?}");
    assert_eq!(chat.world.times_asked("nor this"), 0);
    assert_eq!(chat.world.processes(), []);
}

#[tokio::test]
async fn status_reports_running_and_waiting_work() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("/status");
    let nothing = "Nothing runs and nothing waits here.";
    assert_eq!(chat.bubbles(1).await, [nothing]);
    chat.says("hold:gate echo:done");
    chat.world.model.wait_held("gate").await.unwrap();
    chat.says("echo:waits");
    chat.says(" /STATUS\n");
    let told = chat.bubbles(2).await;
    assert!(told[1].contains("Codex works on a message of 0 min ago"));
    assert!(told[1].ends_with("\n1 waiting."), "{told:?}");
    chat.world.model.release("gate");
    assert_eq!(chat.bubbles(4).await[2..], ["done", "waits"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn partial_commands_go_to_codex() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    for (text, count) in [
        ("approve K7 echo:for Codex", 1),
        ("/status please echo:for Codex", 2),
    ] {
        chat.says(text);
        assert_eq!(chat.bubbles(count).await[count - 1], "for Codex");
    }
    // So is everything that an agent writes.
    chat.peer_says("/stop");
    chat.peer_got(1).await;
    assert_eq!(chat.world.times_asked("/stop"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn each_context_keeps_its_own_thread() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says_with(&in_talk("talk-1", "first echo:one"));
    chat.bubbles(1).await;
    chat.says_with(&in_talk("talk-2", "second echo:two"));
    chat.bubbles(2).await;
    daemon.kill_9().await;
    let daemon = chat.daemon().await;
    chat.says_with(&in_talk("talk-1", "third echo:three"));
    assert_eq!(chat.bubbles(3).await, ["one", "two", "three"]);
    assert_eq!(chat.world.shown_with("second"), ["second echo:two"]);
    assert_eq!(
        chat.world.shown_with("third"),
        ["first echo:one", "third echo:three"]
    );
    let threads = chat.threads();
    assert_ne!(threads[0], threads[1]);
    assert_eq!(threads[0], threads[2]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Two workspaces of one daemon, as the platform's runtime reads them.
async fn two_workspaces() -> (Chat, Workspace) {
    let mut chat = Chat::without_token(MoleculeOptions::default(), "").await;
    let other = chat.platform.add_workspace("gamma");
    let list = json!([
        {"id": chat.us.id, "token": chat.us.token},
        {"id": other.id, "token": other.token},
    ]);
    chat.world.set_env("MOLECULE_WORKSPACES", &list.to_string());
    (chat, other)
}

#[tokio::test]
async fn workspaces_have_separate_tokens_and_chats() {
    let (chat, other) = two_workspaces().await;
    let (platform, peer) = (&chat.platform, &chat.peer);
    let daemon = chat.daemon().await;
    chat.says("echo:in alpha");
    platform.canvas_says(&other, "echo:in gamma").unwrap();
    assert_eq!(chat.bubbles(1).await, ["in alpha"]);
    let shown = platform.wait_for_bubbles(&other, 1).await.unwrap();
    assert_eq!(shown[0].text, "in gamma");
    chat.peer_says("echo:as alpha");
    chat.peer_got(1).await;
    platform.peer_says(peer, &other, "echo:as gamma").unwrap();
    let got = chat.peer_inbox(2).await;
    let got: Vec<_> = got.iter().map(|got| (&*got.text, &got.source)).collect();
    let from = |workspace: &Workspace| Some(workspace.id.clone());
    assert_eq!(
        got,
        [("as alpha", &from(&chat.us)), ("as gamma", &from(&other))]
    );
    let mut threads = chat.threads();
    threads.sort();
    threads.dedup();
    assert_eq!(threads.len(), 4, "four chats");
    assert_eq!(daemon.stop().await, Some(0));
    let own = |seen: &&Seen| [Route::Activity, Route::Notify].contains(&seen.route);
    for call in platform.calls().iter().filter(own) {
        assert_eq!(call.auth, AuthSeen::Own, "{call:?}");
    }
}

#[tokio::test]
async fn removed_workspace_parks_without_affecting_others() {
    let (chat, other) = two_workspaces().await;
    let mut daemon = chat.daemon().await;
    chat.platform.canvas_says(&other, "echo:alive").unwrap();
    let shown = chat.platform.wait_for_bubbles(&other, 1).await;
    assert_eq!(shown.unwrap()[0].text, "alive");
    chat.platform.remove(&other);
    daemon.log.wait_for("workspace removed").await;
    let told = health(&chat, &other).await;
    assert_eq!(told["state"], "parked", "{told:#}");
    let why = told["detail"].as_str().unwrap();
    assert!(
        why.contains("workspace removed") && why.contains("New Token"),
        "{why}"
    );
    chat.says("echo:still here");
    assert_eq!(chat.bubbles(1).await, ["still here"]);
    assert_eq!(health(&chat, &chat.us).await["state"], "receiving");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A file that its owner alone can read.
fn write_secret(path: &Path, text: &str) {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn rotated_token_is_reread_without_restart() {
    let mut chat = Chat::without_token(MoleculeOptions::default(), "").await;
    let file = chat.world.path().join("token");
    write_secret(&file, &format!("{}\n", chat.us.token));
    chat.world.set_env("WORKSPACE_ID", &chat.us.id);
    let place = file.display().to_string();
    chat.world.set_env("MOLECULE_WORKSPACE_TOKEN_FILE", &place);
    let mut daemon = chat.daemon().await;
    chat.says("first echo:one");
    assert_eq!(chat.bubbles(1).await, ["one"]);

    let old = chat.us.token.clone();
    let new = chat.platform.rotate(&chat.us).token;
    chat.says("second echo:two");
    daemon.log.wait_for("token refused").await;
    let told = health(&chat, &chat.us).await;
    assert_eq!(told["state"], "parked", "{told:#}");
    let why = told["detail"].as_str().unwrap();
    assert!(why.contains(&place), "{why}");
    write_secret(&file, &new);
    assert_eq!(chat.bubbles(2).await, ["one", "two"]);
    assert_eq!(chat.world.shown_with("second").len(), 2);
    assert_eq!(health(&chat, &chat.us).await["state"], "receiving");
    let log = daemon.log.text();
    assert!(!log.contains(&old) && !log.contains(&new), "{log}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The ancestor's record in the state directory: canvas and peer go on on their sessions. It is taken over once: what
/// was begun anew since stays new, although the record is still there.
#[tokio::test]
async fn legacy_sessions_are_imported_once() {
    let chat = Chat::new().await;
    let canvas = session(&chat.world, "echo:canvas long ago").await;
    let peer = session(&chat.world, "echo:peer long ago").await;
    let state = chat.world.state_dir();
    let mut directory = std::fs::DirBuilder::new();
    directory.mode(0o700).create(&state).unwrap();
    let sessions = json!({
        (format!("canvas:{}", chat.us.id)): canvas,
        (format!("peer:{}", chat.peer.id)): peer,
    });
    let record = state.join("sessions.json");
    std::fs::write(&record, sessions.to_string()).unwrap();

    let mut daemon = chat.daemon().await;
    let log = daemon.log.wait_for("old conversations go on").await;
    assert!(log.contains("taken=2 known=0"), "{log}");
    chat.says("canvas now echo:one");
    assert_eq!(chat.bubbles(1).await, ["one"]);
    let shown = chat.world.shown_with("canvas now");
    assert_eq!(shown, ["echo:canvas long ago", "canvas now echo:one"]);
    chat.peer_says("peer now echo:two");
    assert_eq!(chat.peer_got(1).await, ["two"]);
    assert_eq!(chat.world.shown_with("peer now")[0], "echo:peer long ago");
    assert_eq!(chat.threads()[2..], [canvas, peer]);
    chat.says("/new");
    chat.bubbles(2).await;
    assert_eq!(daemon.stop().await, Some(0));

    let daemon = chat.daemon().await;
    chat.says("canvas anew echo:three");
    assert_eq!(chat.bubbles(3).await[2], "three");
    assert_eq!(chat.world.shown_with("canvas anew").len(), 1);
    assert_eq!(daemon.stop().await, Some(0));
    let kept = std::fs::read_to_string(&record).unwrap();
    assert_eq!(kept, sessions.to_string(), "it is left as it is");
}

/// The older platform has no sequence numbers, no acks, and other rows.
#[tokio::test]
async fn the_older_platform_serves_canvas_and_peers() {
    let chat = Chat::old().await;
    let daemon = chat.daemon().await;
    chat.says("first echo:one");
    assert_eq!(chat.bubbles(1).await, ["one"]);
    chat.peer_says("a peer's echo:two");
    let got = chat.peer_inbox(1).await;
    assert_eq!(got[0].text, "two");
    assert_eq!(got[0].source.as_ref(), Some(&chat.us.id));
    chat.says("third echo:three");
    assert_eq!(chat.bubbles(2).await, ["one", "three"]);
    assert_eq!(chat.world.shown_with("third").len(), 2);
    daemon.kill_9().await;
    chat.says("fourth echo:four");
    let daemon = chat.daemon().await;
    assert_eq!(chat.bubbles(3).await, ["one", "three", "four"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts().len(), 3);
    assert_eq!(chat.platform.inbox_of(&chat.peer).len(), 1);
    assert_eq!(chat.world.model.requests().len(), 4);
}
