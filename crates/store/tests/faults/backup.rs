//! Backup: a whole, checked, private copy of a ledger in use, and never in the place of another file.

use crate::given::{World, text};
use crate::rig::{Place, every_state, messages};
use bridge_core::port::Ledger;
use bridge_store::sqlite::{BackupError, Existing, back_up};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn live_backup_is_one_private_file() {
    let place = Place::new();
    let ledger = place.open();
    every_state(&ledger).await;
    let to = place.at("copy.db");
    let made = back_up(&place.path, &to, Existing::Keep).unwrap();
    let expected = messages(&place.path);
    assert_eq!((made.messages, made.version), (expected.len() as u64, 1));
    let found = fs::metadata(&to).unwrap();
    assert_eq!(
        (made.bytes, found.permissions().mode() & 0o777),
        (found.len(), 0o600)
    );
    assert_eq!(fs::read(&to).unwrap()[18..20], [1, 1], "it needs no log");
    assert_eq!(messages(&to), expected);
    let names: Vec<_> = place
        .names()
        .into_iter()
        .filter(|name| name.contains("copy"))
        .collect();
    assert_eq!(names, ["copy.db"], "nothing else is left");
    World::over(&ledger).does(text("later", "later")).await;
    assert_eq!(messages(&to), expected, "it is a snapshot");
}

#[tokio::test]
async fn backup_does_not_block_writers() {
    let place = Place::new();
    let ledger = place.open();
    every_state(&ledger).await;
    let writer = tokio::spawn(async move {
        let mut world = World::over(&ledger);
        for n in 0..200 {
            world
                .receives(&[(&format!("k{n}"), &format!("extra{n:03}"))])
                .await;
        }
    });
    let (path, directory) = (place.path.clone(), place.directory.path().to_owned());
    let copies = tokio::task::spawn_blocking(move || {
        (0..5)
            .map(|n| back_up(&path, &directory.join(format!("c{n}.db")), Existing::Keep).unwrap())
            .collect::<Vec<_>>()
    });
    let copies = copies.await.unwrap();
    writer.await.unwrap();
    let all = messages(&place.path);
    for copy in copies {
        let held = messages(&copy.path);
        assert_eq!(held.len() as u64, copy.messages);
        let extra = held.keys().filter(|id| id.starts_with("extra")).count();
        for n in 0..extra {
            assert!(
                held.contains_key(&format!("extra{n:03}")),
                "a snapshot has no holes"
            );
        }
        assert!(held.keys().all(|id| all.contains_key(id)));
    }
}

#[tokio::test]
async fn backup_replaces_file_only_on_request() {
    let place = Place::new();
    let ledger = place.open();
    World::over(&ledger).does(text("a", "m1")).await;
    let to = place.at("copy.db");
    fs::write(&to, "precious").unwrap();
    let error = back_up(&place.path, &to, Existing::Keep).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(fs::read_to_string(&to).unwrap(), "precious");
    fs::write(place.at("copy.db.partial"), "left by a crash").unwrap();
    let made = back_up(&place.path, &to, Existing::Replace).unwrap();
    assert_eq!((made.messages, messages(&to).len()), (1, 1));
    assert!(!place.at("copy.db.partial").exists());
}

#[tokio::test]
async fn refuses_missing_foreign_or_damaged_ledgers() {
    let place = Place::new();
    let to = place.at("copy.db");
    let error = back_up(&place.path, &to, Existing::Keep).unwrap_err();
    assert!(matches!(error, BackupError::Missing { .. }), "{error}");
    let stranger = place.at("photos.db");
    Connection::open(&stranger)
        .unwrap()
        .execute_batch("CREATE TABLE photo (id INTEGER)")
        .unwrap();
    let error = back_up(&stranger, &to, Existing::Keep).unwrap_err();
    assert!(matches!(error, BackupError::Unsound { .. }), "{error}");

    let ledger = place.open();
    every_state(&ledger).await;
    drop(ledger);
    let sound = crate::rig::one_file(&place.path, "sound.db");
    let mut bytes = fs::read(&sound).unwrap();
    let at = bytes.len() - 2 * 4096;
    bytes[at..at + 4096].fill(0xA5);
    fs::write(&sound, bytes).unwrap();
    let error = back_up(&sound, &to, Existing::Keep).unwrap_err();
    let damage = matches!(
        error,
        BackupError::Unsound { .. } | BackupError::Copy { .. }
    );
    assert!(damage, "{error}");
    let left: Vec<_> = place
        .names()
        .into_iter()
        .filter(|name| name.contains("copy"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[tokio::test]
async fn refuses_backup_written_by_another_process() {
    let place = Place::new();
    let ledger = place.open();
    ledger.read(|rows| rows.backlog()).await.unwrap();
    let partial = fs::File::create(place.at("copy.db.partial")).unwrap();
    partial.lock().unwrap();
    let error = back_up(&place.path, &place.at("copy.db"), Existing::Keep).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
}
