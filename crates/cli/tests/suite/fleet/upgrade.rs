//! A fleet is upgraded node by node, to a build with a newer schema. The newer build is this one with one more migration.

use super::balancer::{Balancer, Load};
use super::{Fleet, Node};
use crate::world::{Daemon, Running, within};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// What a later version adds, and says that programs of version 1 work on it too.
const ADDITIVE: &str = "-- Compatible since version 1.\n\
    ALTER TABLE message ADD COLUMN label TEXT;\n\
    ALTER TABLE node ADD COLUMN zone TEXT NOT NULL DEFAULT '';\n\
    CREATE TABLE label (label_id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n\
    CREATE INDEX message_label ON message (label) WHERE label IS NOT NULL;\n";

/// What older programs could not use, and so does not say that they can.
const BREAKING: &str = "ALTER TABLE message RENAME COLUMN hops TO steps;\n";

const SCHEMA: &str = "SELECT version, compatible_since FROM codex_bridge.format";

const LISTEN: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

/// A daemon of the newer build.
fn newer(node: &Node<'_>, migration: &str) -> Running {
    let mut command = node.command(&["run"]);
    command.env("CODEX_BRIDGE_NEXT_SCHEMA", next(node, migration));
    Running::of(command)
}

/// Where the newer build finds its migration.
fn next(node: &Node<'_>, migration: &str) -> PathBuf {
    let path = node.place("-next.sql");
    std::fs::write(&path, migration).unwrap();
    path
}

/// What a node's program knows.
fn schema_of(fleet: &Fleet, node: &Node<'_>) -> String {
    let query = "SELECT schema FROM codex_bridge.node WHERE node_id =";
    fleet.rows(&format!("{query} '{}'", node.name))
}

/// The node that has a conversation.
fn home_of(fleet: &Fleet, conversation: &str) -> String {
    fleet.rows(&format!(
        "SELECT node_id FROM codex_bridge.home JOIN codex_bridge.conversation USING (conversation_id) \
         WHERE external_key = '{conversation}'"
    ))
}

/// The fleet under load, and the old daemons of its nodes.
struct Upgrade<'f> {
    fleet: &'f Fleet,
    balancer: Balancer,
    load: Vec<Load>,
}

impl Upgrade<'_> {
    /// Messages are answered meanwhile.
    async fn goes_on(&mut self) {
        for load in &mut self.load {
            load.gets(1).await;
        }
    }

    /// Drains a node in the middle of a turn, and starts the newer build in its place.
    async fn of(&mut self, node: &Node<'_>, other: &Node<'_>, daemon: Daemon) -> Daemon {
        let (name, log) = (node.name, daemon.log.clone());
        let held = format!("held-{name}");
        self.balancer.ask(0, &held, "echo:first").await;
        let moved = other.run(&["move", &held, "--to", name]).await;
        assert_eq!(moved.code, Some(0), "{moved:?}");
        let text = format!("hold:{name} echo:whole");
        let message_id = self.balancer.post(0, &held, &text).await;
        self.fleet.world.model.wait_held(name).await.unwrap();
        let drained = other.run(&["node", "drain", name]).await;
        assert_eq!(drained.code, Some(0), "{drained:?}");
        self.balancer.until(name, false).await;
        self.goes_on().await;
        assert_eq!(home_of(self.fleet, &held), name, "its turn still runs");
        self.fleet.world.model.release(name);
        let shown = self.balancer.finished(0, &message_id).await;
        assert_eq!(shown["answer"]["text"], "whole", "{shown:#}");
        assert_eq!(
            within("a drained node's end", daemon.ended()).await,
            Some(0)
        );
        let said = log.text();
        assert!(!said.contains("interrupted"), "{said}");
        let daemon = Daemon::ready(newer(node, ADDITIVE)).await;
        self.balancer.until(name, true).await;
        daemon
    }

    /// An old and a new node answer at the same time, each with a turn of its own.
    async fn serves_beside(&mut self, old: &Node<'_>, new: &Node<'_>) {
        assert_eq!(schema_of(self.fleet, old), "1");
        assert_eq!(schema_of(self.fleet, new), "2");
        for node in [old, new] {
            let conversation = format!("beside-{}", node.name);
            self.balancer.ask(0, &conversation, "echo:first").await;
            new.run(&["move", &conversation, "--to", node.name]).await;
            let gate = format!("beside-{}", node.name);
            let text = format!("hold:{gate} echo:both");
            self.balancer.post(1, &conversation, &text).await;
            self.fleet.world.model.wait_held(&gate).await.unwrap();
            assert_eq!(home_of(self.fleet, &conversation), node.name);
        }
        for node in [old, new] {
            let gate = format!("beside-{}", node.name);
            self.fleet.world.model.release(&gate);
        }
        self.goes_on().await;
    }
}

