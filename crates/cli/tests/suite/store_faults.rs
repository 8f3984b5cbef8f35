//! The ledger's faults seen from outside: a full disk, a lock that others hold, damage at start and later; and the
//! commands that mend it. The store's own part of these rows is in `crates/store/tests/faults`.

use crate::tasks::{call, get};
use crate::world::{World, within};
use rusqlite::Connection;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const PAGE: usize = 4096;

fn ledger(world: &World) -> PathBuf {
    world.state_dir().join("ledger.db")
}

/// Offers a message and gives the whole answer, head and body.
async fn post(world: &World, text: &str) -> String {
    let mut stream = UnixStream::connect(world.state_dir().join("api.sock"))
        .await
        .unwrap();
    let body = serde_json::json!({ "text": text }).to_string();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIdempotency-Key: {text}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    answer
}

/// Asks for the status until the ledger's part of it is as wanted.
async fn ledger_is(world: &World, what: &str, wanted: impl Fn(&serde_json::Value) -> bool) {
    let mut look = tokio::time::interval(Duration::from_millis(20));
    let waiting = async {
        loop {
            look.tick().await;
            let status = world.json(&["status", "--json"]).await;
            if wanted(&status["health"]["ledger"]) {
                return;
            }
        }
    };
    within(what, waiting).await;
}

