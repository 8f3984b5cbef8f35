//! What only the store on PostgreSQL promises: fences, lost connections that heal, wake-ups, and care for its database.

use crate::batches::{gate, hand_in};
use crate::fixture::{Database, Fixture, OnPostgres};
use crate::given::{World, key, message, text};
use crate::proxy::{Cut, Proxy};
use bridge_core::port::{HeadFilter, Ledger, LedgerError};
use bridge_core::step::{Action, Keep, Prune, Received};
use bridge_core::value::{ChannelId, NodeId, Sandbox};
use bridge_sim::postgres::Server;
use bridge_store::{PostgresLedger, PostgresOpenError, PostgresOptions, PostgresUrl, Wakeup};
use std::error::Error;
use std::time::Duration;

fn open_as(node: &str, url: &str) -> Result<PostgresLedger, PostgresOpenError> {
    let options = PostgresOptions::default();
    PostgresLedger::open(&PostgresUrl::new(url)?, &NodeId::new(node), &key(), options)
}

async fn fence_of(ledger: &PostgresLedger) -> (i64, i64) {
    let written = World::over(ledger).tries(text("a", "refused")).await;
    let Err(LedgerError::Fenced { found, ours }) = written else {
        panic!("{written:?}");
    };
    (found, ours)
}

#[tokio::test]
async fn second_opening_fences_the_first() {
    let mut server = OnPostgres::open();
    let first = server.ledger().clone();
    let world = World::over(&first);
    world.does(text("a", "m1")).await;
    let other = open_as("n2", &server.database().url()).unwrap();
    World::over(&other).does(text("a", "m2")).await;
    world.does(text("a", "m3")).await;
    server.reopen();
    let (found, ours) = fence_of(&first).await;
    assert_eq!(found, server.ledger().epoch().0);
    assert_eq!(ours, first.epoch().0);
    assert!(found > other.epoch().0, "epochs are the fleet's");
    World::over(&other).does(text("a", "m4")).await;
    assert_eq!(world.reads(|rows| rows.backlog()).await, 4);
}

#[tokio::test]
async fn nothing_is_written_after_the_lease() {
    let server = OnPostgres::open();
    let world = World::over(server.ledger());
    world.does(text("a", "m1")).await;
    server.ledger().renew().await.unwrap();
    server
        .database()
        .psql("UPDATE codex_bridge.node SET lease_until = 0");
    let (found, ours) = fence_of(server.ledger()).await;
    assert_eq!(found, ours);
    let renewed = server.ledger().renew().await.unwrap_err();
    assert!(renewed.to_string().contains("lease"), "{renewed}");
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
}

#[tokio::test]
async fn every_commit_extends_the_lease() {
    let server = OnPostgres::open();
    let until = || {
        server
            .database()
            .psql("SELECT lease_until FROM codex_bridge.node")
    };
    server
        .database()
        .psql("UPDATE codex_bridge.node SET lease_until = lease_until - 5000");
    let before = until();
    let lease = server.ledger().renew().await.unwrap().unwrap();
    assert!(until() > before);
    let ahead = lease.now.0 - jiff::Timestamp::now().as_millisecond();
    assert!(ahead.abs() < 1_000, "one machine has one clock: {ahead}");
}

#[tokio::test]
async fn lost_answers_to_commits_are_looked_up() {
    let database = Database::empty();
    let proxy = Proxy::before(Server::shared().unwrap().directory());
    let ledger = open_as("n1", &proxy.url_of(&database.name)).unwrap();
    let world = World::over(&ledger);
    world.does(text("a", "m0")).await;
    for (cut, id) in [
        (Cut::After, "m1"),
        (Cut::Before, "m2"),
        (Cut::After, "m3"),
        (Cut::Before, "m4"),
    ] {
        let before = proxy.cuts();
        proxy.cut(cut);
        let received = world.does(text("a", id)).await;
        assert_eq!(proxy.cuts(), before + 1, "{cut:?}");
        assert_eq!(received.outcome, Received::New(message(id)), "{cut:?}");
    }
    assert_eq!(world.reads(|rows| rows.backlog()).await, 5);
    assert_eq!(ledger.commits(), 5);
}

