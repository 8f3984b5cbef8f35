//! A ledger copied from one engine to the other: whole, equal, and nothing where it failed.

use crate::differential::Pair;
use crate::fixture::{Database, Fixture, OnDisk, OnPostgres};
use crate::given::{World, conversation, incarnation, key, message, note, text};
use bridge_core::port::Ledger;
use bridge_core::step::{Incarnate, Receive, Received, Record, StoreFile, TakeOver};
use bridge_core::value::{AuditEntry, FileDigest, NodeId, Sandbox, StateName, Timestamp};
use bridge_store::copy::{CopiedTable, CopyReport};
use bridge_store::sqlite::audit;
use bridge_store::{
    CopyError, LedgerCopy, LedgerPlace, Options, PostgresLedger, PostgresOptions, PostgresUrl,
    SqliteLedger, postgres,
};
use rusqlite::{Connection, params};
use std::path::Path;
use tempfile::TempDir;

const FILE: FileDigest = FileDigest::new([9; 32]);
const NOW: Timestamp = Timestamp(77);

fn file(path: &Path) -> LedgerPlace {
    LedgerPlace::Sqlite(path.to_owned())
}

fn server(database: &Database) -> LedgerPlace {
    LedgerPlace::Postgres(Box::new(PostgresUrl::new(&database.url()).unwrap()))
}

fn copy_with(
    from: &LedgerPlace,
    to: &LedgerPlace,
    progress: &(dyn Fn(&CopiedTable) + Sync),
) -> Result<CopyReport, CopyError> {
    let copy = LedgerCopy {
        from,
        to,
        key: Some(&key().public()),
        is_running: &|_| false,
        becomes: None,
        progress,
        now: NOW,
    };
    copy.run()
}

fn copy(from: &LedgerPlace, to: &LedgerPlace) -> Result<CopyReport, CopyError> {
    copy_with(from, to, &|_| ())
}

/// Random work in most tables; rows that it leaves out are written by hand, with texts that engines mind.
async fn filled() -> OnDisk {
    let mut pair = Pair::open(6);
    for _ in 0..480 {
        pair.step().await;
    }
    let disk = pair.disk;
    let world = World::over(disk.ledger());
    let incarnation = incarnation("i-left", 3);
    world.does(Incarnate { incarnation }).await;
    for number in 0..20 {
        let entry = AuditEntry {
            at: Timestamp(number),
            actor: "ann".to_owned(),
            what: "did".to_owned(),
            subject: format!("s{number}"),
            detail: "\0 and \u{1}\u{2} \u{1f980}".to_owned(),
        };
        world.does(Record { entry }).await;
    }
    let store = StoreFile {
        digest: FILE,
        known: None,
        bytes: b"of a file".to_vec(),
    };
    world.does(store).await;
    let conn = Connection::open(disk.path()).unwrap();
    for (channel, position) in [
        ("nul", "a\0b"),
        ("marks", "\u{1}\u{1}\u{2}\0"),
        ("plain", ""),
    ] {
        let insert = "INSERT INTO cursor (channel, position, updated_at) VALUES (?1, ?2, ?3)";
        conn.execute(insert, params![channel, position, i64::MIN])
            .unwrap();
    }
    conn.execute_batch(
        "INSERT INTO token (name, hash, scopes, kind, created_at) VALUES ('t', 'h', 'read', 'token', 9223372036854775807); \
         INSERT OR IGNORE INTO stored_bytes (channel, sender, hour, bytes) VALUES ('local', 'ann', -1, 0); \
         INSERT OR IGNORE INTO quota (node_id, codex_home, has_credits, reported_at) VALUES ('', '', 0, -1); \
         INSERT INTO receiver (receiver_id, session, endpoint, p256dh, auth, about, detail, created_at) \
         VALUES ('r', 's', 'e', 'p', 'a', 'task', 'hint', 1); \
         INSERT INTO alert (receiver_id, kind, subject, conversation_id, mark, state, summed, tries, created_at) \
         VALUES ('r', 'task', 't', 'c', 'end', 'waiting', 0, 0, 1); \
         INSERT OR IGNORE INTO loan (conversation_id, loan_id, borrower, since, until) \
         SELECT conversation_id, 'l1', 'me', 1, 2 FROM conversation ORDER BY conversation_id LIMIT 1; \
         UPDATE instance SET push_key = 'k'",
    )
    .unwrap();
    let one = |query: &str| -> String { conn.query_row(query, [], |row| row.get(0)).unwrap() };
    let (message, task) = (
        one("SELECT message_id FROM message LIMIT 1"),
        one("SELECT task_id FROM task LIMIT 1"),
    );
    conn.execute(
        "INSERT INTO request (request_id, message_id, attempt, incarnation, rpc_id, method, kind, headline, shown, digest, \
         payload, answer_kind, secret_answer, deciders, state, reason, created_at, deadline, reminded) \
         VALUES ('r', ?1, 1, 'i-left', '0', 'm', 'k', 'h', '', 'd', '{}', 'text', 1, 'owner', 'withdrawn', 'w', 1, 2, 0)",
        [message],
    )
    .unwrap();
    conn.execute(
        "INSERT OR IGNORE INTO subscription (task_id, subscription_id, kind, target, state, tries, created_at) \
         VALUES (?1, 'by-hand', 'nobody', '', 'waiting', 0, 1)",
        [task],
    )
    .unwrap();
    for (start, length) in [(0_i64, 700_000_i64), (700_000, 3), (700_003, 256)] {
        let body: Vec<u8> = (0..length).map(|byte| byte.to_le_bytes()[0]).collect();
        let insert = "INSERT INTO segment (thread, path, start, length, generation, body, digest) \
             VALUES ('thread', 'sessions/x.jsonl', ?1, ?2, 1, ?3, x'00ff')";
        conn.execute(insert, params![start, length, body]).unwrap();
    }
    disk
}

