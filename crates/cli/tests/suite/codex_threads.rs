//! A thread's record is damaged, not written, or somebody else's: rows C17 to C21 of the fault matrix, and N12.
//! What can't be proven is not guessed, what belongs to others is left alone, and all of it is said.

use crate::fake::Fake;
use crate::foreign::Foreign;
use crate::world::{Ended, World, gone, kill_9};
use bridge_core::port::Ledger;
use bridge_core::step::Incarnate;
use bridge_core::value::{Incarnation, IncarnationId, ProcessStamp, Timestamp, Transport};
use bridge_store::key::Guard;
use bridge_store::{LedgerKey, SqliteLedger};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const IMPATIENT: &str = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

fn assert_answered(ended: &Ended, answer: &str) {
    let said = (ended.code, ended.stdout.trim_end());
    assert_eq!(said, (Some(0), answer), "{ended:?}");
}

/// The records of all threads in this world.
fn rollouts(world: &World) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![world.codex_home().join("sessions")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found
}

/// The thread of a message's conversation.
async fn thread_of(world: &World, message_id: &str) -> String {
    let shown = world.json(&["show", "--json", message_id]).await;
    shown["thread_id"].as_str().unwrap().to_owned()
}

/// Sends a message that is answered; gives its id.
async fn answered(world: &World, conversation: &str, text: &str) -> String {
    let args = ["send", "--json", "-c", conversation, text];
    let sent = world.json(&args).await;
    assert_ne!(sent["answer"], Value::Null, "{sent:#}");
    sent["message_id"].as_str().unwrap().to_owned()
}

/// A conversation with one answer, whose record is then treated by `damage` while no Codex runs.
async fn damaged(damage: impl Fn(&Path)) -> (World, Ended) {
    damaged_in(World::new().await, damage).await
}

async fn damaged_in(world: World, damage: impl Fn(&Path)) -> (World, Ended) {
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    daemon.stop().await;
    let records = rollouts(&world);
    assert_eq!(records.len(), 1);
    damage(&records[0]);
    let daemon = world.daemon().await;
    let ended = world.run(&["send", "-c", "a", "echo:second"]).await;
    assert_answered(&ended, "second");
    assert_eq!(world.ask("a", "echo:third").await, "third");
    assert_eq!(daemon.stop().await, Some(0));
    (world, ended)
}

/// C17: a last line that breaks off, as a kill leaves it, harms nobody.
#[tokio::test]
async fn c17_torn_rollout_keeps_earlier_turns() {
    let tear = |path: &Path| {
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        file.write_all(b"{\"timestamp\":\"2026-11-16T00:00:0")
            .unwrap();
    };
    let (world, ended) = damaged(tear).await;
    assert!(!ended.stderr.contains("is lost"), "{ended:?}");
    assert_eq!(
        world.shown_with("echo:third"),
        ["echo:first", "echo:second", "echo:third"]
    );
}

/// C17: a record that is empty, as a full disk leaves it, or gone: a new thread that is told what was said before.
#[tokio::test]
async fn c17_lost_rollout_starts_new_thread() {
    let empty = |path: &Path| std::fs::write(path, "").unwrap();
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    let legacy = async || World::with_settings("codex.history = \"legacy\"\n").await;
    let cases = [
        damaged(empty).await,
        damaged(remove).await,
        damaged_in(legacy().await, empty).await,
        damaged_in(legacy().await, remove).await,
    ];
    for (world, ended) in cases {
        assert!(ended.stderr.contains("is lost"), "{ended:?}");
        let second = world.shown_with("echo:second");
        assert_eq!(second.len(), 1, "a new thread: {second:?}");
        for words in ["was lost", "> echo:first", "> first"] {
            assert!(second[0].contains(words), "{words}: {second:?}");
        }
        assert!(second[0].ends_with("\necho:second"), "{second:?}");
        let third = world.shown_with("echo:third");
        assert_eq!(third, [second[0].as_str(), "echo:third"]);
    }
}