#[tokio::test]
async fn a_killed_connection_heals_by_itself() {
    let server = OnPostgres::open();
    let mut world = World::over(server.ledger());
    for n in 0..3 {
        world.receives(&[("a", &format!("m{n}"))]).await;
        assert_eq!(world.reads(|rows| rows.backlog()).await, n + 1);
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = 'codex-bridge' AND datname = current_database()";
        assert_ne!(server.database().psql(kill), "0");
        assert_eq!(world.reads(|rows| rows.backlog()).await, n + 1);
    }
}

#[tokio::test]
async fn batch_cut_in_the_middle_runs_again() {
    let server = OnPostgres::open();
    let world = World::over(server.ledger());
    let (gate, keeper) = gate();
    let first = hand_in(world.tries(text("a", "m1")));
    let held = hand_in(world.tries(gate));
    let behind = hand_in(world.tries(text("b", "m2")));
    keeper.entered.await.unwrap();
    server.database().psql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'codex-bridge' AND datname = current_database()",
    );
    keeper.release.send(()).unwrap();
    first.await.unwrap();
    held.await.unwrap();
    behind.await.unwrap();
    assert_eq!(world.reads(|rows| rows.backlog()).await, 2);
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let server = Server::start_fast().unwrap();
    server.create_database("ledger", None).unwrap();
    let ledger = open_as("n1", &server.url_of("ledger")).unwrap();
    let mut world = World::over(&ledger);
    for n in 0..2 {
        world
            .runs(&format!("k{n}"), &format!("m{n}"), Sandbox::ReadOnly)
            .await;
        server.restart_immediate().unwrap();
    }
    assert_eq!(world.reads(|rows| rows.backlog()).await, 2);
    world.does(text("k", "last")).await;
}

#[tokio::test]
async fn nul_in_texts_comes_back() {
    let server = OnPostgres::open();
    let world = World::over(server.ledger());
    let mut odd = text("a", "m1");
    odd.body = "one\0two\u{1}three\u{2}".to_owned();
    odd.sender = "a\0nn\u{1}".to_owned();
    odd.channel = ChannelId::new("lo\0cal");
    let (body, sender, channel) = (odd.body.clone(), odd.sender.clone(), odd.channel.clone());
    world.does(odd).await;
    let stored = world.message("m1").await;
    assert_eq!(stored.body, body);
    assert_eq!(stored.sender, sender);
    let (of, on) = (sender.clone(), channel.clone());
    let found = world.reads(move |rows| rows.messages_of_sender(&of, &[on], None, 5));
    assert_eq!(found.await.len(), 1);
    let full = HeadFilter {
        full_channels: vec![channel],
        ..HeadFilter::default()
    };
    let now = world.now;
    let heads = world.reads(move |rows| rows.heads(now, &full, 5)).await;
    assert!(heads.is_empty(), "{heads:?}");
}

#[tokio::test]
async fn other_nodes_hear_of_a_commit() {
    let server = OnPostgres::open();
    let mut own = server.ledger().wakeups().unwrap();
    let other = open_as("n2", &server.database().url()).unwrap();
    let mut heard = other.wakeups().unwrap();
    let patience = Duration::from_secs(20);
    for wakeups in [&mut own, &mut heard] {
        let first = tokio::time::timeout(patience, wakeups.next())
            .await
            .unwrap();
        assert_eq!(first, Wakeup::Missed, "what was before is not known");
    }
    let mut world = World::over(server.ledger());
    world.receives(&[("b", "m0")]).await;
    let first = tokio::time::timeout(patience, heard.next()).await.unwrap();
    let claimable = matches!(first, Wakeup::Changed { schedule: true, .. });
    assert!(claimable, "{first:?}");
    assert_eq!(world.claims().await, "m0");
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    let lost = world.does(crate::given::lose("m1")).await;
    let reconcile = Action::Reconcile {
        message_id: message("m1"),
    };
    assert!(lost.actions.contains(&reconcile));
    let expected = message("m1");
    let named = async {
        loop {
            if let Wakeup::Changed { messages, .. } = heard.next().await
                && messages.contains(&expected)
            {
                return;
            }
        }
    };
    tokio::time::timeout(patience, named).await.unwrap();
    World::over(&other).does(text("b", "m2")).await;
}

