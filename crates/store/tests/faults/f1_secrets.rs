//! Findings F1 and F10: what somebody finds who reads the ledger's files, and what somebody achieves who writes them
//! without the key.

use crate::given::{World, Write, key, request, text};
use crate::rig::{Place, task};
use bridge_core::port::{Change, Ledger};
use bridge_core::step::{Keep, Prune, Record};
use bridge_core::value::{
    AuditEntry, PushTarget, RequestDecision, RequestState, RequestVerdict, Subscription,
    SubscriptionState, SubscriptionTarget, TaskId, Timestamp,
};
use bridge_store::key::{KEY_BYTES, KeyAge};
use bridge_store::sqlite::{
    AuditRecord, AuditSigner, Existing, SealedPushes, audit, back_up, recover, sealed_pushes,
};
use bridge_store::{LedgerKey, Options, SqliteLedger};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

const CANARIES: [&str; 4] = [
    "canary-token",
    "canary-credentials",
    "canary-address",
    "canary-answer",
];

fn other_key(age: KeyAge) -> LedgerKey {
    LedgerKey::from_bytes(&[9; KEY_BYTES], age).unwrap()
}

fn existing_key() -> LedgerKey {
    LedgerKey::from_bytes(&[7; KEY_BYTES], KeyAge::Existing).unwrap()
}

fn push(task: &str) -> Subscription {
    Subscription {
        task_id: TaskId::new(format!("e-{task}")),
        subscription_id: "c".to_owned(),
        target: SubscriptionTarget::Push(PushTarget {
            url: format!("https://example.com/{}", CANARIES[2]),
            token: Some(CANARIES[0].to_owned()),
            authorization: Some(("Bearer".to_owned(), CANARIES[1].to_owned())),
            unreadable: false,
            version: "1.0".to_owned(),
        }),
        state: SubscriptionState::Waiting { not_before: None },
        mark: None,
        tries: 0,
        first_try_at: None,
        error: None,
        created_at: Timestamp(1),
    }
}

/// A secret answer that Codex was not told yet.
fn decided() -> RequestState {
    RequestState::Decided(RequestVerdict {
        decision: RequestDecision::Accept,
        answers: Some(format!("\"{}\"", CANARIES[3])),
        by: bridge_core::value::DecidedBy::caller("ann"),
        via: "cli".to_owned(),
        at: Timestamp(2),
    })
}

async fn fill(ledger: &SqliteLedger) {
    let world = World::over(ledger);
    for name in ["m1", "m2"] {
        world.does(task(name)).await;
        world
            .does(Write(vec![Change::PutSubscription(push(name))]))
            .await;
    }
    world.does(text("r", "asked")).await;
    let mut asked = request("asked", "r1");
    asked.state = decided();
    world.does(Write(vec![Change::NewRequest(asked)])).await;
}

async fn kept(ledger: &SqliteLedger, task: &str) -> Subscription {
    let id = TaskId::new(format!("e-{task}"));
    let read = ledger.read(move |rows| rows.subscription(&id, "c"));
    read.await.unwrap().unwrap()
}

async fn target(ledger: &SqliteLedger, task: &str) -> PushTarget {
    kept(ledger, task).await.push().unwrap().clone()
}

async fn answer(ledger: &SqliteLedger) -> Option<String> {
    let read = ledger.read(|rows| rows.request(&request("asked", "r1").request_id));
    let state = read.await.unwrap().unwrap().state;
    state.verdict().and_then(|verdict| verdict.answers.clone())
}

fn holds_no_canary(path: &Path) {
    // A log goes when the last connection is closed, which is not waited for.
    let bytes = fs::read(path).unwrap_or_default();
    for canary in CANARIES {
        let found = bytes
            .windows(canary.len())
            .any(|window| window == canary.as_bytes());
        assert!(!found, "{canary} in {}", path.display());
    }
}

