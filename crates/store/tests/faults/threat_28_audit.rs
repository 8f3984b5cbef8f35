//! Threat 28: somebody changes the record of what people did, in the file itself.

use crate::given::key;
use crate::rig::Place;
use bridge_core::port::Ledger;
use bridge_core::step::{Keep, Prune, Record};
use bridge_core::value::{AuditEntry, AuditFound, Timestamp};
use bridge_store::sqlite::{AuditRecord, audit};
use rusqlite::Connection;

const DAY_MS: i64 = 86_400_000;

async fn record<L: Ledger>(ledger: &L, what: &str, at: i64) {
    let entry = AuditEntry {
        at: Timestamp(at),
        actor: "ann".to_owned(),
        what: what.to_owned(),
        subject: "m1".to_owned(),
        detail: String::new(),
    };
    ledger
        .transact(Record { entry }, Timestamp(at))
        .await
        .unwrap();
}

fn look(place: &Place) -> AuditRecord {
    audit(&place.at("ledger.db"), 2, Some(&key().public()))
        .unwrap()
        .unwrap()
}

fn edit(place: &Place, sql: &str) {
    let conn = Connection::open(place.at("ledger.db")).unwrap();
    conn.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn threat_28_audit_tampering_is_detected() {
    for (deed, breaks) in [
        ("UPDATE audit SET at = at", false),
        ("UPDATE audit SET actor = 'bob' WHERE row = 2", true),
        ("UPDATE audit SET detail = 'x' WHERE row = 4", true),
        ("DELETE FROM audit WHERE row = 1", true),
        ("DELETE FROM audit WHERE row = 3", true),
        ("DELETE FROM audit WHERE row = 4", true),
        ("DELETE FROM audit", true),
        ("UPDATE audit SET sum = NULL", true),
        (
            "INSERT INTO audit (at, actor, what, subject, detail) VALUES (9, 'ann', 'x', 'm', '')",
            true,
        ),
    ] {
        let place = Place::new();
        let ledger = place.open();
        for (at, what) in (1..).zip(["a", "b", "c", "d"]) {
            record(&ledger, what, at).await;
        }
        drop(ledger);
        let whole = look(&place);
        let rows: Vec<i64> = whole.newest.iter().map(|link| link.row).collect();
        assert_eq!(rows, [4, 3], "newest first");
        assert_eq!(whole.chain.map(|found| found.chained), Ok(4));
        edit(&place, deed);
        assert_eq!(look(&place).chain.is_err(), breaks, "{deed}");
    }
}

#[tokio::test]
async fn threat_28_retention_keeps_audit_chain_valid() {
    let place = Place::new();
    let ledger = place.open();
    for (at, what) in [(1, "a"), (2, "b"), (9 * DAY_MS, "c")] {
        record(&ledger, what, at).await;
    }
    let keep = Keep {
        done_ms: DAY_MS,
        dead_ms: DAY_MS,
        audit_ms: DAY_MS,
        redelivery_ms: DAY_MS,
    };
    for (now, chained) in [(9 * DAY_MS, 1), (20 * DAY_MS, 0)] {
        let prune = Prune {
            keep,
            now: Timestamp(now),
        };
        ledger.transact(prune, Timestamp(now)).await.unwrap();
        let found = AuditFound {
            chained,
            unchained: 0,
        };
        assert_eq!(look(&place).chain, Ok(found));
    }
    record(&ledger, "d", 21 * DAY_MS).await;
    assert_eq!(look(&place).chain.map(|found| found.chained), Ok(1));
    edit(&place, "UPDATE instance SET audit_removed = NULL");
    assert!(look(&place).chain.is_err());
}
