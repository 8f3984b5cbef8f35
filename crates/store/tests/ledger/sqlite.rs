//! What only the store on disk promises: durability, grouping, isolation, and care for its file.

use crate::fixture::{Fixture, OnDisk};
use crate::given::{World, Write, begin, conversation, key, message, request, text};
use bridge_core::port::{Change, Ledger, LedgerError, RowsError};
use bridge_core::step::{ExpireOutcome, ExpireRequests, Resume};
use bridge_core::value::{Message, Request, RequestId, Sandbox, Timestamp};
use bridge_store::sqlite::{RecoverError, Soundness, recover};
use bridge_store::{OpenError, Options, SqliteLedger};
use rusqlite::Connection;
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

#[tokio::test]
async fn panicking_read_keeps_reader_alive() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        readers: 1,
        ..Options::default()
    };
    let ledger = SqliteLedger::open(directory.path().join("ledger.db"), &key(), options).unwrap();
    let read = ledger.read(|rows| -> Result<(), RowsError> {
        rows.backlog()?;
        panic!("on purpose")
    });
    assert!(matches!(read.await, Err(LedgerError::Unavailable { .. })));
    World::over(&ledger).does(text("a", "m1")).await;
    assert_eq!(ledger.read(|rows| rows.backlog()).await, Ok(1));
}

#[tokio::test]
async fn foreign_lock_fails_only_temporarily() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let options = Options {
        busy_timeout: Duration::from_millis(10),
        ..Options::default()
    };
    let ledger = SqliteLedger::open(&path, &key(), options).unwrap();
    let world = World::over(&ledger);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = world.tries(text("a", "m1")).await.unwrap_err();
    assert!(
        matches!(error, LedgerError::Rows(RowsError::Backend { .. })),
        "{error}"
    );
    assert_eq!(world.reads(|rows| rows.backlog()).await, 0);
    other.execute_batch("ROLLBACK").unwrap();
    world.does(text("a", "m1")).await;
}

fn is_unreadable<T>(read: &Result<T, LedgerError>) -> bool {
    matches!(read, Err(LedgerError::Rows(RowsError::Unreadable { .. })))
}

/// Lists go past it, whoever asks for it is told which row it is, and everybody else goes on.
#[tokio::test]
async fn unreadable_row_stops_nothing_else() {
    let disk = OnDisk::open();
    let mut world = World::over(disk.ledger());
    let all = ["m1", "m2", "m3", "m4"];
    world
        .receives(&[("a", "m1"), ("b", "m2"), ("c", "m3"), ("c", "m4")])
        .await;
    let other = Connection::open(disk.path()).unwrap();
    other
        .execute_batch(
            "UPDATE message SET failure_class = 'nonsense', failure_reason = 'x' WHERE message_id = 'm1';
             UPDATE conversation SET sandbox = 'nonsense' WHERE external_key = 'b'",
        )
        .unwrap();
    let ids = |found: Vec<Message>| -> Vec<String> {
        let ids = found.into_iter().map(|one| one.message_id.to_string());
        ids.collect()
    };
    let newest = world.reads(|rows| rows.newest_messages(3)).await;
    assert_eq!(ids(newest), ["m4", "m3", "m2"]);
    let older = world.reads(|rows| rows.older_messages(&message("m4"), 2));
    assert_eq!(
        ids(older.await),
        ["m3", "m2"],
        "a page is full all the same"
    );
    let open = world.reads(|rows| rows.unfinished(None, 9)).await;
    assert_eq!(ids(open), all[1..], "a start takes up the others");
    let listed = world.reads(|rows| rows.conversations(None, 9)).await;
    assert_eq!(listed.len(), 2);
    let shown = world.reads(|rows| rows.messages_before(&conversation("a"), None, 9));
    assert_eq!(ids(shown.await), Vec::<String>::new());
    let all_of_task = disk
        .ledger()
        .read(|rows| rows.last_messages(&conversation("a"), 9));
    assert!(
        is_unreadable(&all_of_task.await),
        "nothing is concluded from a list without it"
    );

    let read = world.ledger.read(|rows| rows.message(&message("m1"))).await;
    let Err(LedgerError::Rows(RowsError::Unreadable { what, why })) = read else {
        panic!("{read:?}");
    };
    assert_eq!(what, "message m1");
    assert!(why.contains("nonsense"), "{why}");
    let begun = world.tries(begin("m1", Sandbox::ReadOnly)).await;
    let unreadable = LedgerError::Rows(RowsError::Unreadable { what, why });
    assert_eq!(
        begun.unwrap_err(),
        unreadable,
        "nothing is decided about it"
    );

    assert_eq!(disk.ledger().gauge().admit(), Ok(()));
    assert_eq!(world.claims().await, "m3");
    world.does(text("d", "m5")).await;
    assert_eq!(world.claims().await, "m5");
}