/// Moves the log into the file, so that what is damaged there can't be mended from it.
fn empty_log(ledger: &Path) {
    let conn = Connection::open(ledger).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

/// Destroys a page that is not looked at before the whole file is.
fn destroy_unused_table(ledger: &Path) {
    let conn = Connection::open(ledger).unwrap();
    let query = "SELECT rootpage FROM sqlite_schema WHERE name = 'cursor'";
    let root: i64 = conn.query_row(query, [], |row| row.get(0)).unwrap();
    drop(conn);
    empty_log(ledger);
    let root = usize::try_from(root).unwrap();
    let mut bytes = std::fs::read(ledger).unwrap();
    bytes[(root - 1) * PAGE..root * PAGE].fill(0xA5);
    std::fs::write(ledger, bytes).unwrap();
}

#[tokio::test]
async fn s3_corrupt_ledger_recovers_without_rerun() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:before").await, "before");
    let mut held = world
        .start(&["send", "-c", "b", "hold:gate echo:held"])
        .await;
    let id = held.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    daemon.kill_9().await;
    empty_log(&ledger(&world));
    let mut bytes = std::fs::read(ledger(&world)).unwrap();
    bytes[..16].fill(0);
    std::fs::write(ledger(&world), &bytes).unwrap();
    let ended = world.run(&["run"]).await;
    ended.must(65, &["ledger.db", "codex-bridge recover", "--from"]);
    let doctor = world.run(&["doctor"]).await;
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("codex-bridge recover"), "{doctor:?}");
    assert!(
        std::fs::read(ledger(&world)).unwrap() == bytes,
        "nobody touched it"
    );

    let report = world.json(&["recover", "--json"]).await;
    assert_eq!(report["outcome"], "recovered", "{report:#}");
    assert_eq!(report["messages"], 2);
    assert_eq!(report["lost"], serde_json::json!([]));
    assert_eq!(report["buried"], serde_json::json!([]));
    let damaged = PathBuf::from(report["damaged"].as_str().unwrap());
    assert!(std::fs::read(damaged).unwrap() == bytes);
    let again = world.run(&["recover"]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(
        again.stdout.contains("the database is sound (2 messages)"),
        "{again:?}"
    );

    let daemon = world.daemon().await;
    world.model.release("gate");
    let shown = world.finished(&id).await;
    assert_eq!(shown["answer"]["text"], "held", "{shown:#}");
    assert_eq!(world.times_asked("hold:gate"), 1);
    assert_eq!(world.ask("a", "echo:after").await, "after");
    assert_eq!(
        world.shown_with("echo:after"),
        ["echo:before", "echo:after"]
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn s3_late_corruption_closes_inbox() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:before").await, "before");
    assert_eq!(daemon.stop().await, Some(0));
    destroy_unused_table(&ledger(&world));
    let mut daemon = world.daemon().await;
    daemon
        .log
        .wait_for("the database is damaged: nothing more is taken in")
        .await;
    let refused = world.run(&["send", "--wait", "1", "echo:no"]).await;
    refused.must(1, &["the database is damaged", "codex-bridge recover"]);
    assert_eq!(world.times_asked("echo:no"), 0);
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["health"]["ready"], false, "{status:#}");
    assert_eq!(status["health"]["ledger"]["health"], "damaged");
    let words = world.run(&["status"]).await.stdout;
    assert!(
        words.contains("not ready") && words.contains("codex-bridge recover"),
        "{words}"
    );
    let running = world.run(&["recover"]).await;
    running.must(1, &["another daemon", &format!("(pid {})", daemon.pid())]);
    assert_eq!(daemon.stop().await, Some(0));
    let report = world.run(&["recover"]).await;
    assert_eq!(report.code, Some(0), "{report:?}");
    for words in [
        "a new database is in place, with 1 messages",
        "the damaged one is kept as",
        "what was wrong",
    ] {
        assert!(report.stdout.contains(words), "{words}: {report:?}");
    }
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:after").await, "after");
    assert_eq!(
        world.shown_with("echo:after"),
        ["echo:before", "echo:after"]
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn restored_backup_reruns_nothing() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:before").await, "before");
    let mut held = world
        .start(&["send", "-c", "b", "hold:gate echo:ran"])
        .await;
    let id = held.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let made = world.json(&["backup", "--json"]).await;
    assert_eq!(made["messages"], 2, "{made:#}");
    let backup = made["path"].as_str().unwrap().to_owned();
    assert!(
        Path::new(&backup).starts_with(world.state_dir().canonicalize().unwrap().join("backups"))
    );
    let taken = world.run(&["backup", &backup]).await;
    taken.must(1, &["exists already"]);
    let replaced = world.run(&["backup", &backup, "--replace"]).await;
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    assert!(replaced.stdout.contains("messages  2"), "{replaced:?}");
    world.model.release("gate");
    assert_eq!(held.ended().await.stdout.trim(), "ran");
    assert_eq!(daemon.stop().await, Some(0));

    std::fs::write(ledger(&world), vec![0xA5; 40 * PAGE]).unwrap();
    let nothing = world.run(&["recover"]).await;
    nothing.must(1, &["nothing can be read", "--from"]);
    let report = world.json(&["recover", "--from", &backup, "--json"]).await;
    assert_eq!(report["buried"][0]["message_id"], id.as_str(), "{report:#}");
    let daemon = world.daemon().await;
    let shown = world.finished(&id).await;
    assert_eq!(shown["state"], "dead", "{shown:#}");
    assert!(
        shown["why"]["now"].as_str().unwrap().contains("backup"),
        "{shown:#}"
    );
    assert_eq!(world.times_asked("hold:gate"), 1, "it ran once");
    assert_eq!(world.ask("a", "echo:after").await, "after");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn backup_and_recover_say_what_is_missing() {
    let world = World::new().await;
    world
        .run(&["backup"])
        .await
        .must(1, &["no state directory"]);
    world
        .run(&["recover"])
        .await
        .must(1, &["no state directory"]);
    assert!(!world.state_dir().exists());
    let daemon = world.daemon().await;
    assert_eq!(daemon.stop().await, Some(0));
    std::fs::remove_file(ledger(&world)).unwrap();
    let _none = std::fs::remove_file(world.state_dir().join("ledger.db-wal"));
    world
        .run(&["backup"])
        .await
        .must(1, &["there is no database at"]);
    world
        .run(&["recover"])
        .await
        .must(1, &["there is no database at", "codex-bridge run"]);
    world
        .run(&["recover", "--from", "nowhere.db"])
        .await
        .must(1, &["no backup at nowhere.db"]);
}

/// S2 and S10: while another process holds the ledger's lock, commits take long; the door says so and nothing is lost.
#[tokio::test]
async fn s10_slow_ledger_applies_backpressure() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:before").await, "before");
    let other = Connection::open(ledger(&world)).unwrap();
    other.busy_timeout(Duration::from_secs(30)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = world.start(&["send", "-c", "b", "echo:patient"]).await;
    ledger_is(&world, "the door to close", |ledger| {
        ledger["closed"]
            .as_str()
            .is_some_and(|why| why.contains("slow"))
    })
    .await;
    let answer = post(&world, "echo:refused").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.to_lowercase().contains("retry-after: 5"), "{answer}");
    assert!(answer.contains("nothing was stored"), "{answer}");
    other.execute_batch("ROLLBACK").unwrap();
    let ended = waiting.ended().await;
    assert_eq!(ended.stdout.trim(), "patient", "{ended:?}");
    ledger_is(&world, "the door to open", |ledger| {
        ledger["closed"].is_null()
    })
    .await;
    assert_eq!(world.ask("a", "echo:after").await, "after");
    assert_eq!(world.times_asked("echo:patient"), 1);
    assert_eq!(world.times_asked("echo:refused"), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Lists leave it out, whoever names it learns which row it is, and a start takes up everything else.
#[tokio::test]
async fn lists_leave_out_unreadable_rows() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    for key in ["a", "b"] {
        assert_eq!(world.ask(key, "echo:fine").await, "fine");
    }
    let newest = get(&world, "/v1/messages").await;
    let messages = newest["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{newest:#}");
    let damaged = messages[0]["message_id"].as_str().unwrap().to_owned();
    let other = Connection::open(ledger(&world)).unwrap();
    other
        .execute_batch("UPDATE conversation SET sandbox = 'nonsense' WHERE external_key = 'b'")
        .unwrap();
    let listed = get(&world, "/v1/messages").await;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 1);
    let (status, told) = call(&world, &format!("GET /v1/messages/{damaged}"), None).await;
    assert_eq!(status, 500, "{told:#}");
    let why = told["detail"].as_str().unwrap();
    assert!(why.starts_with("read conversation "), "{why}");
    assert!(why.contains("`codex-bridge doctor`"), "{why}");
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:again").await, "again");
    assert_eq!(daemon.stop().await, Some(0));
}

const NAMESPACE: &str = "CODEX_BRIDGE_TEST_NAMESPACE";

/// Runs this test again where it can mount a disk that nobody else sees; true in there.
fn may_mount() -> bool {
    if std::env::var_os(NAMESPACE).is_some() {
        return true;
    }
    let test = std::thread::current().name().unwrap().to_owned();
    let mut unshare = std::process::Command::new("unshare");
    unshare.arg("--mount");
    if !nix::unistd::getuid().is_root() {
        unshare.arg("--map-root-user");
    }
    let ended = unshare
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1", &test])
        .env(NAMESPACE, "1")
        .output()
        .unwrap();
    let (out, said) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    if said.contains("unshare:") {
        eprintln!(
            "NOT TESTED on a real disk: this user may not mount anything ({})",
            said.trim()
        );
        return false;
    }
    assert!(
        ended.status.success() && out.contains("1 passed"),
        "{out}\n{said}"
    );
    false
}

/// A state directory on a disk of 64 MiB.
fn small_disk(world: &World) {
    std::fs::create_dir(world.state_dir()).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs"])
        .arg(world.state_dir())
        .status()
        .unwrap();
    assert!(mounted.success());
}

#[tokio::test]
async fn s1_low_disk_closes_inbox() {
    if !may_mount() {
        return;
    }
    let world = World::new().await;
    small_disk(&world);
    let daemon = world.daemon().await;
    let mut held = world
        .start(&["send", "-c", "a", "hold:gate echo:finished"])
        .await;
    held.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let ballast = world.state_dir().join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    ledger_is(&world, "a low disk", |ledger| {
        let free = ledger["free_bytes"].as_u64().unwrap();
        let low = ledger["low_bytes"].as_u64().unwrap();
        if free >= low {
            let piece = usize::try_from(free - low).unwrap() + PAGE;
            (&file).write_all(&vec![0; piece]).unwrap();
        }
        free < low
    })
    .await;
    file.flush().unwrap();
    let refused = world.run(&["send", "-c", "b", "echo:no"]).await;
    refused.must(
        1,
        &["not sent", "the disk of the database has only", "Make room"],
    );
    let answer = post(&world, "echo:no").await;
    assert!(answer.starts_with("HTTP/1.1 507"), "{answer}");
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["health"]["ready"], false, "{status:#}");
    world.model.release("gate");
    let ended = held.ended().await;
    assert_eq!(ended.stdout.trim(), "finished", "{ended:?}");
    std::fs::remove_file(&ballast).unwrap();
    drop(file);
    assert_eq!(world.ask("b", "echo:yes").await, "yes");
    assert_eq!(world.times_asked("echo:no"), 0);
    assert_eq!(daemon.stop().await, Some(0));
}