/// From somebody whom the random work did not revoke.
fn new(id: &str) -> Receive {
    Receive {
        sender: "new".to_owned(),
        ..text("new", id)
    }
}

fn open_copy(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path, &key(), Options::default()).unwrap()
}

fn open_node(database: &Database) -> PostgresLedger {
    let url = PostgresUrl::new(&database.url()).unwrap();
    let options = PostgresOptions::default();
    PostgresLedger::open(&url, &NodeId::new("n1"), &key(), options).unwrap()
}

#[tokio::test]
async fn copy_is_equal_there_and_back() {
    let source = filled().await;
    let (database, directory) = (Database::empty(), TempDir::new().unwrap());
    let back = directory.path().join("ledger.db");
    let there = copy(&file(&source.path()), &server(&database)).unwrap();
    let again = copy(&server(&database), &file(&back)).unwrap();
    assert_eq!(there.tables, again.tables);
    let names: Vec<_> = there.tables.iter().map(|one| one.table.as_str()).collect();
    assert_eq!(names.len(), 25, "{names:?}");
    let empty = there.tables.iter().filter(|one| one.rows == 0);
    assert_eq!(empty.count(), 0, "{:?}", there.tables);
    let chain = there.audit.as_ref().unwrap();
    assert!(chain.chained >= 20 && chain.unchained == 0, "{chain:?}");
    let own = key().public();
    let url = PostgresUrl::new(&database.url()).unwrap();
    let on_server = postgres::audit(&url, 5, Some(&own)).unwrap().unwrap();
    let in_file = audit(&back, 5, Some(&own)).unwrap().unwrap();
    assert_eq!(on_server, in_file);
    assert_eq!(
        on_server,
        audit(&source.path(), 5, Some(&own)).unwrap().unwrap()
    );
    assert_eq!(there.signer, Some(own));
}

#[tokio::test]
async fn copies_count_on_behind_their_source() {
    let source = filled().await;
    let (database, directory) = (Database::empty(), TempDir::new().unwrap());
    copy(&file(&source.path()), &server(&database)).unwrap();
    let highest = database.psql("SELECT max(row) FROM codex_bridge.message");
    let highest: i64 = highest.parse().unwrap();
    let node = open_node(&database);
    assert!(node.epoch() > source.ledger().epoch());
    let world = World::over(&node);
    let received = world.does(new("m-on-server")).await.outcome;
    assert_eq!(received, Received::New(message("m-on-server")));
    let piece = world.reads(|rows| rows.file_piece(&FILE, 0)).await;
    assert_eq!(piece.as_deref(), Some(&b"of a file"[..]));
    let clear = "SELECT count(*) FROM codex_bridge.file_piece WHERE position('of a file'::bytea IN body) > 0";
    assert_eq!(database.psql(clear), "0");
    let row = "SELECT row FROM codex_bridge.message WHERE message_id = 'm-on-server'";
    assert_eq!(database.psql(row).parse(), Ok(highest + 1));
    assert_eq!(world.state("m-on-server").await, StateName::Received);
    let epoch = node.epoch();
    drop((node, world));
    database.psql("UPDATE codex_bridge.node SET lease_until = 0");
    let back = directory.path().join("ledger.db");
    copy(&server(&database), &file(&back)).unwrap();
    let ledger = open_copy(&back);
    assert!(ledger.epoch() > epoch);
    let world = World::over(&ledger);
    world.does(new("m-in-file")).await;
    let conn = Connection::open(&back).unwrap();
    let row = "SELECT row FROM message WHERE message_id = 'm-in-file'";
    let row: i64 = conn.query_row(row, [], |row| row.get(0)).unwrap();
    assert_eq!(row, highest + 2);
}