/// Its time passes for nobody; the others' time does. A start takes up the others too.
#[tokio::test]
async fn unreadable_request_keeps_none_back() {
    let disk = OnDisk::open();
    let mut world = World::over(disk.ledger());
    let all = ["m1", "m2", "m3"];
    for (key, id) in ["a", "b", "c"].into_iter().zip(all) {
        world.runs(key, id, Sandbox::ReadOnly).await;
        let request = Request {
            deadline: world.now.plus_ms(1_000),
            created_at: world.now,
            ..request(id, &format!("r-{id}"))
        };
        let asked = Write(vec![Change::NewRequest(request)]);
        world.does(asked).await;
    }
    let other = Connection::open(disk.path()).unwrap();
    other
        .execute_batch(
            "PRAGMA ignore_check_constraints = 1;
             UPDATE request SET answer_kind = 'nonsense' WHERE request_id = 'r-m1';
             UPDATE message SET failure_class = 'nonsense', failure_reason = 'x' WHERE message_id = 'm2'",
        )
        .unwrap();
    let resume = |id| Resume {
        message_id: message(id),
    };
    assert!(is_unreadable(&world.tries(resume("m2")).await.map(|_| ())));
    world.pass_ms(2_000);
    let expire = |now, reminder_ms| ExpireRequests { now, reminder_ms };
    let reminded = world.does(expire(world.now.plus_ms(-1_500), Some(100)));
    let did = ExpireOutcome::Did(RequestId::new("r-m3"));
    assert_eq!(reminded.await.outcome, did);
    let declined = world.does(expire(world.now, Some(100))).await;
    assert_eq!(declined.outcome, did);
    let idle = world.does(expire(world.now, Some(100))).await;
    assert_eq!(
        idle.outcome,
        ExpireOutcome::Idle { next_due: None },
        "nothing is due at once for what can't be read"
    );
    world.does(resume("m3")).await;
}

#[tokio::test]
async fn damaged_row_is_named() {
    let disk = OnDisk::open();
    let mut world = World::over(disk.ledger());
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    let other = Connection::open(disk.path()).unwrap();
    other
        .execute_batch("UPDATE message_text SET body = 'another' WHERE of_message = 'm1'")
        .unwrap();
    let read = world.ledger.read(|rows| rows.message(&message("m1"))).await;
    let Err(LedgerError::Rows(RowsError::Damaged { what, why })) = read else {
        panic!("{read:?}");
    };
    assert_eq!(what, "message m1");
    assert!(why.contains("not what was stored"), "{why}");
    let error = world
        .tries(begin("m1", Sandbox::ReadOnly))
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        LedgerError::Rows(RowsError::Damaged { .. })
    ));
    assert_eq!(world.message("m2").await.message_id, message("m2"));
}

#[test]
fn the_files_are_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let sound = directory.path().join("sound.db");
    drop(SqliteLedger::open(&sound, &key(), Options::default()).unwrap());
    fs::copy(&sound, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let _ledger = SqliteLedger::open(&path, &key(), Options::default()).unwrap();
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let mode = fs::metadata(directory.path().join(name))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
}

