//! Rollout files in homes made of plain files; the real Codex is in the suite of the built binary.

use super::*;
use bridge_core::value::{ClientId, ThreadId};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const THREAD: &str = "01a1f044-a1d7-7d91-b1a7-c8366516aec5";
const REVERTED: &str = "01a1f04a-1343-7a93-ab9f-d5cf370fbceb";
const FORK: &str = "01a1f044-a4b1-7aa2-a08e-abd88764a1d0";
const DAY: &str = "sessions/2026/11/18";

fn thread() -> ThreadId {
    ThreadId::new(THREAD)
}

fn relative(ids: &str) -> String {
    format!("{DAY}/rollout-2026-11-18T20-06-32-{ids}.jsonl")
}

fn path(ids: &str) -> RolloutPath {
    RolloutPath::parse(&relative(ids)).unwrap()
}

fn head(id: &str, base: Option<(&str, usize)>) -> String {
    let base = base.map_or_else(String::new, |(id, end)| {
        format!(r#","history_base":{{"thread_id":"{id}","end_ordinal_exclusive":2,"end_byte_offset":{end}}}"#)
    });
    format!("{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{id}\"{base}}}}}\n")
}

fn message(id: &str) -> String {
    format!(
        "{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"item_completed\",\"item\":{{\"type\":\"UserMessage\",\"client_id\":\"{id}\"}}}}}}\n"
    )
}

struct Rig {
    root: TempDir,
}

impl Rig {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn home(&self) -> CodexHome {
        CodexHome::open(self.root.path()).unwrap()
    }

    fn place(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    fn write(&self, relative: &str, text: &str) {
        let place = self.place(relative);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    fn append(&self, relative: &str, text: &str) {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(self.place(relative))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn text(&self, relative: &str) -> String {
        fs::read_to_string(self.place(relative)).unwrap()
    }

    fn aside(&self) -> PathBuf {
        self.place("aside")
    }

    /// Restores one file as an agent does, with a Codex that deletes the thread's files.
    fn restore(&self, files: &[(&str, &str)]) -> Vec<RestoreOutcome> {
        let mut restore = RolloutRestore::new(self.home(), self.aside());
        for (ids, text) in files {
            restore.file(path(ids)).unwrap();
            let (one, two) = text.split_at(text.len() / 2);
            restore.append(0, one.as_bytes()).unwrap();
            restore.append(one.len() as u64, two.as_bytes()).unwrap();
        }
        let mut plan = restore.compare().unwrap();
        let threads = plan.to_forget();
        plan.set_aside().unwrap();
        for thread in threads {
            let id = super::path::thread_uuid(&thread).unwrap();
            for there in self.home().files_of(id).unwrap() {
                fs::remove_file(self.place(there.as_str())).unwrap();
            }
        }
        let outcomes = plan.place().unwrap();
        let left = fs::read_dir(self.place(DAY)).unwrap();
        let left = left.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_str().unwrap().contains("arriving")
        });
        assert_eq!(left.count(), 0);
        outcomes
    }
}

fn names(files: &[RolloutFile]) -> Vec<(&str, Option<u64>)> {
    let name = |file: &RolloutFile| file.until;
    files
        .iter()
        .map(|file| (file.path.as_str(), name(file)))
        .collect()
}

#[test]
fn finds_plain_archived_and_compressed_threads() {
    let rig = Rig::new();
    assert_eq!(rig.home().lineage(&thread()).unwrap(), []);
    let name = format!("rollout-2026-11-18T20-06-32-{THREAD}.jsonl");
    let archived = format!("archived_sessions/{name}");
    rig.write(&archived, &head(THREAD, None));
    assert_eq!(
        names(&rig.home().lineage(&thread()).unwrap()),
        [(archived.as_str(), None)]
    );
    fs::remove_file(rig.place(&archived)).unwrap();
    let compressed = format!("{}.zst", relative(THREAD));
    rig.write(&compressed, "packed");
    let found = rig.home().lineage(&thread()).unwrap();
    assert_eq!(names(&found), [(compressed.as_str(), None)]);
    assert!(rig.home().newest_client_id(&found).is_err());
    rig.write(&relative(THREAD), &head(THREAD, None));
    let found = rig.home().lineage(&thread()).unwrap();
    assert_eq!(
        names(&found),
        [(relative(THREAD).as_str(), None)],
        "the plain one counts"
    );
    assert!(rig.home().lineage(&ThreadId::new("../etc")).is_err());
}

#[test]
fn links_are_not_followed() {
    let rig = Rig::new();
    let elsewhere = Rig::new();
    elsewhere.write(&relative(THREAD), &head(THREAD, None));
    fs::create_dir_all(rig.place(DAY)).unwrap();
    symlink(
        elsewhere.place(&relative(THREAD)),
        rig.place(&relative(THREAD)),
    )
    .unwrap();
    assert_eq!(rig.home().lineage(&thread()).unwrap(), []);
    let mut tail = RolloutTail::new(path(THREAD), RolloutMark::default());
    assert!(tail.read(&rig.home(), 100).is_err());
    fs::remove_dir_all(rig.place("sessions")).unwrap();
    symlink(elsewhere.place("sessions"), rig.place("sessions")).unwrap();
    assert!(rig.home().lineage(&thread()).is_err());
    let mut restore = RolloutRestore::new(rig.home(), rig.aside());
    assert!(restore.file(path(THREAD)).is_err());
    assert_eq!(elsewhere.home().lineage(&thread()).unwrap().len(), 1);
}

#[test]
fn lineage_names_files_it_goes_on_from() {
    let rig = Rig::new();
    let reverted = format!("{THREAD}_{REVERTED}");
    rig.write(&relative(THREAD), &head(THREAD, None));
    rig.write(&relative(&reverted), &head(THREAD, Some((THREAD, 50))));
    rig.write(&relative(FORK), &head(FORK, Some((REVERTED, 70))));
    let files = rig.home().lineage(&ThreadId::new(FORK)).unwrap();
    let expected = [
        (relative(THREAD), Some(50)),
        (relative(&reverted), Some(70)),
        (relative(FORK), None),
    ];
    let found = names(&files);
    for (found, (path, until)) in found.iter().zip(&expected) {
        assert_eq!(*found, (path.as_str(), *until));
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(
        rig.home().lineage(&thread()).unwrap().len(),
        2,
        "the newest is in use"
    );
    fs::remove_file(rig.place(&relative(THREAD))).unwrap();
    let error = rig.home().lineage(&ThreadId::new(FORK)).unwrap_err();
    assert!(error.to_string().contains(THREAD), "{error}");
    rig.write(&relative(THREAD), &head(THREAD, Some((FORK, 1))));
    assert!(matches!(
        rig.home().lineage(&ThreadId::new(FORK)),
        Err(RolloutError::EndlessLineage(_))
    ));
}

fn appended(change: RolloutChange) -> RolloutSegment {
    match change {
        RolloutChange::Appended(segment) => segment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tail_reads_whole_lines_only() {
    let rig = Rig::new();
    let at = relative(THREAD);
    rig.write(&at, "one\ntwo\nthr");
    let home = rig.home();
    let mut tail = RolloutTail::new(path(THREAD), RolloutMark::default());
    let first = appended(tail.read(&home, 100).unwrap());
    assert_eq!(
        (first.offset, first.bytes.as_slice(), first.more),
        (0, &b"one\ntwo\n"[..], false)
    );
    assert_eq!(
        appended(tail.read(&home, 100).unwrap()),
        first,
        "not stored yet"
    );
    tail.stored(&first);
    assert_eq!(tail.read(&home, 100).unwrap(), RolloutChange::None, "torn");
    rig.append(&at, "ee\n");
    let second = appended(tail.read(&home, 100).unwrap());
    assert_eq!(
        (second.offset, second.bytes.as_slice(), second.more),
        (8, &b"three\n"[..], false)
    );
    tail.stored(&second);
    let mut after_restart = RolloutTail::new(path(THREAD), tail.mark());
    assert_eq!(after_restart.read(&home, 100).unwrap(), RolloutChange::None);
    rig.append(&at, "four\n");
    for tail in [&mut tail, &mut after_restart] {
        assert_eq!(appended(tail.read(&home, 100).unwrap()).bytes, b"four\n");
    }
}

#[test]
fn tail_cuts_long_lines_into_segments() {
    let rig = Rig::new();
    let at = relative(THREAD);
    let text = format!("a\n{}\nb\n", "x".repeat(200_000));
    rig.write(&at, &text);
    let home = rig.home();
    let mut tail = RolloutTail::new(path(THREAD), RolloutMark::default());
    let mut all = Vec::new();
    loop {
        let segment = appended(tail.read(&home, 1000).unwrap());
        assert!(segment.bytes.len() <= 1000);
        all.extend_from_slice(&segment.bytes);
        tail.stored(&segment);
        if !segment.more {
            break;
        }
    }
    assert_eq!(all, text.as_bytes());
    rig.append(&at, &"y".repeat(200_000));
    assert_eq!(tail.read(&home, 1000).unwrap(), RolloutChange::None, "torn");
}

#[test]
fn tail_notices_every_rewriting() {
    let rig = Rig::new();
    let at = relative(THREAD);
    rig.write(&at, "one\ntwo\n");
    let home = rig.home();
    let fresh = || {
        let mut tail = RolloutTail::new(path(THREAD), RolloutMark::default());
        let segment = appended(tail.read(&home, 100).unwrap());
        tail.stored(&segment);
        tail
    };
    let (mut following, mut moved) = (fresh(), fresh());
    let mut packed = fresh();
    rig.write("new", "ONE\ntwo\nthree\n");
    fs::rename(rig.place("new"), rig.place(&at)).unwrap();
    let mut restarted = RolloutTail::new(path(THREAD), following.mark());
    for tail in [&mut following, &mut restarted] {
        assert_eq!(tail.read(&home, 100).unwrap(), RolloutChange::Rewritten);
    }
    rig.write(&at, "one\n");
    assert_eq!(fresh().mark().offset, 4);
    assert_eq!(
        following.read(&home, 100).unwrap(),
        RolloutChange::Rewritten,
        "shorter"
    );
    rig.write("new", "one\ntwo\nthree\n");
    fs::remove_file(rig.place(&at)).unwrap();
    let name = Path::new(&at).file_name().unwrap().to_str().unwrap();
    let archived = format!("archived_sessions/{name}");
    rig.write(&archived, "one\ntwo\nthree\n");
    assert_eq!(appended(moved.read(&home, 100).unwrap()).bytes, b"three\n");
    assert_eq!(moved.path().as_str(), archived);
    fs::rename(rig.place(&archived), rig.place(&format!("{archived}.zst"))).unwrap();
    assert_eq!(packed.read(&home, 100).unwrap(), RolloutChange::Rewritten);
    fs::remove_file(rig.place(&format!("{archived}.zst"))).unwrap();
    assert_eq!(packed.read(&home, 100).unwrap(), RolloutChange::Gone);
}

#[test]
fn restore_writes_extends_and_keeps() {
    let rig = Rig::new();
    assert_eq!(rig.restore(&[(THREAD, "one\n")]), [RestoreOutcome::Written]);
    let mode = |relative: &str| {
        let found = fs::metadata(rig.place(relative)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode(&relative(THREAD)), mode(DAY)), (0o600, 0o700));
    let extended = rig.restore(&[(THREAD, "one\ntwo\n")]);
    assert_eq!(extended, [RestoreOutcome::Extended { by: 4 }]);
    let kept = rig.restore(&[(THREAD, "one\n")]);
    assert_eq!(kept, [RestoreOutcome::Kept { longer_by: 4 }]);
    assert_eq!(rig.text(&relative(THREAD)), "one\ntwo\n");
    assert!(!rig.aside().exists(), "nothing was in the way");
}

#[test]
fn restore_moves_other_branches_aside() {
    let rig = Rig::new();
    rig.write(&relative(THREAD), "one\nold\n");
    let child = format!("{{\"payload\":{{\"parent_thread_id\":\"{THREAD}\"}}}}\n");
    rig.write(&relative(FORK), &child);
    for (number, other) in ["one\nold\n", "one\nother\n"].into_iter().enumerate() {
        rig.write(&relative(THREAD), other);
        let replaced = rig.restore(&[(THREAD, "one\nnew\n")]);
        let [RestoreOutcome::Replaced { aside }] = replaced.as_slice() else {
            panic!("{replaced:?}");
        };
        assert_eq!(fs::read_to_string(aside).unwrap(), other);
        assert!(aside.starts_with(rig.aside()));
        assert_eq!(rig.text(&relative(THREAD)), "one\nnew\n");
        let asides = fs::read_dir(rig.aside()).unwrap().count();
        assert_eq!(asides, 2 * (number + 1), "each, and what it started");
    }
}

#[test]
fn restore_keeps_what_threads_share() {
    let rig = Rig::new();
    let reverted = format!("{THREAD}_{REVERTED}");
    let base = head(THREAD, None);
    rig.write(&relative(THREAD), &format!("{base}more\n"));
    let own = head(THREAD, Some((THREAD, base.len())));
    let outcomes = rig.restore(&[(THREAD, &base), (&reverted, &own)]);
    assert_eq!(
        outcomes,
        [
            RestoreOutcome::Kept { longer_by: 5 },
            RestoreOutcome::Written
        ]
    );
    assert_eq!(rig.text(&relative(THREAD)), format!("{base}more\n"));
    assert_eq!(rig.text(&relative(&reverted)), own);
    assert_eq!(fs::read_dir(rig.aside()).unwrap().count(), 0);
}

#[test]
fn restore_refuses_gaps() {
    let rig = Rig::new();
    let mut restore = RolloutRestore::new(rig.home(), rig.aside());
    assert!(restore.append(0, b"x").is_err());
    restore.file(path(THREAD)).unwrap();
    restore.append(0, b"one\n").unwrap();
    let gap = restore.append(5, b"two\n").unwrap_err();
    assert!(matches!(
        gap,
        RolloutError::Gap {
            expected: 4,
            found: 5,
            ..
        }
    ));
}

#[test]
fn newest_client_id_is_read_backwards() {
    let rig = Rig::new();
    let home = rig.home();
    let newest = || {
        home.newest_client_id(&home.lineage(&thread()).unwrap())
            .unwrap()
    };
    let long = format!(
        "{{\"payload\":{{\"type\":\"other\",\"client_id\":\"no\",\"text\":\"{}\"}}}}\n",
        "x".repeat(300_000)
    );
    let at = relative(THREAD);
    rig.write(&at, &head(THREAD, None));
    assert_eq!(newest(), None);
    rig.append(&at, &message("m1.1"));
    rig.append(&at, &long);
    assert_eq!(newest(), Some(ClientId::new("m1.1")));
    let legacy = r#"{"type":"event_msg","payload":{"type":"user_message","client_id":"m2.1"}}"#;
    rig.append(&at, &format!("{legacy}\n"));
    rig.append(
        &at,
        r#"{"type":"event_msg","payload":{"type":"user_message","client_id":"m3"#,
    );
    assert_eq!(
        newest(),
        Some(ClientId::new("m2.1")),
        "the last line is torn"
    );
    let reverted = relative(&format!("{THREAD}_{REVERTED}"));
    let until = head(THREAD, None).len() + message("m1.1").len();
    rig.write(&reverted, &head(THREAD, Some((THREAD, until))));
    assert_eq!(
        newest(),
        Some(ClientId::new("m1.1")),
        "what it goes on from"
    );
}