/// A network that drops a connection says nothing to who only listens.
#[tokio::test]
async fn deaf_listeners_notice_and_listen_again() {
    let database = Database::empty();
    let proxy = Proxy::before(Server::shared().unwrap().directory());
    let deaf = open_as("n1", &proxy.url_of(&database.name)).unwrap();
    let mut heard = deaf.wakeups().unwrap();
    let patience = Duration::from_secs(60);
    let next = tokio::time::timeout(patience, heard.next()).await;
    assert_eq!(next.unwrap(), Wakeup::Missed);
    proxy.silence();
    let other = open_as("n2", &database.url()).unwrap();
    World::over(&other).does(text("a", "unheard")).await;
    let next = tokio::time::timeout(patience, heard.next()).await;
    assert_eq!(next.unwrap(), Wakeup::Missed, "it listens again");
    // The lease of the other opening may be over by now.
    let other = open_as("n2", &database.url()).unwrap();
    World::over(&other).does(text("a", "heard")).await;
    let next = tokio::time::timeout(patience, heard.next()).await;
    let claimable = matches!(next, Ok(Wakeup::Changed { .. }));
    assert!(claimable, "{next:?}");
}

/// The first answer that names the database's time may be the one that is lost.
#[tokio::test]
async fn lease_without_time_is_no_absence() {
    let database = Database::empty();
    let proxy = Proxy::before(Server::shared().unwrap().directory());
    let ledger = open_as("n1", &proxy.url_of(&database.name)).unwrap();
    proxy.cut(Cut::After);
    let renewed = ledger.renew().await;
    let asks_again = matches!(renewed, Err(LedgerError::Unavailable { .. }));
    assert!(asks_again, "{renewed:?}");
    assert!(ledger.renew().await.unwrap().is_some());
}

#[tokio::test]
async fn nodes_long_gone_are_forgotten() {
    let server = OnPostgres::open();
    let mut world = World::over(server.ledger());
    for node in ["gone", "kept", "left"] {
        open_as(node, &server.database().url()).unwrap();
    }
    world.receives(&[("a", "m1")]).await;
    server.database().psql(
        "UPDATE codex_bridge.node SET lease_until = lease_until - 31 * 86400000::bigint \
         WHERE node_id IN ('gone', 'kept'); \
         INSERT INTO codex_bridge.home SELECT conversation_id, 'kept', 1, 0 FROM codex_bridge.conversation",
    );
    let now = server.ledger().renew().await.unwrap().unwrap().now;
    let keep = Keep {
        done_ms: 0,
        dead_ms: 0,
        audit_ms: 0,
        redelivery_ms: 0,
    };
    let pruned = server.ledger().transact(Prune { now, keep }, now).await;
    pruned.unwrap();
    let nodes = world.reads(|rows| rows.nodes()).await;
    let names: Vec<_> = nodes.iter().map(|node| node.node_id.as_str()).collect();
    assert_eq!(names, ["left", "n1", "kept"], "who lives first");
}

fn refusal(url: &str) -> PostgresOpenError {
    let error = open_as("n1", url).unwrap_err();
    let mut whole = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        whole = format!("{whole}: {error}");
        cause = error.source();
    }
    assert!(!whole.contains("secret"), "{whole}");
    error
}