/// Opening must fail, and must leave the file as it is.
fn refused(path: &Path) -> OpenError {
    let before = fs::read(path).unwrap();
    let error = SqliteLedger::open(path, &key(), Options::default()).unwrap_err();
    assert_eq!(fs::read(path).unwrap(), before);
    error
}

#[test]
fn newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    drop(SqliteLedger::open(&path, &key(), Options::default()).unwrap());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(other);
    let error = SqliteLedger::open(&path, &key(), Options::default()).unwrap_err();
    assert!(
        matches!(error, OpenError::Newer { found: 99, .. }),
        "{error}"
    );
    let said = error.to_string();
    assert!(said.contains("99") && said.contains("up to 1;"), "{said}");
}

#[test]
fn unreleased_ledger_is_refused_untouched() {
    for (id, version) in [("0x63786272", 12), ("0x6378626c", 1)] {
        unreleased_is_refused(id, version);
    }
}

fn unreleased_is_refused(id: &str, version: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch(&format!(
            "PRAGMA application_id = {id}; PRAGMA user_version = {version}; CREATE TABLE message (row INTEGER)",
        ))
        .unwrap();
    drop(other);
    let error = refused(&path);
    assert!(matches!(error, OpenError::Unreleased { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("Move `ledger.db*` out of the state directory"),
        "{text}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    for backup in [None, Some(path.as_path())] {
        let ledger = match backup {
            Some(_) => directory.path().join("missing.db"),
            None => path.clone(),
        };
        let made = |_| Ok(key());
        let error = recover(&ledger, made, backup, directory.path(), Timestamp(0)).unwrap_err();
        assert!(
            matches!(error, RecoverError::Open(OpenError::Unreleased { .. })),
            "{error}"
        );
    }
}

#[test]
fn non_database_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    fs::write(&path, "a letter to my grandmother, ".repeat(200)).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch("CREATE TABLE photo (id INTEGER)")
        .unwrap();
    drop(other);
    let error = refused(&path);
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[test]
fn missing_directory_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing").join("ledger.db");
    let error = SqliteLedger::open(&path, &key(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::File { .. }), "{error}");
    assert!(error.source().is_some());
}

/// Every page in turn is overwritten: opening refuses the file, or the check does.
#[tokio::test]
async fn a_destroyed_page_is_found() {
    let disk = OnDisk::open();
    let mut world = World::over(disk.ledger());
    for n in 0..20 {
        world
            .runs(&format!("k{n}"), &format!("m{n}"), Sandbox::ReadOnly)
            .await;
    }
    assert_eq!(disk.ledger().quick_check().await, Ok(Soundness::Sound));
    let copies = tempfile::tempdir().unwrap();
    let sound = copies.path().join("sound.db");
    let other = Connection::open(disk.path()).unwrap();
    other
        .execute("VACUUM INTO ?1", [sound.to_str().unwrap()])
        .unwrap();
    let bytes = fs::read(&sound).unwrap();
    let page_size = 4096;
    for page in 0..bytes.len() / page_size {
        let mut broken = bytes.clone();
        broken[page * page_size..(page + 1) * page_size].fill(0xA5);
        let path = copies.path().join(format!("broken-{page}.db"));
        fs::write(&path, broken).unwrap();
        match SqliteLedger::open(&path, &key(), Options::default()) {
            Err(OpenError::NotADatabase { .. } | OpenError::Damaged { .. }) => {}
            Err(other) => panic!("page {page}: {other:?}"),
            Ok(ledger) => match ledger.quick_check().await.unwrap() {
                Soundness::Damaged { findings } => assert!(!findings.is_empty()),
                Soundness::Sound => panic!("page {page} is destroyed, and the check says sound"),
            },
        }
    }
}
