//! The ledger's key with the built binary: the record of acts is signed, a rewrite of it is found, a key that is gone or
//! unfit is told of, and no backup has it.

use crate::world::World;
use bridge_core::value::{AuditEntry, Timestamp};
use rusqlite::Connection;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A world whose record has two entries, and no daemon any more.
async fn recorded() -> World {
    let world = World::new().await;
    let daemon = world.daemon().await;
    for name in ["one", "two"] {
        let added = world.run(&["token", "add", name, "--scope", "read"]).await;
        added.must(0, &[]);
    }
    assert_eq!(daemon.stop().await, Some(0));
    world
}

/// Blames somebody else for everything, and computes all sums anew.
fn rewrite(world: &World) {
    let conn = Connection::open(world.state_dir().join("ledger.db")).unwrap();
    conn.execute_batch("UPDATE audit SET actor = 'bob'")
        .unwrap();
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
    let update = "UPDATE instance SET audit_newest = ?1";
    conn.execute(update, [sum]).unwrap();
}

#[tokio::test]
async fn f10_audit_is_verified_with_public_key() {
    let world = recorded().await;
    let printed = world.run(&["audit", "--public-key"]).await;
    printed.must(0, &[]);
    let key = printed.stdout.trim().to_owned();
    assert!(key.starts_with("ed25519:"), "{key}");
    let verify = ["audit", "--verify", "--public-key", &key];
    world.run(&verify).await.must(0, &[]);
    let exported = world.json(&["audit", "--json", "--limit", "1"]).await;
    assert_eq!(exported["signature_verified"], true, "{exported}");
    let file = world.path().join("acts.json");
    let verify_file = [&verify[..], &["--file", file.to_str().unwrap()]].concat();
    let mut changed = exported.clone();
    changed["entries"][0]["actor"] = "bob".into();
    for (export, code) in [(exported, 0), (changed, 1)] {
        std::fs::write(&file, export.to_string()).unwrap();
        let found = world.run(&verify_file).await;
        assert_eq!(found.code, Some(code), "{found:?}");
    }
    rewrite(&world);
    for args in [&verify[..], &["audit"]] {
        let found = world.run(args).await;
        assert_eq!(found.code, Some(1), "{found:?}");
        assert!(
            found.stdout.contains("is not signed by the key"),
            "{found:?}"
        );
    }
    // A daemon carries it on, and does not vouch for it.
    assert_eq!(world.daemon().await.stop().await, Some(0));
    let found = world.run(&["audit"]).await;
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.stdout.contains("record-unsigned"), "{found:?}");
}

#[tokio::test]
async fn f1_key_that_is_gone_is_told() {
    let world = recorded().await;
    let key = world.state_dir().join("key");
    let made = world.json(&["backup", "--json"]).await;
    assert_eq!(made["key"]["found"], true, "{made}");
    let secret = std::fs::read(&key).unwrap();
    let backup = std::fs::read(made["path"].as_str().unwrap()).unwrap();
    assert!(!backup.windows(32).any(|window| window == secret));
    std::fs::remove_file(&key).unwrap();
    let second = world.path().join("second.db");
    let told = world.run(&["backup", second.to_str().unwrap()]).await;
    told.must(0, &[]);
    for words in ["there is no key at", "signed by ed25519:", "is not here"] {
        assert!(told.stdout.contains(words), "{told:?}");
    }
    assert!(!key.exists(), "only the daemon makes one");
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:serves").await, "serves");
    assert_eq!(daemon.stop().await, Some(0));
    let audit = world.json(&["audit", "--json"]).await;
    assert_eq!(audit["ok"], true, "{audit}");
    assert_eq!(
        (&audit["chained"], &audit["without_sums"]),
        (&1.into(), &2.into())
    );
    assert_eq!(audit["entries"][0]["what"], "key-began", "{audit}");
}

/// Away from the state directory, as a credential of the service is: only the service is told where.
#[tokio::test]
async fn f1_recovery_needs_the_records_key() {
    let world = recorded().await;
    let (key, elsewhere) = (
        world.state_dir().join("key"),
        world.path().join("elsewhere"),
    );
    let printed = world.run(&["audit", "--public-key"]).await;
    let signer = printed.stdout.trim().to_owned();
    std::fs::rename(&key, &elsewhere).unwrap();
    let doctor = world.run(&["doctor"]).await;
    let told = format!("signed by {signer}, whose key is not here");
    assert!(doctor.stdout.contains(&told), "{doctor:?}");
    let ledger = world.state_dir().join("ledger.db");
    let backup = world.path().join("backup.db");
    let backup = backup.to_str().unwrap();
    world.run(&["backup", backup]).await.must(0, &[]);
    std::fs::remove_file(&ledger).unwrap();
    let recover = ["recover", "--from", backup];
    let refused = world.run(&recover).await;
    refused.must(
        1,
        &[&told, "--key-file", "--new-key", "nothing was changed"],
    );
    assert!(!key.exists() && !ledger.exists(), "{refused:?}");
    std::fs::write(world.config_file(), "[daemon]\nkey_fil = 1\n").unwrap();
    let refused = world.run(&recover).await;
    refused.must(1, &["key_fil"]);
    let named = [&recover[..], &["--key-file", elsewhere.to_str().unwrap()]].concat();
    world.run(&named).await.must(0, &[]);
    let verify = ["audit", "--verify", "--public-key", &signer];
    let unfound = world.run(&verify).await;
    unfound.must(1, &["key_fil", "which database has the record"]);
    std::fs::write(world.config_file(), "").unwrap();
    world.run(&verify).await.must(0, &[]);
    // Somebody who has lost it says so.
    std::fs::remove_file(&ledger).unwrap();
    let anew = world.run(&[&recover[..], &["--new-key"]].concat()).await;
    anew.must(0, &[]);
    assert!(anew.stdout.contains("a new one was made"), "{anew:?}");
    assert!(key.exists());
}

#[tokio::test]
async fn f1_unfit_key_stops_the_start() {
    let world = recorded().await;
    let key = world.state_dir().join("key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let refused = world.run(&["run"]).await;
    refused.must(1, &["others may use it (mode 644)", "chmod 600"]);
    let elsewhere = world.path().join("elsewhere");
    std::fs::rename(&key, &elsewhere).unwrap();
    symlink(&elsewhere, &key).unwrap();
    let refused = world.run(&["run"]).await;
    refused.must(1, &["it is a symbolic link"]);
}