#[test]
fn a_database_of_another_program_stays() {
    let database = Database::empty();
    database.psql("CREATE TABLE theirs (id int)");
    let error = refusal(&database.url());
    assert!(
        matches!(error, PostgresOpenError::Foreign { .. }),
        "{error}"
    );
    let ours = "SELECT count(*) FROM pg_namespace WHERE nspname = 'codex_bridge'";
    assert_eq!(database.psql(ours), "0");

    let taken = Database::empty();
    taken.psql("CREATE SCHEMA codex_bridge; CREATE TABLE codex_bridge.message (id int)");
    let error = refusal(&taken.url());
    assert!(
        matches!(error, PostgresOpenError::Foreign { .. }),
        "{error}"
    );
}

#[test]
fn a_newer_database_is_refused() {
    let server = OnPostgres::open();
    server
        .database()
        .psql("UPDATE codex_bridge.format SET version = 9, compatible_since = 9");
    let error = refusal(&server.database().url());
    let found = matches!(error, PostgresOpenError::Newer { found: 9, .. });
    assert!(found, "{error}");
    assert!(error.to_string().contains("run the newer"), "{error}");
}

#[test]
fn a_read_only_database_is_refused() {
    let database = Database::empty();
    database.psql(&format!(
        "ALTER DATABASE {} SET default_transaction_read_only = on",
        database.name
    ));
    let error = refusal(&database.url());
    assert!(
        matches!(error, PostgresOpenError::ReadOnly { .. }),
        "{error}"
    );
}

#[test]
fn another_encoding_is_refused() {
    let server = Server::shared().unwrap();
    let make = "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0";
    server.psql("postgres", make).unwrap();
    let error = refusal(&server.url_of("latin"));
    assert!(
        matches!(error, PostgresOpenError::Encoding { .. }),
        "{error}"
    );
    server.drop_database("latin").unwrap();
}

#[test]
fn who_may_not_enter_is_told() {
    let database = Database::empty();
    database.psql("CREATE ROLE guest LOGIN PASSWORD 'right'");
    let wrong = database.url().replace("bridge@", "guest:secret@");
    let nowhere = database.url().replace(&database.name, "nowhere");
    for (url, words) in [(wrong, "pg_hba.conf"), (nowhere, "does not exist")] {
        let error = refusal(&url);
        assert!(
            matches!(error, PostgresOpenError::Refused { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
    database.psql("DROP ROLE guest");
    let error = refusal("postgres://bridge:secret@/ledger?host=/nowhere");
    let unreachable = matches!(error, PostgresOpenError::Unreachable { .. });
    assert!(unreachable, "{error}");
}

#[tokio::test]
async fn weak_servers_are_warned_about() {
    let server = OnPostgres::open();
    let warnings = server.ledger().warnings().join("\n");
    assert!(warnings.contains("fsync = off"), "{warnings}");
    assert!(!warnings.contains("synchronous_commit"), "{warnings}");
}

#[tokio::test]
async fn only_turns_of_other_nodes_are_found() {
    let server = OnPostgres::open();
    let other = open_as("n2", &server.database().url()).unwrap();
    let mut ours = World::over(server.ledger());
    let mut theirs = World::over(&other);
    for n in 0..30 {
        let (key, id) = (format!("ours {n}"), format!("a{n:02}"));
        ours.runs(&key, &id, Sandbox::ReadOnly).await;
    }
    for id in ["b1", "b2", "b3"] {
        theirs.runs(id, id, Sandbox::ReadOnly).await;
    }
    theirs.receives(&[("b1", "b4")]).await;
    let watched = (0..30).map(|n| format!("a{n:02}"));
    let watched = watched.chain(["b1", "b3", "b4", "gone"].map(str::to_owned));
    let watched: Vec<_> = watched.map(|id| message(&id)).collect();
    let found = async |limit| {
        let watched = watched.clone();
        let read = ours.reads(move |rows| rows.in_flight_elsewhere(&watched, limit));
        read.await
    };
    let on_n2 = |id| (message(id), NodeId::new("n2"));
    assert_eq!(found(9).await, [on_n2("b1"), on_n2("b3")]);
    assert_eq!(found(1).await, [on_n2("b1")]);
}
