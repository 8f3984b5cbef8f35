//! Recover: everything that can be read comes over, nothing that may have run is run again, and the damaged file is
//! kept as it was.

use crate::given::{World, answered, attach, begin, fail, key, message, text};
use crate::rig::{Messages, Place, every_state, finishes, messages, one_file, task, waits};
use bridge_core::port::{HeadFilter, Read, RowsError};
use bridge_core::step::{Redrive, ReserveSequence};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{Class, MessageId, Sandbox, TaskId, Timestamp};
use bridge_store::sqlite::{RecoverError, Recovered, RecoveryReport, Soundness, recover};
use bridge_store::{OpenError, Options, SqliteLedger};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

const PAGE: usize = 4096;
const NOW: Timestamp = Timestamp(2_000_000);

fn run(path: &Path, backup: Option<&Path>) -> Result<Recovered, RecoverError> {
    recover(path, |_| Ok(key()), backup, Path::new("/work"), NOW)
}

fn report(path: &Path, backup: Option<&Path>) -> RecoveryReport {
    match run(path, backup).unwrap() {
        Recovered::Done(report) => *report,
        other => panic!("{other:?}"),
    }
}

/// A sound ledger in one file, with a message in every state.
async fn sound() -> (Place, Vec<u8>) {
    let place = Place::new();
    let ledger = place.open();
    every_state(&ledger).await;
    let copy = one_file(&place.path, "sound.db");
    let bytes = fs::read(copy).unwrap();
    (place, bytes)
}

/// A recovered ledger opens, is sound, and no message in it could run that could not have run before.
async fn expect_safe(path: &Path, before: &Messages, report: &RecoveryReport) -> Messages {
    let ledger = SqliteLedger::open(path, &key(), Options::default()).unwrap();
    assert_eq!(ledger.quick_check().await, Ok(Soundness::Sound));
    let after = messages(path);
    assert_eq!(after.len() as u64, report.messages);
    for (id, (state, text)) in &after {
        let (was, said) = &before[id];
        assert!(
            state == was || state == "dead",
            "{id} was {was} and is {state}"
        );
        assert!(text == said || text.contains("was lost"), "{id}: {text}");
        let buried = report.buried.iter().any(|buried| buried.message_id == *id);
        assert!(
            buried || state == was,
            "{id} is {state} and nobody says why"
        );
    }
    for id in before.keys() {
        let named = after.contains_key(id) || report.lost.contains(id);
        assert!(named, "{id} vanished without a word");
    }
    let world = World::over(&ledger);
    for id in after.keys() {
        let id = id.clone();
        let owner = world.reads(move |rows| owner_of(rows, &id)).await;
        assert!(owner.is_none_or(|owner| owner == "ann" || owner == "(lost)"));
    }
    let heads = world
        .reads(|rows| rows.heads(NOW, &HeadFilter::default(), 500))
        .await;
    for head in heads {
        let id = head.message.message_id.as_str();
        assert!(waits(&before[id].0), "{id} was {}", before[id].0);
    }
    after
}

#[tokio::test]
async fn a_sound_ledger_is_left_alone() {
    let (_place, bytes) = sound().await;
    let sound = Place::new();
    fs::write(&sound.path, &bytes).unwrap();
    let Recovered::Sound { messages: count } = run(&sound.path, None).unwrap() else {
        panic!("it is sound");
    };
    assert_eq!(sound.names(), ["ledger.db"]);
    assert!(fs::read(&sound.path).unwrap() == bytes);
    assert_eq!(count, messages(&sound.path).len() as u64);
}