/// Every message was answered by its first turn, and sent once.
fn assert_nothing_cut(fleet: &Fleet) {
    let message = "SELECT count(*) FROM codex_bridge.message WHERE";
    let bad = "state <> 'done' OR attempt <> 1 OR continues <> 0";
    assert_eq!(fleet.rows(&format!("{message} {bad}")), "0");
    let turn = "SELECT count(*) FROM codex_bridge.turn WHERE state <> 'ended' OR attempt <> 1";
    assert_eq!(fleet.rows(turn), "0");
    let replies = "SELECT count(*) FROM codex_bridge.message LEFT JOIN codex_bridge.reply USING (message_id) \
         GROUP BY message_id HAVING count(reply_key) <> 1 OR min(tries) <> 1";
    assert_eq!(fleet.rows(replies), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn rolling_upgrade_under_load_fails_nothing() {
    let fleet = Fleet {
        leave_secs: 5,
        ..Fleet::with_settings(LISTEN).await
    };
    let (a, b, c) = (fleet.node("a"), fleet.node("b"), fleet.node("c"));
    let on_a = a.daemon().await;
    let token = a.run(&["token", "add", "client", "--owner"]).await;
    let token = token.stdout.trim().to_owned();
    let (on_b, on_c) = (b.daemon().await, c.daemon().await);
    let balancer = Balancer::before(&fleet, &["a", "b", "c"], token);
    for node in [a, b, c] {
        balancer.until(node.name, true).await;
    }
    let load = ["one", "two", "three"].map(|name| Load::start(balancer.clone(), name));
    let mut upgrade = Upgrade {
        fleet: &fleet,
        balancer,
        load: load.into(),
    };
    upgrade.goes_on().await;
    assert_eq!(fleet.rows(SCHEMA), "1|1");
    let on_a = upgrade.of(&a, &b, on_a).await;
    assert_eq!(fleet.rows(SCHEMA), "2|1");
    upgrade.serves_beside(&b, &a).await;
    let on_b = upgrade.of(&b, &c, on_b).await;
    let on_c = upgrade.of(&c, &a, on_c).await;
    assert_eq!(schema_of(&fleet, &c), "2");
    upgrade.goes_on().await;
    let mut sent = 0;
    for load in std::mem::take(&mut upgrade.load) {
        sent += load.end().await;
    }
    assert_nothing_cut(&fleet);
    for load in ["one", "two", "three"] {
        assert_eq!(fleet.world.times_asked(&format!("echo:{load}-0")), 1);
    }
    let turns: usize = fleet
        .rows("SELECT count(*) FROM codex_bridge.turn")
        .parse()
        .unwrap();
    assert!(turns > sent, "{turns} of which {sent} under load");
    for daemon in [on_a, on_b, on_c] {
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test]
async fn older_programs_join_compatible_schemas_alone() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_a = a.daemon().await;
    let words = ["can't use: a; nothing was changed", "node drain"];
    newer(&b, BREAKING).ended().await.must(1, &words);
    for (migration, words) in [
        (BREAKING, "could not use version 2: a"),
        (ADDITIVE, "it brings the database to version 2"),
    ] {
        let path = next(&b, migration);
        let variable = ("CODEX_BRIDGE_NEXT_SCHEMA", path.to_str().unwrap());
        let said = b.doctor_of_database(&[variable]).await;
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(fleet.rows(SCHEMA), "1|1");
    assert_eq!(a.ask("main", "echo:old").await, "old");
    let on_b = Daemon::ready(newer(&b, ADDITIVE)).await;
    assert_eq!(a.ask("main", "echo:beside").await, "beside");
    assert_eq!(on_a.stop().await, Some(0));
    let mut on_a = a.daemon().await;
    on_a.log.wait_for("upgrade it soon").await;
    assert_eq!(a.ask("main", "echo:joined").await, "joined");
    assert_eq!(on_a.stop().await, Some(0));
    assert_eq!(on_b.stop().await, Some(0));
    // Nobody runs any more, so a schema that older programs can't use may come.
    fleet.rows("UPDATE codex_bridge.format SET version = 1");
    let on_b = Daemon::ready(newer(&b, "CREATE TABLE later (later_id TEXT);\n")).await;
    assert_eq!(fleet.rows(SCHEMA), "2|2");
    let refused = a.run(&["run"]).await;
    refused.must(1, &["schema version 2", "run the newer codex-bridge"]);
    assert_eq!(on_b.stop().await, Some(0));
}

/// Somebody who reads the messages, until dropped.
async fn reader(fleet: &Fleet) -> Child {
    let mut psql = Command::new(fleet.server.program("psql"));
    psql.args(["--no-psqlrc", "--quiet"])
        .arg(fleet.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut psql = psql.spawn().unwrap();
    let reads = "BEGIN; LOCK TABLE codex_bridge.message IN ACCESS SHARE MODE;\n\\echo reads\n";
    let stdin = psql.stdin.as_mut().unwrap();
    stdin.write_all(reads.as_bytes()).await.unwrap();
    let mut said = [0; 5];
    let stdout = psql.stdout.as_mut().unwrap();
    within("a reader", stdout.read_exact(&mut said))
        .await
        .unwrap();
    psql
}

#[tokio::test]
async fn schema_change_lets_readers_finish() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_a = a.daemon().await;
    assert_eq!(a.ask("main", "echo:before").await, "before");
    let reads = reader(&fleet).await;
    let mut starts = newer(&b, ADDITIVE);
    starts
        .stderr
        .wait_for("is in use, and is tried again")
        .await;
    assert_eq!(a.ask("main", "echo:meanwhile").await, "meanwhile");
    drop(reads);
    let on_b = Daemon::ready(starts).await;
    assert_eq!(fleet.rows(SCHEMA), "2|1");
    let said = on_a.log.text();
    assert!(!said.contains("could not be renewed"), "{said}");
    assert_eq!(on_a.stop().await, Some(0));
    assert_eq!(on_b.stop().await, Some(0));
}