#[tokio::test]
async fn f1_push_credentials_are_encrypted() {
    let place = Place::new();
    let ledger = place.open();
    fill(&ledger).await;
    assert_eq!(kept(&ledger, "m1").await, push("m1"));
    assert_eq!(answer(&ledger).await, Some("\"canary-answer\"".to_owned()));
    let copy = place.at("copy.db");
    back_up(&place.path, &copy, Existing::Keep).unwrap();
    for name in ["ledger.db", "ledger.db-wal", "copy.db"] {
        holds_no_canary(&place.at(name));
    }
    drop(ledger);
    let ledger = place.open();
    assert_eq!(kept(&ledger, "m2").await, push("m2"));
    let found = sealed_pushes(&place.path, &key()).unwrap().unwrap();
    assert_eq!((found.all, found.unreadable), (2, 0));
}

#[tokio::test]
async fn f1_moved_or_redirected_credentials_are_refused() {
    for deed in [
        "UPDATE subscription SET token = (SELECT token FROM subscription WHERE task_id = 'e-m2') WHERE task_id = 'e-m1'",
        "UPDATE subscription SET token = credentials WHERE task_id = 'e-m1'",
        "UPDATE subscription SET target = (SELECT target FROM subscription WHERE task_id = 'e-m2') WHERE task_id = 'e-m1'",
        "UPDATE subscription SET target = 'https://evil.example.com/' WHERE task_id = 'e-m1'",
        "UPDATE subscription SET token = 'in the clear' WHERE task_id = 'e-m1'",
    ] {
        let place = Place::new();
        let ledger = place.open();
        fill(&ledger).await;
        Connection::open(&place.path)
            .unwrap()
            .execute_batch(deed)
            .unwrap();
        let found = target(&ledger, "m1").await;
        assert!(found.unreadable, "{deed}");
        assert_eq!((found.url.as_str(), found.token), ("", None), "{deed}");
        assert!(!target(&ledger, "m2").await.unreadable, "{deed}");
    }
}

#[tokio::test]
async fn f1_another_key_reads_no_credentials() {
    let place = Place::new();
    let ledger = place.open();
    fill(&ledger).await;
    drop(ledger);
    let other = other_key(KeyAge::New);
    let ledger = SqliteLedger::open(&place.path, &other, Options::default()).unwrap();
    let found = target(&ledger, "m1").await;
    assert!(found.unreadable && found.authorization.is_none());
    // No JSON, so that it can't be taken for an answer, or for none.
    let answer = answer(&ledger).await.unwrap();
    assert!(answer.starts_with('('), "{answer}");
    let found = sealed_pushes(&place.path, &other).unwrap().unwrap();
    assert_eq!(
        found,
        SealedPushes {
            all: 2,
            unreadable: 2
        }
    );
    // What happens to it is written, and what it was encrypted as stays.
    let world = World::over(&ledger);
    let given_up = Subscription {
        state: SubscriptionState::Dead { at: Timestamp(3) },
        error: Some("unreadable".to_owned()),
        ..kept(&ledger, "m1").await
    };
    world
        .does(Write(vec![Change::PutSubscription(given_up)]))
        .await;
    drop(world);
    drop(ledger);
    let ledger = place.open();
    let found = kept(&ledger, "m1").await;
    assert_eq!(found.state, SubscriptionState::Dead { at: Timestamp(3) });
    let expected = push("m1");
    assert_eq!(found.push(), expected.push());
}

async fn record(ledger: &SqliteLedger, what: &str, at: i64) {
    let entry = AuditEntry {
        at: Timestamp(at),
        actor: "ann".to_owned(),
        what: what.to_owned(),
        subject: "m1".to_owned(),
        detail: String::new(),
    };
    let recorded = ledger.transact(Record { entry }, Timestamp(at)).await;
    recorded.unwrap();
}

async fn recorded(place: &Place, whats: &[&str]) {
    let ledger = place.open();
    for (at, what) in (1..).zip(whats) {
        record(&ledger, what, at).await;
    }
}

fn look(place: &Place, key: &LedgerKey) -> AuditRecord {
    audit(&place.path, 10, Some(&key.public()))
        .unwrap()
        .unwrap()
}