#[tokio::test]
async fn s3_recovers_from_any_lost_page() {
    let (place, bytes) = sound().await;
    let before = messages(&place.at("sound.db"));
    let mut kept = 0;
    let pages = bytes.len() / PAGE;
    for page in 0..pages {
        let damaged = Place::new();
        let mut broken = bytes.clone();
        broken[page * PAGE..(page + 1) * PAGE].fill(0xA5);
        fs::write(&damaged.path, &broken).unwrap();
        let report = match run(&damaged.path, None).unwrap() {
            Recovered::Sound { .. } => continue,
            Recovered::Done(report) => report,
            other @ Recovered::Finished { .. } => panic!("{other:?}"),
        };
        let aside = report.damaged.clone().unwrap();
        assert!(fs::read(aside).unwrap() == broken, "page {page}");
        let after = expect_safe(&damaged.path, &before, &report).await;
        kept += usize::from(after == before);
    }
    assert!(
        kept > pages / 4,
        "{kept} of {pages} lost nothing: indexes are made again"
    );
}

#[tokio::test]
async fn s3_recovers_damaged_header_or_end() {
    let (place, bytes) = sound().await;
    let before = messages(&place.at("sound.db"));
    let mut headless = bytes.clone();
    headless[..100].fill(0);
    let cut = bytes[..bytes.len() / 4 * 3].to_vec();
    let mut contentless = bytes.clone();
    for page in contents(&place.at("sound.db")) {
        contentless[(page - 1) * PAGE..page * PAGE].fill(0xA5);
    }
    let mut more = bytes.clone();
    more[..16 * PAGE].fill(0xA5);
    for (what, broken, at_least) in [
        ("header", headless, before.len()),
        ("end", cut, 1),
        ("contents", contentless, before.len()),
        ("every first page", more, 0),
    ] {
        let damaged = Place::new();
        fs::write(&damaged.path, &broken).unwrap();
        let error = SqliteLedger::open(&damaged.path, &key(), Options::default()).unwrap_err();
        assert!(error.is_damage(), "{what}: {error}");
        assert!(
            error.to_string().contains("codex-bridge recover"),
            "{error}"
        );
        let report = report(&damaged.path, None);
        let after = expect_safe(&damaged.path, &before, &report).await;
        assert!(after.len() >= at_least, "{what}: {report:#?}");
        let aside = report.damaged.unwrap();
        assert!(fs::read(aside).unwrap() == broken);
        let left = damaged.names();
        assert!(
            !left.iter().any(|name| name.contains("recovering")),
            "{left:?}"
        );
    }
}

/// A notice that was written before a redrive stays before what others were answered since.
#[tokio::test]
async fn replies_of_redriven_messages_keep_places() {
    let place = Place::new();
    let ledger = place.open();
    let mut world = World::over(&ledger);
    world.runs("k", "m1", Sandbox::ReadOnly).await;
    world.does(fail("m1", Class::Permanent)).await;
    world.runs("k", "m2", Sandbox::ReadOnly).await;
    world.does(answered("m2", "second", None)).await;
    let redrive = Redrive {
        message_id: message("m1"),
        by: "me".to_owned(),
        not_before: None,
    };
    world.does(redrive).await;
    let copy = one_file(&place.path, "damaged.db");
    let conn = Connection::open(&copy).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; DELETE FROM message_text WHERE of_message = 'm2'",
    )
    .unwrap();
    drop(conn);
    report(&copy, None);
    let recovered = SqliteLedger::open(&copy, &key(), Options::default()).unwrap();
    let lane = |rows: &dyn Read| {
        let of = |id: &str| rows.replies(&MessageId::new(id));
        Ok((of("m1")?, of("m2")?))
    };
    let (first, second) = World::over(&recovered).reads(lane).await;
    assert!(first[0].seq < second[0].seq, "{first:?} {second:?}");
}

/// The pages that say which tables there are.
fn contents(path: &Path) -> Vec<usize> {
    let conn = Connection::open(path).unwrap();
    let query = "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'";
    let mut statement = conn.prepare(query).unwrap();
    let pages = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    let pages: Vec<usize> = pages
        .map(|page| usize::try_from(page.unwrap()).unwrap())
        .collect();
    assert!(pages.len() > 1);
    pages
}