/// C17: without its record a lost turn may have touched the world: it is continued, not begun again.
#[tokio::test]
async fn c17_turn_without_rollout_is_continued() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    let text = "hold:gate echo:the answer";
    let mut send = world.start(&["send", "-c", "a", text]).await;
    send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let codex = world.codex_pid();
    daemon.kill_9().await;
    kill_9(codex);
    gone(codex).await;
    for record in rollouts(&world) {
        std::fs::write(record, "").unwrap();
    }
    world.model.release("gate");
    let daemon = world.daemon().await;
    let ended = send.ended().await;
    assert_answered(&ended, "the answer");
    let again = world.shown_with("[codex-bridge]");
    assert_eq!(again.len(), 1, "on a new thread: {again:?}");
    assert!(
        again[0].contains("cut off before you answered"),
        "{again:?}"
    );
    assert_eq!(
        world.times_asked(text),
        2,
        "the cut one and its continuation"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// A small file system of its own, taken away at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this machine does not let us mount.
    fn mount(at: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=12m", "codex-bridge-test"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        let mounted = mounted.is_ok_and(|status| status.success());
        mounted.then(|| Self(at.to_owned()))
    }

    /// Writes until nothing fits any more; gives the file that fills it.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// C18: a disk that is full at Codex: the turn that found it out is answered, later ones wait until there is space.
#[tokio::test]
async fn c18_full_codex_disk_pauses_turns() {
    let world = World::with_settings(IMPATIENT).await;
    let Some(disk) = SmallDisk::mount(&world.codex_home()) else {
        println!("mounting is not permitted here: a full disk is only played, by the fake");
        return transcript_warning_stops_nothing_when_there_is_space().await;
    };
    world.configure_codex(&world.model.codex_config());
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:before").await, "before");
    let ballast = disk.fill();
    assert_eq!(world.ask("a", "echo:meanwhile").await, "meanwhile");
    daemon.log.wait_for("codex can't save what it does").await;
    let parked = world.run(&["send", "-c", "b", "echo:after"]).await;
    let home = world.codex_home().display().to_string();
    parked.must(
        75,
        &[
            "waiting for you: Codex can't save",
            &home,
            "make space there",
        ],
    );
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["health"]["ready"], false, "{status:#}");
    assert_eq!(world.times_asked("echo:after"), 0);
    std::fs::remove_file(ballast).unwrap();
    let shown = world.finished(&parked.kept()).await;
    assert_eq!(shown["answer"]["text"], "after", "{shown:#}");
    assert_eq!(world.ask("a", "echo:at last").await, "at last");
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["health"]["ready"], true, "{status:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

const NOT_SAVED: &str = r#"{"at": "turn/started", "nth": 2, "do": "notify", "method": "warning", "params": {"threadId": null, "message": "Failed to save the conversation transcript; Codex will continue retrying."}}"#;

async fn transcript_warning_stops_nothing_when_there_is_space() {
    let mut fake = Fake::start("", NOT_SAVED).await;
    for n in 1..4 {
        let text = format!("echo:{n}");
        assert_eq!(fake.world.ask("a", &text).await, n.to_string());
    }
    fake.daemon
        .log
        .wait_for("codex can save what it does again")
        .await;
    fake.lives_on().await;
}

/// C18: a turn that is lost while nothing is saved is not taken for one that never ran, by this daemon or the next.
#[tokio::test]
async fn c18_unsaved_turn_is_continued() {
    for restarted in [false, true] {
        let script = format!(
            "{NOT_SAVED}\n{}\n{}",
            r#"{"at": "turn/start", "nth": 2, "do": "forget"}"#,
            r#"{"at": "item/agentMessage/delta", "nth": 2, "do": "hang"}"#,
        );
        let Fake { world, daemon } = Fake::start("", &script).await;
        assert_eq!(world.ask("a", "echo:first").await, "first");
        let mut send = world.start(&["send", "-c", "a", "echo:second"]).await;
        send.on_disk().await;
        let mut fake = Fake { world, daemon };
        fake.asked("item/agentMessage/delta", 2).await;
        fake.daemon
            .log
            .wait_for("codex can't save what it does")
            .await;
        let codex = fake.pid();
        if restarted {
            let Fake { world, daemon } = fake;
            daemon.kill_9().await;
            kill_9(codex);
            gone(codex).await;
            let daemon = Fake::daemon_of(&world).await;
            fake = Fake { world, daemon };
        } else {
            kill_9(codex);
        }
        assert_answered(&send.ended().await, "second");
        let texts = fake.texts();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[2].starts_with("[codex-bridge]"), "{texts:?}");
        fake.lives_on().await;
    }
}

