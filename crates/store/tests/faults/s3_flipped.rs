//! S3: single bytes of the file are turned at 200 places. The ledger is refused, or found to be damaged, or says what
//! it said before.
//!
//! SQLite keeps no checksums. Texts have one of ours; a byte inside another value that is stored once (a time, a name, a
//! reason) can't be told from another value. What such a byte can't do is tested: no row comes or goes, and no key and no state changes without being found by a check or
//! by whoever reads it.

use crate::given::{World, key, text};
use crate::rig::{Place, every_state, one_file};
use crate::view;
use bridge_core::value::Timestamp;
use bridge_store::sqlite::{Depth, Inspection, Soundness, inspect};
use bridge_store::{Options, SqliteLedger};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::fs;
use std::path::Path;

const FLIPS: usize = 200;

/// Columns by which rows are found and decided upon. The attempt of an event is only shown.
const GUARDED: [&str; 16] = [
    "row",
    "message_id",
    "conversation_id",
    "seq",
    "channel",
    "external_id",
    "kind",
    "tier",
    "state",
    "place",
    "input",
    "attempt",
    "ordinal",
    "sandbox",
    "touched",
    "mode",
];

/// Every value of every table, or none if they can't be read: first those that decide, then all.
fn everything(path: &Path) -> Option<(Vec<String>, Vec<String>)> {
    // rusqlite panics at a column's name that is no text.
    std::panic::catch_unwind(|| every_value(path)).ok()?
}

fn every_value(path: &Path) -> Option<(Vec<String>, Vec<String>)> {
    let conn = Connection::open(path).ok()?;
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'instance' ORDER BY name";
    let mut tables = conn.prepare(tables).ok()?;
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).ok()?;
    let (mut guarded, mut all) = (Vec::new(), Vec::new());
    for table in tables {
        let table = table.ok()?;
        let mut select = conn.prepare(&format!("SELECT * FROM {table}")).ok()?;
        // A flipped bit may be the case of a letter in the schema, which SQLite does not tell apart.
        let names = select.column_names().map(str::to_ascii_lowercase);
        let names: Vec<String> = names.collect();
        let mut rows = select.query([]).ok()?;
        while let Some(row) = rows.next().ok()? {
            for (at, name) in names.iter().enumerate() {
                let value = format!("{table}.{name} {:?}", row.get::<_, Value>(at).ok()?);
                if GUARDED.contains(&name.as_str()) && !(table == "event" && name == "attempt") {
                    guarded.push(value.clone());
                }
                all.push(value);
            }
        }
    }
    Some((guarded, all))
}

/// Whether a row says of itself that it is damaged, once somebody wants to know.
async fn is_refused_when_read(ledger: &SqliteLedger) -> bool {
    let ledger = ledger.clone();
    let read = tokio::spawn(async move { view::everything(&ledger, Timestamp(1_000_000)).await });
    read.await.is_err()
}

#[derive(Debug, Default)]
struct Seen {
    refused: usize,
    damaged: usize,
    harmless: usize,
    /// A text or a number that is stored once is another one.
    content: usize,
}

#[tokio::test]
async fn s3_flipped_byte_never_changes_state_silently() {
    let place = Place::new();
    let ledger = place.open();
    every_state(&ledger).await;
    let sound = one_file(&place.path, "sound.db");
    let bytes = fs::read(&sound).unwrap();
    let before = everything(&sound).unwrap();
    let mut seen = Seen::default();
    for flip in 0..FLIPS {
        let at = flip * bytes.len() / FLIPS + flip * 5 % 977;
        let damaged = Place::new();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (flip % 8);
        fs::write(&damaged.path, &flipped).unwrap();
        let thorough = inspect(&damaged.path, Depth::Thorough);
        match SqliteLedger::open(&damaged.path, &key(), Options::default()) {
            Err(error) => {
                assert!(fs::read(&damaged.path).unwrap() == flipped, "{error}");
                seen.refused += 1;
            }
            Ok(ledger) => match ledger.quick_check().await.unwrap() {
                Soundness::Damaged { .. } => seen.damaged += 1,
                Soundness::Sound => match everything(&damaged.path) {
                    Some(found) if found == before => seen.harmless += 1,
                    _ if !matches!(thorough, Ok(Inspection::Sound { .. })) => seen.damaged += 1,
                    _ if is_refused_when_read(&ledger).await => seen.damaged += 1,
                    Some((guarded, _)) => {
                        let mut both = guarded.iter().zip(&before.0);
                        let other = both.find(|(now, was)| now != was);
                        assert_eq!(other, None, "byte {at} changed a key or a state in silence");
                        seen.content += 1;
                    }
                    None => panic!("byte {at}: sound, and not to be read"),
                },
            },
        }
    }
    assert!(
        seen.refused > 0 && seen.damaged > 0 && seen.harmless > 0,
        "{seen:?}"
    );
    assert!(seen.content < FLIPS / 20, "{seen:?}");
}

/// A refused file is left as it was, also when there is a log that SQLite would move into it on closing.
#[tokio::test]
async fn s3_refused_ledger_stays_untouched() {
    let place = Place::new();
    let ledger = place.open();
    // It fits into the pages that a new ledger has, so the first page is not in the log.
    World::over(&ledger).does(text("a", "m1")).await;
    let killed = Place::new();
    let mut database = fs::read(&place.path).unwrap();
    database[..16].fill(0);
    let log = fs::read(place.at("ledger.db-wal")).unwrap();
    assert!(log.len() > 4096);
    fs::write(&killed.path, &database).unwrap();
    fs::write(killed.at("ledger.db-wal"), &log).unwrap();
    let error = SqliteLedger::open(&killed.path, &key(), Options::default()).unwrap_err();
    assert!(error.is_damage(), "{error}");
    assert!(fs::read(&killed.path).unwrap() == database);
    assert!(fs::read(killed.at("ledger.db-wal")).unwrap() == log);
}

/// A stored word that no program knows breaks a constraint, which a check on a connection that can't write would miss.
#[tokio::test]
async fn s3_check_finds_unknown_enum_values() {
    let place = Place::new();
    let ledger = place.open();
    World::over(&ledger).does(text("a", "m1")).await;
    for (table, column) in [("message", "kind"), ("message", "state")] {
        let copy = Place::new();
        let file = one_file(&place.path, &format!("{table}.db"));
        fs::rename(file, &copy.path).unwrap();
        let conn = Connection::open(&copy.path).unwrap();
        conn.execute_batch(&format!(
            "PRAGMA ignore_check_constraints = ON; UPDATE {table} SET {column} = 'nonsense'"
        ))
        .unwrap();
        drop(conn);
        let quick = inspect(&copy.path, Depth::Quick).unwrap();
        assert!(
            matches!(quick, Inspection::Damaged { .. }),
            "{table}: {quick:?}"
        );
        let check = copy.open().quick_check().await.unwrap();
        assert!(
            matches!(check, Soundness::Damaged { .. }),
            "{table}: {check:?}"
        );
    }
}