#[tokio::test]
async fn lost_turn_is_never_rerun() {
    let (place, _bytes) = sound().await;
    let copy = place.at("sound.db");
    let conn = Connection::open(&copy).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM turn; DELETE FROM instance")
        .unwrap();
    drop(conn);
    let before = messages(&copy);
    let damaged = Place::new();
    fs::rename(&copy, &damaged.path).unwrap();
    destroy_an_index(&damaged.path);
    let report = report(&damaged.path, None);
    let after = expect_safe(&damaged.path, &before, &report).await;
    for id in ["starting", "running", "unclear"] {
        assert_eq!(after[id].0, "dead", "{id}");
        let buried = report
            .buried
            .iter()
            .find(|one| one.message_id == id)
            .unwrap();
        assert!(buried.what.contains("turn was lost"), "{buried:?}");
    }
    for id in ["received0", "claimed", "held"] {
        assert_eq!(after[id].0, before[id].0, "nothing was begun: it is safe");
    }
    let conn = Connection::open(&damaged.path).unwrap();
    let notice = "SELECT body FROM reply JOIN reply_text USING (row) WHERE message_id = 'running' AND state = 'queued'";
    let notice: String = conn.query_row(notice, [], |row| row.get(0)).unwrap();
    assert!(notice.contains("There is no answer"), "{notice}");
}

