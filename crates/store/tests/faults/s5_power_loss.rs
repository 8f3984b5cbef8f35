//! S5: the power goes after a commit. A commit is in the synced log; what a checkpoint wrote into the database may be
//! lost, torn or there, page by page, and what follows the last commit in the log may be anything.

use crate::given::World;
use crate::rig::{Place, finishes, messages};
use crate::view::everything;
use bridge_store::sqlite::Soundness;
use rusqlite::Connection;
use std::fs;

const PAGE: usize = 4096;

/// What is on the disk after a power loss: for each page the old content, the new one or half of each.
fn torn(old: &[u8], new: &[u8], seed: usize) -> Vec<u8> {
    let mut disk = new.to_vec();
    for (page, content) in disk.chunks_mut(PAGE).enumerate() {
        let before = old.get(page * PAGE..(page + 1) * PAGE);
        let kept = match (page * 7 + seed) % 3 {
            0 => 0,
            1 => PAGE / 2,
            _ => PAGE,
        };
        let (lost, _written) = content.split_at_mut(kept);
        match before {
            Some(before) => lost.copy_from_slice(&before[..kept]),
            None => lost.fill(0),
        }
    }
    disk
}

#[tokio::test]
async fn s5_committed_rows_survive_power_loss() {
    let place = Place::new();
    let ledger = place.open();
    let mut world = World::over(&ledger);
    for n in 0..5 {
        finishes(&mut world, &format!("a{n}"), &format!("old{n}")).await;
    }
    let other = Connection::open(&place.path).unwrap();
    let checkpoint = || {
        let query = "PRAGMA wal_checkpoint(RESTART)";
        let busy: i64 = other.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0);
    };
    checkpoint();
    let synced = fs::read(&place.path).unwrap();
    for n in 0..5 {
        finishes(&mut world, &format!("b{n}"), &format!("new{n}")).await;
    }
    world.receives(&[("c", "last")]).await;
    let log = fs::read(place.at("ledger.db-wal")).unwrap();
    let before = everything(&ledger, world.now).await;
    other
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        .unwrap();
    let written = fs::read(&place.path).unwrap();
    assert!(written != synced, "the checkpoint moved something");
    for (seed, tail) in [&[][..], &[0; 5_000], &[0xA5; 9_000]]
        .into_iter()
        .cycle()
        .take(12)
        .enumerate()
    {
        let after = Place::new();
        fs::write(&after.path, torn(&synced, &written, seed)).unwrap();
        fs::write(after.at("ledger.db-wal"), [log.as_slice(), tail].concat()).unwrap();
        let ledger = after.open();
        assert_eq!(everything(&ledger, world.now).await, before, "{seed}");
        assert_eq!(ledger.quick_check().await, Ok(Soundness::Sound));
    }
}

/// A log that is cut anywhere gives the commits before the cut, whole ones only.
#[tokio::test]
async fn s5_truncated_log_keeps_whole_commits() {
    let place = Place::new();
    let ledger = place.open();
    let mut world = World::over(&ledger);
    for n in 0..8 {
        world.receives(&[("a", &format!("m{n}"))]).await;
    }
    let (database, log) = (
        fs::read(&place.path).unwrap(),
        fs::read(place.at("ledger.db-wal")).unwrap(),
    );
    let mut most = 0;
    for cut in (0..=log.len()).step_by(2_060).chain([log.len()]) {
        let after = Place::new();
        fs::write(&after.path, &database).unwrap();
        fs::write(after.at("ledger.db-wal"), &log[..cut]).unwrap();
        let ledger = after.open();
        assert_eq!(ledger.quick_check().await, Ok(Soundness::Sound));
        let found = messages(&after.path);
        let expected: Vec<_> = (0..found.len()).map(|n| format!("m{n}")).collect();
        assert_eq!(
            found.into_keys().collect::<Vec<_>>(),
            expected,
            "cut at {cut}"
        );
        assert!(expected.len() >= most, "a longer log has more");
        most = expected.len();
    }
    assert_eq!(most, 8);
}
