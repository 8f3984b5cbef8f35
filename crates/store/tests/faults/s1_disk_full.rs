//! S1: a disk that is really full. What was accepted stays, reads go on, and work goes on once there is room; the
//! gauge says so before it comes to that.

use crate::given::{World, text};
use crate::rig::{Place, may_mount, messages, small_disk};
use bridge_core::port::{Ledger, LedgerError, RowsError};
use bridge_core::step::Receive;
use bridge_core::value::Class;
use bridge_store::sqlite::{Existing, Pressure, Soundness, back_up};
use std::fs;
use std::io::Write;

/// Takes room away until so many bytes are left.
fn fill(place: &Place, leave: u64) {
    let free = || {
        let disk = nix::sys::statvfs::statvfs(place.directory.path()).unwrap();
        disk.blocks_available() * disk.fragment_size()
    };
    let mut ballast = fs::File::create(place.at("ballast")).unwrap();
    while free() > leave {
        let piece = usize::try_from((free() - leave).min(65_536)).unwrap();
        if ballast.write_all(&vec![0; piece]).is_err() {
            return;
        }
    }
}

fn big(id: &str) -> Receive {
    Receive {
        body: "x".repeat(20_000),
        ..text(id, id)
    }
}

/// Receives until the disk says no; gives what was accepted and how it said so.
async fn until_full<L: Ledger>(world: &World<L>) -> (Vec<String>, LedgerError) {
    let mut accepted = Vec::new();
    for n in 0..5_000 {
        let id = format!("big{n}");
        match world.tries(big(&id)).await {
            Ok(_) => accepted.push(id),
            Err(error) => return (accepted, error),
        }
    }
    panic!("the disk never filled");
}

#[tokio::test]
async fn s1_full_disk_loses_nothing() {
    if !may_mount() {
        return;
    }
    let place = small_disk(16);
    let ledger = place.open();
    let world = World::over(&ledger);
    world.does(text("a", "first")).await;
    fill(&place, 0);
    let (accepted, error) = until_full(&world).await;
    assert!(
        matches!(error, LedgerError::Rows(RowsError::Backend { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("full"), "{error}");
    assert_eq!(error.class(), Class::Transient);
    for n in 0..10 {
        assert!(world.tries(big(&format!("no{n}"))).await.is_err());
    }
    assert_eq!(
        world.reads(|rows| rows.backlog()).await as usize,
        accepted.len() + 1
    );
    assert_eq!(world.message("first").await.body, "text of first");
    fs::remove_file(place.at("ballast")).unwrap();
    world.does(big("after")).await;
    assert_eq!(ledger.quick_check().await, Ok(Soundness::Sound));
    let mut expected = accepted;
    expected.extend(["first".to_owned(), "after".to_owned()]);
    expected.sort();
    assert_eq!(
        messages(&place.path).into_keys().collect::<Vec<_>>(),
        expected
    );
}

#[tokio::test]
async fn s1_low_disk_stops_admission_early() {
    if !may_mount() {
        return;
    }
    let place = small_disk(16);
    let ledger = place.open();
    let mut world = World::over(&ledger);
    let gauge = ledger.gauge();
    assert_eq!(gauge.admit(), Ok(()));
    let low = gauge.vitals().low_bytes;
    assert_eq!(low, 16 * 1024 * 1024 / 10, "a tenth of a small disk");
    fill(&place, low + 4096);
    assert_eq!(gauge.admit(), Ok(()));
    fs::remove_file(place.at("ballast")).unwrap();
    fill(&place, low - 4096);
    let Err(Pressure::DiskLow {
        free_bytes,
        low_bytes,
    }) = gauge.admit()
    else {
        panic!("{:?}", gauge.vitals());
    };
    assert!(free_bytes < low_bytes && low_bytes == low);
    let said = gauge.admit().unwrap_err().to_string();
    assert!(
        said.contains("nothing was stored") && said.contains("Make room"),
        "{said}"
    );
    crate::rig::finishes(&mut world, "a", "m1").await;
    fs::remove_file(place.at("ballast")).unwrap();
    assert_eq!(gauge.admit(), Ok(()));
}

#[tokio::test]
async fn s1_failed_backup_leaves_no_files() {
    if !may_mount() {
        return;
    }
    let place = small_disk(4);
    let ledger = place.open();
    World::over(&ledger).does(big("m1")).await;
    fill(&place, 100_000);
    let error = back_up(&place.path, &place.at("copy.db"), Existing::Keep).unwrap_err();
    assert!(error.to_string().contains("copy"), "{error}");
    let left: Vec<_> = place
        .names()
        .into_iter()
        .filter(|name| name.contains("copy"))
        .collect();
    assert_eq!(left, [""; 0]);
}
