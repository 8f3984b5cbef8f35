//! D9: a symbolic link in the place of one of the ledger's files is refused, and what it names is not touched.

use crate::given::key;
use crate::rig::Place;
use bridge_store::sqlite::{BackupError, Existing, back_up};
use bridge_store::{OpenError, Options, SqliteLedger};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// Mode, length and time of change of a file: a `chmod` shows in the last one whatever the mode was.
fn traces(path: &Path) -> (u32, u64, i64, i64) {
    let found = fs::metadata(path).unwrap();
    (found.mode(), found.len(), found.ctime(), found.ctime_nsec())
}

fn open(path: &Path) -> Result<SqliteLedger, OpenError> {
    SqliteLedger::open(path, &key(), Options::default())
}

#[test]
fn d9_a_linked_ledger_is_refused_untouched() {
    let place = Place::new();
    // A copy: the ledger that is dropped is written a moment longer.
    let (first, sound) = (place.at("first.db"), place.at("sound.db"));
    let _open = open(&first).unwrap();
    back_up(&first, &sound, Existing::Keep).unwrap();
    let text = place.at("text");
    fs::write(&text, "no database").unwrap();
    for target in [&sound, &text] {
        fs::set_permissions(target, fs::Permissions::from_mode(0o644)).unwrap();
        let before = traces(target);
        symlink(target, &place.path).unwrap();
        let error = open(&place.path).unwrap_err();
        assert!(matches!(error, OpenError::Link { .. }), "{error:?}");
        assert_eq!(traces(target), before);
        fs::remove_file(&place.path).unwrap();
    }
    symlink(place.at("nowhere"), &place.path).unwrap();
    assert!(matches!(open(&place.path), Err(OpenError::Link { .. })));
    assert!(!place.at("nowhere").exists());
}

#[test]
fn d9_a_linked_log_is_refused() {
    let place = Place::new();
    let sound = place.at("sound.db");
    let _open = open(&sound).unwrap();
    back_up(&sound, &place.path, Existing::Keep).unwrap();
    let text = place.at("text");
    fs::write(&text, "precious").unwrap();
    for beside in ["ledger.db-wal", "ledger.db-shm", "ledger.db.recovered"] {
        symlink(&text, place.at(beside)).unwrap();
        assert!(matches!(open(&place.path), Err(OpenError::Link { .. })));
        fs::remove_file(place.at(beside)).unwrap();
    }
    assert_eq!(fs::read_to_string(&text).unwrap(), "precious");
    assert!(open(&place.path).is_ok());
}

#[test]
fn d9_a_foreign_file_keeps_its_mode() {
    let place = Place::new();
    fs::write(&place.path, "no database".repeat(100)).unwrap();
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o644)).unwrap();
    let before = traces(&place.path);
    let error = open(&place.path).unwrap_err();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    assert_eq!(traces(&place.path), before);
}

#[test]
fn d9_a_backup_writes_through_no_link() {
    let place = Place::new();
    drop(open(&place.path).unwrap());
    let text = place.at("text");
    fs::write(&text, "precious").unwrap();
    symlink(&text, place.at("copy.db.partial")).unwrap();
    let error = back_up(&place.path, &place.at("copy.db"), Existing::Keep).unwrap_err();
    assert!(matches!(error, BackupError::File { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&text).unwrap(), "precious");
}