#[tokio::test]
async fn failed_copies_leave_an_empty_destination() {
    let source = filled().await;
    let (database, directory) = (Database::empty(), TempDir::new().unwrap());
    let back = directory.path().join("ledger.db");
    let dies = |one: &CopiedTable| assert_ne!(one.table, "audit", "as if it was killed here");
    let killed = copy_with(&file(&source.path()), &server(&database), &dies);
    assert!(matches!(killed, Err(CopyError::Panicked)), "{killed:?}");
    let cut = |one: &CopiedTable| {
        if one.table == "turn" {
            database.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            );
        }
    };
    let lost = copy_with(&file(&source.path()), &server(&database), &cut).unwrap_err();
    assert!(matches!(lost, CopyError::Rows { .. }), "{lost}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'codex_bridge'";
    assert_eq!(database.psql(schemas), "0");
    let there = copy(&file(&source.path()), &server(&database)).unwrap();
    let killed = copy_with(&server(&database), &file(&back), &dies);
    assert!(matches!(killed, Err(CopyError::Panicked)), "{killed:?}");
    assert!(!back.exists());
    let again = copy(&server(&database), &file(&back)).unwrap();
    assert_eq!(there.tables, again.tables);
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn used_destinations_are_refused_untouched() {
    let source = filled().await;
    let used = OnPostgres::open();
    let now = used.database().psql("SELECT * FROM codex_bridge.node");
    let live = copy(&file(&source.path()), &server(used.database())).unwrap_err();
    assert!(live.to_string().contains("the node n1 uses"), "{live}");
    let live = copy(&server(used.database()), &file(Path::new("/nowhere"))).unwrap_err();
    assert!(matches!(live, CopyError::LiveNodes { .. }), "{live}");
    assert_eq!(now, used.database().psql("SELECT * FROM codex_bridge.node"));
    used.database()
        .psql("UPDATE codex_bridge.node SET state = 'left'");
    let filled = copy(&file(&source.path()), &server(used.database())).unwrap_err();
    assert!(filled.to_string().contains("is not empty"), "{filled}");
    let epoch = used
        .database()
        .psql("SELECT epoch FROM codex_bridge.instance");
    assert_eq!(epoch.parse(), Ok(used.ledger().epoch().0));
    let foreign = Database::empty();
    foreign.psql("CREATE TABLE public.theirs (a int)");
    let refused = copy(&file(&source.path()), &server(&foreign)).unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
    let before = std::fs::read(source.path()).unwrap();
    let other = server(used.database());
    let taken = copy(&other, &file(&source.path())).unwrap_err();
    assert!(taken.to_string().contains("exists already"), "{taken}");
    assert_eq!(before, std::fs::read(source.path()).unwrap());
    let files = copy(&file(&source.path()), &file(Path::new("/x"))).unwrap_err();
    assert!(files.to_string().contains("codex-bridge backup"), "{files}");
}

#[tokio::test]
async fn empty_tables_are_a_destination() {
    let source = filled().await;
    let database = Database::empty();
    copy(&file(&OnDisk::open().path()), &server(&database)).unwrap();
    let used = copy(&file(&source.path()), &server(&database)).unwrap_err();
    assert!(used.to_string().contains("table instance"), "{used}");
    database.psql(
        "UPDATE codex_bridge.instance SET epoch = 0, audit_key = NULL; DELETE FROM codex_bridge.audit",
    );
    copy(&file(&source.path()), &server(&database)).unwrap();
}

#[tokio::test]
async fn nodes_and_homes_stay_behind() {
    let fleet = OnPostgres::open();
    let mut world = World::over(fleet.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    let incarnation = incarnation("i1", 3);
    world.does(Incarnate { incarnation }).await;
    let leave = "UPDATE codex_bridge.node SET state = 'left'";
    fleet.database().psql(leave);
    let lives = copy(&server(fleet.database()), &file(Path::new("/nowhere"))).unwrap_err();
    assert!(
        matches!(lives, CopyError::LiveNodes { .. }),
        "its Codex may live: {lives}"
    );
    let gone = "UPDATE codex_bridge.node SET lease_until = 0";
    fleet.database().psql(gone);
    let (directory, other) = (TempDir::new().unwrap(), Database::empty());
    let back = directory.path().join("ledger.db");
    let report = copy(&server(fleet.database()), &file(&back)).unwrap();
    assert_eq!(report.nodes[0].node, "n1");
    assert_eq!((report.nodes[0].conversations, report.unfinished), (1, 1));
    let conn = Connection::open(&back).unwrap();
    let rows = "SELECT (SELECT count(*) FROM node) + (SELECT count(*) FROM home)";
    assert_eq!(conn.query_row(rows, [], |row| row.get(0)), Ok(0));
    let ledger = open_copy(&back);
    let world = World::over(&ledger);
    let left = world.reads(|rows| rows.live_incarnations()).await;
    assert_eq!(left.len(), 1, "a daemon with a file ends what is left");
    assert_eq!(world.message("m1").await.message_id, message("m1"));
    drop((ledger, world));
    copy(&file(&back), &server(&other)).unwrap();
    let ended = other.psql("SELECT ended_at FROM codex_bridge.incarnation");
    assert_eq!(ended.parse(), Ok(NOW.0));
}

#[tokio::test]
async fn running_codex_refuses_a_copy() {
    let source = filled().await;
    let database = Database::empty();
    let copy = LedgerCopy {
        from: &file(&source.path()),
        to: &server(&database),
        key: None,
        is_running: &|one| one.incarnation_id.as_str() == "i-left",
        becomes: None,
        progress: &|_| (),
        now: NOW,
    };
    let refused = copy.run().unwrap_err();
    assert!(refused.to_string().contains("process 42"), "{refused}");
}

#[tokio::test]
async fn file_s_daemon_becomes_a_node() {
    let disk = OnDisk::open();
    let mut world = World::over(disk.ledger());
    world.runs("a", "m1", Sandbox::WorkspaceWrite).await;
    world.does(note("m1", "wrote a file", true)).await;
    world.binds("a", "thread").await;
    world.runs("c", "m3", Sandbox::WorkspaceWrite).await;
    world.receives(&[("b", "m2")]).await;
    let incarnation = incarnation("i1", 3);
    world.does(Incarnate { incarnation }).await;
    let database = Database::empty();
    let copy = LedgerCopy {
        from: &file(&disk.path()),
        to: &server(&database),
        key: None,
        is_running: &|_| false,
        becomes: Some(&NodeId::new("n1")),
        progress: &|_| (),
        now: NOW,
    };
    assert_eq!(copy.run().unwrap().at_home, 1);
    let options = PostgresOptions::default();
    let url = PostgresUrl::new(&database.url()).unwrap();
    let early = PostgresLedger::open(&url, &NodeId::new("n2"), &key(), options).unwrap();
    let take_over = TakeOver {
        limit: 10,
        leave_written: true,
    };
    let left = World::over(&early).does(take_over.clone()).await.outcome;
    assert_eq!(left.conversations, [conversation("c")], "no files keep it");
    let node = open_node(&database);
    let world = World::over(&node);
    let home = world.reads(|rows| rows.home(&conversation("a"))).await;
    assert_eq!(home.unwrap().node_id, Some(NodeId::new("n1")));
    let found = world.reads(|rows| rows.live_incarnations()).await;
    assert_eq!(found.len(), 1, "what ran there is the node's to end");
    let take_over = TakeOver {
        leave_written: false,
        ..take_over
    };
    let left = World::over(&early).does(take_over).await.outcome;
    assert!(left.conversations.is_empty(), "its node lives");
    assert_eq!(World::over(&early).claims().await, "m2");
}