/// Damage that is certain to be seen and costs no row.
fn destroy_an_index(path: &Path) {
    let conn = Connection::open(path).unwrap();
    let root: usize = conn
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'message_due'",
            [],
            |row| {
                row.get::<_, i64>(0)
                    .map(|root| usize::try_from(root).unwrap())
            },
        )
        .unwrap();
    drop(conn);
    let mut bytes = fs::read(path).unwrap();
    bytes[(root - 1) * PAGE..root * PAGE].fill(0xA5);
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn damaged_log_makes_waiting_messages_dead() {
    let place = Place::new();
    let ledger = place.open();
    let mut world = World::over(&ledger);
    for n in 0..20 {
        world
            .receives(&[(&format!("k{n}"), &format!("m{n}"))])
            .await;
    }
    // As after a kill: the log has it all.
    let killed = Place::new();
    for (name, to) in [
        ("ledger.db", killed.path.clone()),
        ("ledger.db-wal", killed.at("ledger.db-wal")),
    ] {
        fs::copy(place.at(name), to).unwrap();
    }
    let log = killed.at("ledger.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.len() / 4 * 3;
    bytes[at] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let error = SqliteLedger::open(&killed.path, &key(), Options::default()).unwrap_err();
    assert!(
        error.is_damage() && error.to_string().contains("its log is damaged"),
        "{error}"
    );
    assert!(fs::read(&log).unwrap() == bytes, "it was not touched");
    let report = report(&killed.path, None);
    let after = messages(&killed.path);
    assert!((1..20).contains(&after.len()), "{}", after.len());
    for (id, (state, _)) in after {
        assert_eq!(state, "dead", "{id}");
    }
    let aside = report.damaged.unwrap().display().to_string();
    assert!(fs::read(format!("{aside}-wal")).unwrap() == bytes);
    assert!(!log.exists() || fs::read(&log).unwrap() != bytes);
}

#[tokio::test]
async fn backup_fills_gaps_without_rerunning_turns() {
    let place = Place::new();
    let ledger = place.open();
    let mut world = World::over(&ledger);
    finishes(&mut world, "a", "old").await;
    world.receives(&[("b", "since")]).await;
    let backup = one_file(&place.path, "backup.db");
    assert_eq!(world.claims().await, "since");
    world.does(begin("since", Sandbox::WorkspaceWrite)).await;
    world.does(attach("since")).await;
    world.does(answered("since", "it was run", None)).await;
    world.does(text("c", "after")).await;
    let damaged = Place::new();
    let garbage = vec![0xA5; 50 * PAGE];
    fs::write(&damaged.path, &garbage).unwrap();
    let error = run(&damaged.path, None).unwrap_err();
    assert!(matches!(error, RecoverError::Unreadable { .. }), "{error}");
    assert!(fs::read(&damaged.path).unwrap() == garbage);
    assert_eq!(damaged.names(), ["ledger.db"]);
    let report = report(&damaged.path, Some(&backup));
    let after = messages(&damaged.path);
    assert_eq!(after["old"].0, "done");
    assert_eq!(
        after["since"].0, "dead",
        "the backup says received, and it was run since"
    );
    assert_eq!(after.len(), 2);
    assert_eq!(report.buried.len(), 1);
    let table = report
        .tables
        .iter()
        .find(|table| table.table == "message")
        .unwrap();
    assert_eq!((table.kept, table.from_backup), (0, 2));
}

/// Who owns the task that a message is of, if it can be read.
fn owner_of(rows: &dyn Read, id: &str) -> Result<Option<String>, RowsError> {
    let Some(task_id) = rows.task_of_message(&MessageId::new(id))? else {
        return Ok(None);
    };
    let view = TaskSnapshot::load(rows, &task_id)?;
    Ok(Some(view.unwrap().task.owner))
}

async fn told(ledger: &SqliteLedger, id: &str, more: u32) -> u64 {
    let reserve = ReserveSequence {
        task_id: TaskId::new(id),
        more,
    };
    World::over(ledger).does(reserve).await.outcome.unwrap()
}

#[tokio::test]
async fn recovery_never_reuses_event_numbers() {
    let place = Place::new();
    let ledger = place.open();
    World::over(&ledger).does(task("m1")).await;
    assert_eq!(told(&ledger, "e-m1", 10).await, 1);
    let backup = one_file(&place.path, "backup.db");
    assert_eq!(told(&ledger, "e-m1", 100).await, 11);
    let damaged = Place::new();
    fs::write(&damaged.path, vec![0xA5; 50 * PAGE]).unwrap();
    report(&damaged.path, Some(&backup));
    let recovered = damaged.open();
    assert!(told(&recovered, "e-m1", 1).await > 110);
    let world = World::over(&recovered);
    let view = world.reads(|rows| TaskSnapshot::load(rows, &TaskId::new("e-m1")));
    let view = view.await.unwrap();
    assert_eq!(view.inputs[0].original, "m1 as it was said");
}

#[tokio::test]
async fn lost_task_row_is_rebuilt_from_inputs() {
    let place = Place::new();
    let ledger = place.open();
    let world = World::over(&ledger);
    world.does(task("m1")).await;
    world.does(task("m2")).await;
    told(&ledger, "e-m1", 100).await;
    let damaged = Place::new();
    fs::rename(one_file(&place.path, "now.db"), &damaged.path).unwrap();
    let conn = Connection::open(&damaged.path).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; DELETE FROM task WHERE task_id = 'e-m1'; \
         DELETE FROM task_input WHERE task_id = 'e-m2'",
    )
    .unwrap();
    drop(conn);
    destroy_an_index(&damaged.path);
    report(&damaged.path, None);
    let recovered = damaged.open();
    assert_eq!(recovered.quick_check().await, Ok(Soundness::Sound));
    assert!(told(&recovered, "e-m1", 1).await > 100);
    let world = World::over(&recovered);
    let owner = world.reads(|rows| owner_of(rows, "m1")).await;
    assert_eq!(owner.as_deref(), Some("ann"));
    let inputless = world.reads(|rows| rows.task(&TaskId::new("e-m2")));
    assert_eq!(inputless.await, None);
}

#[tokio::test]
async fn recovery_prefers_ledger_rows_over_backup() {
    let (place, _bytes) = sound().await;
    let old = place.at("sound.db");
    let ledger = place.open();
    let world = World::over(&ledger);
    world.does(answered("running", "done since", None)).await;
    world.does(text("new", "new")).await;
    let before = messages(&place.path);
    let damaged = Place::new();
    fs::rename(one_file(&place.path, "now.db"), &damaged.path).unwrap();
    destroy_an_index(&damaged.path);
    let report = report(&damaged.path, Some(&old));
    let after = expect_safe(&damaged.path, &before, &report).await;
    assert_eq!(after, before, "{report:#?}");
    assert!(report.buried.is_empty() && report.lost.is_empty());
}

