//! The rig: a ledger with a message in every state, files that can be damaged, and what a reader finds in them.

use crate::given::{World, answered, attach, begin, fail, key, note, request, text};
use bridge_core::port::Ledger;
use bridge_core::step::{AcceptInput, Ask, Begin, InputTarget, Receive};
use bridge_core::value::{Class, Sandbox, Task, TaskId, ThreadId, Timestamp};
use bridge_store::{Options, SqliteLedger};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A place for a ledger.
pub(crate) struct Place {
    pub(crate) directory: TempDir,
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        Self { directory, path }
    }

    pub(crate) fn open(&self) -> SqliteLedger {
        SqliteLedger::open(&self.path, &key(), Options::default()).unwrap()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Fills a ledger so that a message is in every state and every table has rows.
pub(crate) async fn every_state<L: Ledger>(ledger: &L) {
    let mut world = World::over(ledger);
    for n in 0..12 {
        let (key, id) = (format!("done{n}"), format!("done{n}"));
        finishes(&mut world, &key, &id).await;
    }
    world
        .starts("starting", "starting", Sandbox::WorkspaceWrite)
        .await;
    world
        .runs("running", "running", Sandbox::WorkspaceWrite)
        .await;
    world.does(note("running", "ran make", true)).await;
    let asked = Ask {
        request: request("running", "r1"),
        at_once: None,
    };
    world.does(asked).await;
    world.loses("unclear", "unclear", Sandbox::ReadOnly).await;
    world.runs("answered", "answered", Sandbox::ReadOnly).await;
    world.does(answered("answered", "an answer", Some(4))).await;
    world.runs("sending", "sending", Sandbox::ReadOnly).await;
    world.does(answered("sending", "an answer", None)).await;
    world.sends("sending").await;
    world.runs("dead", "dead", Sandbox::ReadOnly).await;
    world.does(fail("dead", Class::Permanent)).await;
    world.runs("held", "held", Sandbox::ReadOnly).await;
    world.does(fail("held", Class::Config)).await;
    world.receives(&[("claimed", "claimed")]).await;
    assert_eq!(world.claims().await, "claimed");
    for n in 0..12 {
        let id = format!("received{n}");
        world.receives(&[("received", &id)]).await;
    }
    for n in 0..12 {
        world.does(task(&format!("task{n}"))).await;
    }
    let long = Receive {
        body: "long text ".repeat(2_000),
        ..text("long", "long")
    };
    world.does(long).await;
}

/// The first word of a task of ann, whose message has its name.
pub(crate) fn task(id: &str) -> AcceptInput {
    let receive = text("tasks", id);
    AcceptInput {
        place: InputTarget::New(Task {
            task_id: TaskId::new(format!("e-{id}")),
            channel: receive.channel.clone(),
            conversation_id: receive.conversation_id.clone(),
            owner: receive.sender.clone(),
            sequence: 0,
            created_at: Timestamp(1),
            start: None,
        }),
        receive,
        client_message_id: "their own id".to_owned(),
        original: format!("{id} as it was said"),
        brief: String::new(),
    }
}

/// Brings one message from the door to its end.
pub(crate) async fn finishes<L: Ledger>(world: &mut World<L>, key: &str, id: &str) {
    world.receives(&[(key, id)]).await;
    assert_eq!(world.claims().await, id);
    world.binds(key, &format!("thread-{key}")).await;
    let begun = Begin {
        thread: ThreadId::new(format!("thread-{key}")),
        ..begin(id, Sandbox::WorkspaceWrite)
    };
    world.does(begun).await;
    world.does(attach(id)).await;
    world.does(note(id, "looked around", false)).await;
    world
        .does(answered(id, &format!("answer of {id}"), None))
        .await;
    let reply = world.sends(key).await;
    world.confirms(&reply).await;
}

/// What a message is: its state and its text.
pub(crate) type Messages = BTreeMap<String, (String, String)>;

/// All messages of a file.
pub(crate) fn messages(path: &Path) -> Messages {
    let conn = Connection::open(path).unwrap();
    let query = "SELECT message_id, state, body FROM message JOIN message_text USING (row)";
    let mut statement = conn.prepare(query).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
    rows.unwrap().map(Result::unwrap).collect()
}

/// A copy of a ledger as one file without a log, beside it.
pub(crate) fn one_file(ledger: &Path, name: &str) -> PathBuf {
    let to = ledger.with_file_name(name);
    bridge_store::sqlite::back_up(ledger, &to, bridge_store::sqlite::Existing::Keep).unwrap();
    to
}

/// Whether anybody could claim it.
pub(crate) fn waits(state: &str) -> bool {
    matches!(
        state,
        "received" | "claimed" | "starting" | "running" | "unclear"
    )
}

/// Longest wait for anything; only a broken test gets there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that comes by itself.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut look = tokio::time::interval(Duration::from_millis(2));
    let waiting = async {
        while !is_so() {
            look.tick().await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("waited too long for {what}");
    }
}

/// What this process was told by the test that started it, if one did.
pub(crate) fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// This very test in a process of its own, which is told something.
pub(crate) fn again(program: &[&str], name: &str, value: &str) -> Command {
    let test = std::thread::current().name().unwrap().to_owned();
    let exe = std::env::current_exe().unwrap();
    let mut command = match program {
        [] => Command::new(&exe),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&exe);
            command
        }
    };
    command
        .args(["--exact", "--nocapture", "--test-threads=1", &test])
        .env(name, value);
    command
}

const NAMESPACE: &str = "CODEX_BRIDGE_TEST_NAMESPACE";

/// Runs the rest of this test where file systems can be mounted without anybody else seeing them. True in there;
/// false outside, once it has passed in there.
pub(crate) fn may_mount() -> bool {
    if told(NAMESPACE).is_some() {
        return true;
    }
    let unshare: &[&str] = if nix::unistd::getuid().is_root() {
        &["unshare", "--mount"]
    } else {
        &["unshare", "--mount", "--map-root-user"]
    };
    let ended = again(unshare, NAMESPACE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    if said.contains("unshare:") {
        // The writer's own tests fill a database that may not grow instead.
        eprintln!(
            "NOT TESTED on a real disk: this user may not mount anything ({})",
            said.trim()
        );
        return false;
    }
    let out = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{out}\n{said}");
    assert!(out.contains("1 passed"), "{out}");
    false
}

/// A disk of this many MiB, mounted in a place that vanishes with the process.
pub(crate) fn small_disk(mib: u32) -> Place {
    let place = Place::new();
    mount(
        &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"],
        &place,
    );
    place
}

pub(crate) fn mount(args: &[&str], place: &Place) {
    let mounted = Command::new("mount")
        .args(args)
        .arg(place.directory.path())
        .output();
    let mounted = mounted.unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
}