/// Changes the record and computes every sum anew, as anybody can.
fn rewrite(place: &Place, deed: &str) {
    let conn = Connection::open(&place.path).unwrap();
    conn.execute_batch(deed).unwrap();
    let query = "SELECT row, at, actor, what, subject, detail FROM audit ORDER BY row";
    let mut statement = conn.prepare(query).unwrap();
    let rows = statement.query_map([], |row| {
        let entry = AuditEntry {
            at: Timestamp(row.get(1)?),
            actor: row.get(2)?,
            what: row.get(3)?,
            subject: row.get(4)?,
            detail: row.get(5)?,
        };
        Ok((row.get::<_, i64>(0)?, entry))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let mut sum = String::new();
    for (row, entry) in rows {
        sum = entry.sum(&sum, row);
        let update = "UPDATE audit SET sum = ?2 WHERE row = ?1";
        conn.execute(update, (row, &sum)).unwrap();
    }
    let head = (!sum.is_empty()).then_some(sum);
    conn.execute("UPDATE instance SET audit_newest = ?1", [head])
        .unwrap();
}

/// As a new ledger is.
const EMPTIED: &str = "DELETE FROM audit; UPDATE instance SET audit_signature = NULL";

/// Whole rewrites, with sums that hold.
const REWRITES: [&str; 7] = [
    "UPDATE audit SET actor = 'bob' WHERE row = 2",
    "DELETE FROM audit WHERE row = 1",
    "DELETE FROM audit WHERE row = 3",
    "DELETE FROM audit",
    "UPDATE audit SET actor = 'bob'; UPDATE instance SET audit_signature = NULL, audit_key = NULL",
    "UPDATE audit SET actor = 'bob'; UPDATE instance SET audit_base = 3",
    EMPTIED,
];

#[tokio::test]
async fn f10_audit_rewritten_whole_is_found() {
    for deed in REWRITES {
        let place = Place::new();
        recorded(&place, &["a", "b", "c"]).await;
        let whole = look(&place, &key());
        assert_eq!(whole.chain.map(|found| found.chained), Ok(3));
        assert_eq!(whole.signer, AuditSigner::Verified(key().public()));
        rewrite(&place, deed);
        assert!(look(&place, &key()).chain.is_err(), "{deed}");
    }
}

#[tokio::test]
async fn f10_audit_forgery_is_not_signed_later() {
    for deed in REWRITES {
        for running in [false, true] {
            let place = Place::new();
            recorded(&place, &["a", "b", "c"]).await;
            if running {
                let ledger = place.open();
                rewrite(&place, deed);
                record(&ledger, "d", 9).await;
            } else {
                rewrite(&place, deed);
                let open = SqliteLedger::open(&place.path, &existing_key(), Options::default());
                record(&open.unwrap(), "d", 9).await;
            }
            let found = look(&place, &key());
            let what = |what: &str| found.newest.iter().any(|link| link.entry.what == what);
            assert!(what("d"), "{deed}");
            match deed == EMPTIED && !running {
                // It looks like a new ledger, and the record says when it began.
                true => assert!(what("key-began"), "{deed}"),
                false => assert!(what("record-unsigned") && found.chain.is_err(), "{deed}"),
            }
        }
    }
}

#[tokio::test]
async fn f10_audit_signer_must_be_ours() {
    let place = Place::new();
    recorded(&place, &["a"]).await;
    let other = other_key(KeyAge::Existing);
    assert!(look(&place, &other).chain.is_err());
    // The ledger names its key, which says something only to whoever knows it.
    let named = audit(&place.path, 10, None).unwrap().unwrap();
    assert_eq!(named.signer, AuditSigner::Named(key().public()));
    assert!(named.chain.is_ok());
    // Signed anew by somebody else.
    drop(SqliteLedger::open(&place.path, &other, Options::default()).unwrap());
    assert!(look(&place, &key()).chain.is_err());
}

#[tokio::test]
async fn f10_audit_new_key_keeps_older_rows() {
    let place = Place::new();
    recorded(&place, &["a", "b"]).await;
    let other = other_key(KeyAge::New);
    let ledger = SqliteLedger::open(&place.path, &other, Options::default()).unwrap();
    record(&ledger, "c", 3).await;
    drop(ledger);
    let found = look(&place, &other);
    let whats: Vec<_> = found.newest.iter().map(|link| &link.entry.what).collect();
    assert_eq!(whats, ["c", "key-began", "b", "a"]);
    let found = found.chain.map(|found| (found.chained, found.unchained));
    assert_eq!(found, Ok((2, 2)));
    for row in 1..=4 {
        let copy = place.at(&format!("copy{row}.db"));
        back_up(&place.path, &copy, Existing::Keep).unwrap();
        let conn = Connection::open(&copy).unwrap();
        let edit = "UPDATE audit SET actor = 'bob' WHERE row = ?1";
        conn.execute(edit, [row]).unwrap();
        let found = audit(&copy, 1, Some(&other.public())).unwrap().unwrap();
        assert!(found.chain.is_err(), "row {row}");
    }
}

#[tokio::test]
async fn f10_audit_retention_stays_signed() {
    const DAY_MS: i64 = 86_400_000;
    let place = Place::new();
    recorded(&place, &["a", "b"]).await;
    let other = other_key(KeyAge::New);
    let ledger = SqliteLedger::open(&place.path, &other, Options::default()).unwrap();
    let began = look(&place, &other).newest[0].entry.at.0;
    record(&ledger, "c", began + 9 * DAY_MS).await;
    let keep = Keep {
        done_ms: DAY_MS,
        dead_ms: DAY_MS,
        audit_ms: DAY_MS,
        redelivery_ms: DAY_MS,
    };
    for (now, left) in [
        (began, 2),
        (began + 9 * DAY_MS, 1),
        (began + 20 * DAY_MS, 0),
    ] {
        let now = Timestamp(now);
        ledger.transact(Prune { keep, now }, now).await.unwrap();
        let found = look(&place, &other);
        assert_eq!(found.chain.map(|found| found.chained), Ok(left));
    }
    record(&ledger, "d", began + 21 * DAY_MS).await;
    drop(ledger);
    assert_eq!(look(&place, &other).chain.map(|found| found.chained), Ok(1));
    // Nobody else may say that retention removed something.
    rewrite(&place, "UPDATE instance SET audit_removed = NULL");
    assert!(look(&place, &other).chain.is_err());
}

#[tokio::test]
async fn f10_audit_survives_recovery_with_cuts() {
    let place = Place::new();
    recorded(&place, &["a", "b", "c", "d"]).await;
    let backup = place.at("backup.db");
    back_up(&place.path, &backup, Existing::Keep).unwrap();
    let conn = Connection::open(&backup).unwrap();
    conn.execute_batch("DELETE FROM audit WHERE row = 2")
        .unwrap();
    drop(conn);
    for name in place.names() {
        if name.starts_with("ledger.db") {
            fs::remove_file(place.at(&name)).unwrap();
        }
    }
    let now = Timestamp(77);
    let done = recover(
        &place.path,
        |_| Ok(key()),
        Some(&backup),
        Path::new("/work"),
        now,
    );
    let bridge_store::sqlite::Recovered::Done(report) = done.unwrap() else {
        panic!("it was recovered");
    };
    assert_eq!(report.audit_cuts, ["rows 2 to 2 are missing"]);
    let found = look(&place, &key());
    let rows: Vec<_> = found.newest.iter().map(|link| link.row).collect();
    assert_eq!(rows, [5, 4, 3, 1]);
    let first = &found.newest[0].entry;
    assert!(
        first.detail.contains("rows 2 to 2 are missing"),
        "{}",
        first.detail
    );
    assert!(found.newest[1].sum.is_some(), "kept as it was");
    let found = found.chain.map(|found| (found.chained, found.unchained));
    assert_eq!(found, Ok((1, 3)));
    drop(place.open());
    assert!(look(&place, &key()).chain.is_ok(), "nothing is begun anew");
}