#[tokio::test]
async fn interrupted_recovery_resumes_at_swap() {
    let (place, bytes) = sound().await;
    let before = messages(&place.at("sound.db"));
    let damaged = Place::new();
    fs::write(&damaged.path, vec![0xA5; 8 * PAGE]).unwrap();
    fs::write(damaged.at("ledger.db-wal"), "an old log").unwrap();
    fs::write(damaged.at("ledger.db.recovered"), bytes).unwrap();
    for _ in 0..2 {
        let error = SqliteLedger::open(&damaged.path, &key(), Options::default()).unwrap_err();
        assert!(matches!(error, OpenError::RecoveryCut { .. }), "{error}");
        // Cut again, after the damaged file has its second name.
        fs::hard_link(&damaged.path, damaged.at("cut")).ok();
    }
    let Recovered::Finished {
        damaged: Some(aside),
    } = run(&damaged.path, None).unwrap()
    else {
        panic!("it goes on");
    };
    assert!(fs::read(&aside).unwrap() == vec![0xA5; 8 * PAGE]);
    assert_eq!(
        fs::read_to_string(format!("{}-wal", aside.display())).unwrap(),
        "an old log"
    );
    let ledger = damaged.open();
    assert_eq!(ledger.quick_check().await, Ok(Soundness::Sound));
    assert_eq!(messages(&damaged.path), before);
}

#[tokio::test]
async fn missing_or_empty_ledger_is_not_recreated() {
    let (place, _bytes) = sound().await;
    let backup = place.at("sound.db");
    let empty = Place::new();
    fs::write(&empty.path, "").unwrap();
    let error = SqliteLedger::open(&empty.path, &key(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("it is empty"), "{error}");
    let logged = Place::new();
    fs::write(logged.at("ledger.db-wal"), "what is left").unwrap();
    let error = SqliteLedger::open(&logged.path, &key(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("its log is there"), "{error}");
    assert_eq!(logged.names(), ["ledger.db-wal"]);
    for damaged in [empty, logged, Place::new()] {
        let report = report(&damaged.path, Some(&backup));
        assert!(report.messages > 0);
        assert!(
            messages(&damaged.path)
                .values()
                .all(|(state, _)| !waits(state))
        );
    }
    let nothing = Place::new();
    let error = run(&nothing.path, None).unwrap_err();
    assert!(matches!(error, RecoverError::NoLedger { .. }), "{error}");
    let error = run(&nothing.path, Some(&nothing.at("none.db"))).unwrap_err();
    assert!(matches!(error, RecoverError::NoBackup { .. }), "{error}");
}

/// A text that decayed is not run and not sent; with a backup it is whole again.
#[tokio::test]
async fn s3_detects_corrupted_texts() {
    let (place, bytes) = sound().await;
    let before = messages(&place.at("sound.db"));
    for (text, id) in [
        ("text of received3", "received3"),
        ("answer of done2", "done2"),
    ] {
        let mut broken = bytes.clone();
        let mut at = 0;
        while let Some(next) = find(&broken[at..], text.as_bytes()) {
            broken[at + next] ^= 0x20;
            at += next + text.len();
        }
        let damaged = Place::new();
        fs::write(&damaged.path, &broken).unwrap();
        let ledger = damaged.open();
        let Ok(Soundness::Damaged { findings }) = ledger.quick_check().await else {
            panic!("{id}: not found");
        };
        assert!(
            findings.iter().any(|finding| finding.contains(id)),
            "{findings:?}"
        );
        assert!(ledger.gauge().admit().is_err());
        let alone = Place::new();
        fs::write(&alone.path, &broken).unwrap();
        let found = report(&alone.path, None);
        let after = expect_safe(&alone.path, &before, &found).await;
        assert!(!waits(&after[id].0), "{id} is {}", after[id].0);
        let filled = Place::new();
        fs::write(&filled.path, &broken).unwrap();
        let found = report(&filled.path, Some(&place.at("sound.db")));
        let after = expect_safe(&filled.path, &before, &found).await;
        assert_eq!(after, before, "{found:#?}");
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}