/// C19: another client's turn runs on our thread. Codex would put our message into it without a word; it waits.
#[tokio::test]
async fn c19_foreign_turn_is_waited_for() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let id = answered(&world, "a", "echo:first").await;
    let thread = thread_of(&world, &id).await;
    let mut foreign = Foreign::client(&world).await;
    foreign
        .call(
            "thread/resume",
            json!({"threadId": thread, "excludeTurns": true}),
        )
        .await;
    foreign
        .turn(&thread, "theirs", "hold:gate echo:theirs")
        .await;
    world.model.wait_held("gate").await.unwrap();
    let mut send = world.start(&["send", "-c", "a", "echo:ours"]).await;
    let id = send.on_disk().await;
    send.stderr.wait_for("another program runs a turn").await;
    let why = world.run(&["why", &id]).await;
    assert!(
        why.stdout.contains("another program runs a turn"),
        "{why:?}"
    );
    world.model.release("gate");
    assert_answered(&send.ended().await, "ours");
    assert_eq!(world.times_asked("echo:ours"), 1);
    assert_eq!(
        world.shown_with("echo:ours"),
        ["echo:first", "hold:gate echo:theirs", "echo:ours"],
        "after their turn, in one of its own"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// C20: somebody has the thread open in another Codex: the message waits, says so, and is answered when they let go.
#[tokio::test]
async fn c20_thread_open_elsewhere_is_waited_for() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let id = answered(&world, "a", "echo:first").await;
    let thread = thread_of(&world, &id).await;
    assert_eq!(daemon.stop().await, Some(0));
    let mut foreign = Foreign::server(&world).await;
    foreign
        .call(
            "thread/resume",
            json!({"threadId": thread, "excludeTurns": true}),
        )
        .await;
    let daemon = world.daemon().await;
    let mut send = world.start(&["send", "-c", "a", "echo:ours"]).await;
    let id = send.on_disk().await;
    let reason = "another program has this conversation's thread open";
    send.stderr.wait_for(reason).await;
    let why = world.run(&["why", &id]).await;
    assert!(why.stdout.contains(reason), "{why:?}");
    assert!(why.stdout.contains("close it there"), "{why:?}");
    assert_eq!(
        world.ask("b", "echo:others work on").await,
        "others work on"
    );
    foreign.turn(&thread, "theirs", "echo:theirs").await;
    foreign.until("turn/completed").await;
    assert!(foreign.is_alive(), "a foreign process is left alone");
    foreign.quit().await;
    assert_answered(&send.ended().await, "ours");
    assert_eq!(
        world.shown_with("echo:ours"),
        ["echo:first", "echo:theirs", "echo:ours"]
    );
    assert_eq!(world.times_asked("echo:ours"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// C21: whoever reads a thread without its writer is told that a running turn was interrupted. So the lost turn is
/// not looked at while another Codex runs it, and its answer is taken when that one has let go.
#[tokio::test]
async fn c21_lost_turn_waits_for_thread_holder() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let text = "hold:gate echo:the answer";
    let mut send = world.start(&["send", text]).await;
    let id = send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let thread = thread_of(&world, &id).await;
    let codex = world.codex_pid();
    daemon.kill_9().await;
    kill_9(codex);
    gone(codex).await;
    // Another Codex goes on with that very message.
    let mut foreign = Foreign::server(&world).await;
    foreign
        .call(
            "thread/resume",
            json!({"threadId": thread, "excludeTurns": true}),
        )
        .await;
    let client_id = format!("{id}.1");
    foreign
        .turn(&thread, &client_id, "hold:other echo:theirs")
        .await;
    world.model.wait_held("other").await.unwrap();
    let mut reader = Foreign::server(&world).await;
    let read = json!({"threadId": thread, "includeTurns": true});
    let read = reader.call("thread/read", read).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.last().unwrap()["status"], "interrupted", "{read:#}");

    let daemon = world.daemon().await;
    send.stderr.wait_for("another program has this").await;
    let why = world.json(&["why", "--json", &id]).await;
    assert_eq!(why["state"], "unclear", "{why:#}");
    world.model.release("other");
    foreign.until("turn/completed").await;
    foreign.quit().await;
    assert_answered(&send.ended().await, "theirs");
    assert_eq!(world.times_asked(text), 1, "it was not run again");
    assert_eq!(world.times_asked("[codex-bridge]"), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// N12: a recorded pid that belongs to somebody else by now is not signalled; only the very process is.
#[tokio::test]
async fn n12_reused_pid_is_never_signalled() {
    let world = World::new().await;
    assert_eq!(world.daemon().await.stop().await, Some(0));
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = i32::try_from(stranger.id()).unwrap();
    let stamp = bridge_host::process::stamp(pid).unwrap();
    let ledger = world.state_dir().join("ledger.db");
    let key = LedgerKey::load(&ledger.with_file_name("key"), Guard::Mode).unwrap();
    let ledger = SqliteLedger::open(ledger, &key, bridge_store::Options::default()).unwrap();
    let reused = ProcessStamp {
        start_ticks: stamp.start_ticks - 1,
        ..stamp
    };
    let boot = bridge_host::process::boot_id().unwrap();
    let other_boot = bridge_core::value::BootId::new("00000000-0000-0000-0000-000000000000");
    for (n, (keeper, boot_id)) in [(reused, boot), (stamp, other_boot)]
        .into_iter()
        .enumerate()
    {
        let incarnation = Incarnation {
            incarnation_id: IncarnationId::new(format!("old{n}")),
            transport: Transport::Socket,
            keeper,
            directory: world
                .state_dir()
                .join(format!("run/old{n}"))
                .display()
                .to_string(),
            codex_version: "0.166.0".to_owned(),
            codex_home: None,
            boot_id,
            started_at: Timestamp(1),
            ended_at: None,
            node_id: None,
        };
        let recorded = ledger
            .transact(Incarnate { incarnation }, Timestamp(1))
            .await;
        recorded.unwrap();
    }
    drop(ledger);
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:hello").await, "hello");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(stranger.try_wait().unwrap(), None, "the stranger lives");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
