//! The PostgreSQL of tests: it answers, survives its own crash, and does not survive its starter.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use bridge_sim::postgres::Server;

#[test]
fn a_database_answers() {
    let server = Server::shared().unwrap();
    server.create_database("asked \"so\"", None).unwrap();
    let said = server.psql("asked \"so\"", "SELECT current_database(), 6 * 7");
    assert_eq!(said.unwrap(), "asked \"so\"|42");
}

#[test]
fn a_template_is_copied() {
    let server = Server::shared().unwrap();
    server.create_database("original", None).unwrap();
    let rows = "CREATE TABLE kept AS SELECT 7 AS seven";
    server.psql("original", rows).unwrap();
    server.create_database("copy", Some("original")).unwrap();
    assert_eq!(server.psql("copy", "TABLE kept").unwrap(), "7");
    server.drop_database("copy").unwrap();
    let refused = server.psql("copy", "TABLE kept").unwrap_err().to_string();
    assert!(refused.contains("does not exist"), "{refused}");
}

#[test]
fn restart_keeps_what_was_committed() {
    for server in [Server::start().unwrap(), Server::start_fast().unwrap()] {
        let begun = "SELECT pg_postmaster_start_time()";
        let before = server.psql("postgres", begun).unwrap();
        let committed = "CREATE TABLE kept AS SELECT 7 AS seven";
        server.psql("postgres", committed).unwrap();
        server.restart_immediate().unwrap();
        assert_eq!(server.psql("postgres", "TABLE kept").unwrap(), "7");
        assert_ne!(server.psql("postgres", begun).unwrap(), before);
    }
}

#[test]
fn other_roles_need_their_password() {
    let server = Server::shared().unwrap();
    let role = "CREATE ROLE guest LOGIN PASSWORD 'open sesame'";
    server.psql("postgres", role).unwrap();
    let url = server.url_of("postgres").replacen("bridge", "guest", 1);
    let connect = |password: &str| {
        let mut psql = Command::new(server.program("psql"));
        psql.arg(&url)
            .args(["--no-password", "--command", "SELECT 1"])
            .env("PGPASSWORD", password)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        psql.status().unwrap().success()
    };
    assert!(connect("open sesame"));
    assert!(!connect("guess"));
}

#[test]
fn a_wrong_setting_is_explained() {
    let settings = [("no_such_setting", "it's so")];
    let error = Server::start_with(&settings).unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}

#[test]
fn dropped_server_leaves_nothing() {
    let server = Server::start().unwrap();
    let directory = server.directory().to_owned();
    assert!(directory.is_dir());
    drop(server);
    assert_nothing_is_left(&directory);
}

#[test]
fn killed_starter_leaves_nothing() {
    let mut starter = Starter::spawn();
    starter.process.kill().unwrap();
    starter.process.wait().unwrap();
    starter.wait_for_the_last();
    assert_nothing_is_left(&starter.directory);
}

#[test]
fn ended_starter_leaves_nothing() {
    let mut starter = Starter::spawn();
    drop(starter.process.stdin.take());
    assert!(starter.process.wait().unwrap().success());
    starter.wait_for_the_last();
    assert_nothing_is_left(&starter.directory);
}

/// Another process that started a server.
struct Starter {
    process: Child,
    stderr: ChildStderr,
    directory: PathBuf,
}

impl Starter {
    fn spawn() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_scratch-postgres"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut url).unwrap();
        let (_, directory) = url.trim_end().split_once("?host=").unwrap();
        let directory = PathBuf::from(directory);
        assert!(directory.join("data/postmaster.pid").is_file());
        Self {
            stderr: process.stderr.take().unwrap(),
            process,
            directory,
        }
    }

    /// The supervisor holds this pipe to its end, which comes after the server's.
    fn wait_for_the_last(&mut self) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }
}

fn assert_nothing_is_left(directory: &Path) {
    assert!(!directory.exists(), "{directory:?} is left");
    let needle = directory.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    for process in processes {
        // Processes come and go meanwhile.
        let said = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.contains(needle), "{process:?} is left: {said}");
    }
}
