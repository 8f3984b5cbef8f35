//! Files that Codex is asked to send come back with its answer, once, also when the daemon dies around it.

use crate::world::{Daemon, Ended, Running, World};
use serde_json::Value;
use std::path::PathBuf;

/// Puts a file where the instructions say: in a conversation's own directory, whose name is the conversation's id.
const PUT: &str = "shell:d=outbox/$(basename \"$PWD\"); mkdir -p $d && printf made > $d/result.txt";

/// The files that the newest answer takes along.
async fn files(world: &World, ended: &Ended) -> Vec<(String, PathBuf)> {
    let id = ended
        .stderr
        .split_whitespace()
        .find(|word| word.len() == 36);
    let shown = world.json(&["show", "--json", id.unwrap()]).await;
    let Value::Array(files) = shown["answer"]["files"].clone() else {
        panic!("no files: {shown}");
    };
    let file = |file: &Value| {
        let text = |key: &str| file[key].as_str().unwrap().to_owned();
        (text("name"), text("path").into())
    };
    files.iter().map(file).collect()
}

/// The only working directory.
fn workdir(world: &World) -> PathBuf {
    let mut all = std::fs::read_dir(world.state_dir().join("work")).unwrap();
    all.next().unwrap().unwrap().path()
}

fn outboxes(world: &World) -> usize {
    std::fs::read_dir(workdir(world).join("outbox"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn outbox_files_are_sent_with_answer() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let ended = world.run(&["send", &format!("{PUT} ;; echo:sent")]).await;
    ended.must(0, &["file: result.txt (text/plain, 4 bytes): "]);
    assert_eq!(ended.stdout.trim(), "sent");
    let sent = files(&world, &ended).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
    let (name, path) = &sent[0];
    assert_eq!(name, "result.txt");
    assert!(path.starts_with(world.state_dir().join("files")));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "made");
    assert_eq!(
        outboxes(&world),
        0,
        "what was sent does not lie there any more"
    );
    let again = world.run(&["send", "echo:again"]).await;
    assert_eq!(files(&world, &again).await, []);
    let instructed = world.model.requests();
    assert!(instructed.iter().all(|seen| seen.images == 0));
    assert_eq!(daemon.stop().await, Some(0));
}

/// A link in the outbox would send what the daemon can read and the sandbox may not.
#[tokio::test]
async fn threat_14_outbox_links_are_not_sent() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let secret = world.path().join("secret.txt");
    std::fs::write(&secret, "the-secret").unwrap();
    let text = format!(
        "{PUT}; ln -s {} $d/link.txt; mkdir $d/folder ;; echo:sent",
        secret.display()
    );
    let ended = world.run(&["send", &text]).await;
    let sent = files(&world, &ended).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
    for name in ["`link.txt`", "`folder`"] {
        assert!(ended.stdout.contains(name), "{ended:?}");
    }
    let kept = bridge_kept(&world.state_dir().join("files"));
    assert_eq!(kept, ["made"]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The content of every file that is kept.
fn bridge_kept(root: &std::path::Path) -> Vec<String> {
    let mut open = vec![root.to_owned()];
    let mut kept = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path)
            } else {
                kept.push(std::fs::read_to_string(path).unwrap())
            }
        }
    }
    kept
}

/// The daemon dies around the commit of the answer; the next one sends the file with that answer and no other.
async fn dies_around_the_answer(point: &str) {
    let world = World::with_settings("[turn]\nbackoff_base_ms = 50\n").await;
    let mut command = world.command(&["run"]);
    command.env("CODEX_BRIDGE_FAIL_POINT", point);
    let mut doomed = Running::of(command);
    doomed.stderr.wait_for(" ready ").await;
    let text = format!("{PUT} ;; echo:sent");
    let mut sending = world.start(&["send", &text]).await;
    sending.on_disk().await;
    assert_eq!(doomed.ended().await.code, None, "{point}");
    let daemon: Daemon = world.daemon().await;
    let ended = sending.ended().await;
    ended.must(0, &[]);
    let sent = files(&world, &ended).await;
    assert_eq!(sent.len(), 1, "{point}: {ended:?}");
    assert_eq!(std::fs::read_to_string(&sent[0].1).unwrap(), "made");
    let next = world
        .run(&[
            "send",
            &format!("{} ;; echo:next", PUT.replace("result", "other")),
        ])
        .await;
    let sent = files(&world, &next).await;
    let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["other.txt"], "{point}: nothing is sent twice");
    assert_eq!(outboxes(&world), 0, "{point}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn outbox_file_survives_crash_before_answer() {
    dies_around_the_answer("answer.before").await;
}

#[tokio::test]
async fn crash_after_answer_sends_file_once() {
    dies_around_the_answer("answer.after").await;
}
