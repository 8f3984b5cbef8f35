//! The outbox on a real disk: what is sent, what is not, and that a death at any point sends nothing twice.

use super::*;
use crate::files::{FILE_MAX_BYTES, MESSAGE_MAX_FILES};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A value that must not leave.
const SECRET: &str = "tok-0123456789abcdef";

struct BridgeService {
    root: TempDir,
    file_store: FileStore,
    outbox: Outbox,
}

impl BridgeService {
    fn new(max: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        fs::create_dir(&work).unwrap();
        let conversation = ConversationId::new("c1");
        Self {
            file_store: FileStore::open(root.path().join("files"), max).unwrap(),
            outbox: Outbox::new(&work.display().to_string(), &conversation),
            root,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join("work/outbox").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn set_aside(&self, message: &str) -> Vec<Aside> {
        let message = MessageId::new(message);
        self.outbox.set_aside(&message, 1).unwrap()
    }

    fn gather(&self, aside: &[Aside]) -> Gathered {
        let secrets = Secrets::new([SECRET]);
        self.outbox
            .gather(aside, &self.file_store, &secrets)
            .unwrap()
    }
}

fn names(gathered: &Gathered) -> Vec<&str> {
    let files = gathered.files.iter();
    files.map(|file| file.name.as_str()).collect()
}

#[test]
fn outbox_files_are_gathered_and_cleared() {
    let service = BridgeService::new(FILE_MAX_BYTES);
    assert_eq!(service.set_aside("m1"), []);
    service.put("c1/b.txt", "two");
    service.put("c1/a.txt", "one");
    service.put("c2/other.txt", "of another conversation");
    assert!(service.outbox.is_there());
    let aside = service.set_aside("m1");
    assert_eq!(aside.len(), 1);
    let gathered = service.gather(&aside);
    assert_eq!(names(&gathered), ["a.txt", "b.txt"]);
    assert_eq!(gathered.not_sent, "");
    let copy = gathered.files.first().unwrap().digest;
    assert_eq!(service.file_store.read(&copy).unwrap(), b"one");
    service.outbox.clear(&aside).unwrap();
    assert_eq!(service.set_aside("m2"), []);
    assert!(service.at("c2/other.txt").exists());
    assert!(!service.at("c1").exists());
}

#[test]
fn set_aside_files_survive_crash() {
    let service = BridgeService::new(FILE_MAX_BYTES);
    service.put("c1/a.txt", "one");
    let first = service.gather(&service.set_aside("m1"));
    let again = service.gather(&service.set_aside("m1"));
    assert_eq!(first, again);
    service.put("c1/late.txt", "after it was set aside");
    let aside = service.set_aside("m1");
    assert_eq!(names(&service.gather(&aside)), ["a.txt"]);
    // The answer was written and the death came before the files were thrown away.
    let aside = service.set_aside("m2");
    let (answered, open): (Vec<Aside>, Vec<Aside>) = aside
        .into_iter()
        .partition(|aside| aside.message_id.as_str() == "m1");
    service.outbox.clear(&answered).unwrap();
    assert_eq!(names(&service.gather(&open)), ["late.txt"]);
}

#[test]
fn threat_14_outbox_sends_only_regular_files() {
    let service = BridgeService::new(FILE_MAX_BYTES);
    let secret = service.root.path().join("secret");
    fs::write(&secret, "token").unwrap();
    service.put("c1/good.txt", "fine");
    symlink(&secret, service.at("c1/link.txt")).unwrap();
    fs::hard_link(&secret, service.at("c1/hard.txt")).unwrap();
    service.put("c1/folder/x", "inside");
    nix::unistd::mkfifo(&service.at("c1/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let aside = service.set_aside("m1");
    let gathered = service.gather(&aside);
    assert_eq!(names(&gathered), ["good.txt"]);
    for name in ["`link.txt`", "`hard.txt`", "`folder`", "`pipe`"] {
        assert!(gathered.not_sent.contains(name), "{}", gathered.not_sent);
    }
    let kept = fs::read_to_string(service.at("not-sent/m1/folder/x")).unwrap();
    assert_eq!(kept, "inside");
    service.outbox.clear(&aside).unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "token");
    assert_eq!(service.set_aside("m2"), []);
}

#[test]
fn threat_14_linked_outbox_is_rejected() {
    for link in ["outbox", "outbox/c1"] {
        let service = BridgeService::new(FILE_MAX_BYTES);
        let elsewhere = service.root.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join("c1")).unwrap();
        fs::write(elsewhere.join("c1/a"), "x").unwrap();
        if link != "outbox" {
            fs::create_dir(service.at("")).unwrap();
        }
        symlink(&elsewhere, service.root.path().join("work").join(link)).unwrap();
        let message = MessageId::new("m1");
        assert!(service.outbox.set_aside(&message, 1).is_err());
        assert!(service.outbox.is_there());
        assert!(elsewhere.join("c1/a").exists());
    }
}

#[test]
fn p10_outbox_limits_size_and_count() {
    let service = BridgeService::new(10);
    service.put("c1/00-long.bin", "eleven bytes and more");
    for n in 10..60 {
        service.put(&format!("c1/{n}.txt"), "x");
    }
    let gathered = service.gather(&service.set_aside("m1"));
    assert_eq!(gathered.files.len(), MESSAGE_MAX_FILES);
    let not_sent = &gathered.not_sent;
    assert!(
        not_sent.contains("`00-long.bin`: it is longer than 10 bytes"),
        "{not_sent}"
    );
    assert!(not_sent.contains("and 31 more"), "{not_sent}");
    assert!(service.at("not-sent/m1/00-long.bin").exists());
}

/// A value that no text may hold can't leave in a file either, however it is written there.
#[test]
fn threat_5_outbox_skips_files_with_secrets() {
    let service = BridgeService::new(FILE_MAX_BYTES);
    let padding = "x".repeat((64 << 10) - 5);
    service.put("c1/cut.bin", &format!("{padding}{SECRET} and more"));
    service.put("c1/base64.txt", "dG9rLTAxMjM0NTY3\nODlhYmNkZWY=\n");
    service.put(&format!("c1/{SECRET}.txt"), "nothing");
    service.put("c1/fine.txt", "tok-0123456789abcde");
    let gathered = service.gather(&service.set_aside("m1"));
    assert_eq!(names(&gathered), ["fine.txt"]);
    for reason in [
        "`cut.bin`: it holds a secret value",
        "`base64.txt`: it holds a secret value",
        "`[withheld].txt`: its name holds a secret value",
    ] {
        assert!(gathered.not_sent.contains(reason), "{gathered:?}");
    }
    assert!(!gathered.not_sent.contains(SECRET));
    assert!(service.at("not-sent/m1/cut.bin").exists());
    let drafts = fs::read_dir(service.root.path().join("files/drafts"));
    assert_eq!(drafts.unwrap().count(), 0);
}

#[test]
fn unremovable_files_block_no_later_answer() {
    for not_sent_is_a_file in [false, true] {
        let service = BridgeService::new(FILE_MAX_BYTES);
        service.put("c1/tree/deep.txt", "a directory can't be sent");
        if not_sent_is_a_file {
            service.put(NOT_SENT, "so nothing can be put by");
        } else {
            // A tree of this name is there already.
            service.put(&format!("{NOT_SENT}/m1/tree/deep.txt"), "of an earlier try");
        }
        let aside = service.set_aside("m1");
        let gathered = service.gather(&aside);
        assert_eq!(names(&gathered), [""; 0]);
        assert!(gathered.not_sent.contains("tree"), "{gathered:?}");
        service.outbox.clear(&aside).unwrap();

        service.put("c1/a.txt", "one");
        let later = service.set_aside("m2");
        let open: Vec<Aside> = later
            .into_iter()
            .filter(|aside| aside.message_id.as_str() == "m2")
            .collect();
        assert_eq!(names(&service.gather(&open)), ["a.txt"]);
        service.outbox.clear(&open).unwrap();
    }
}

#[test]
fn d6_files_beside_the_outboxes_are_counted() {
    let service = BridgeService::new(FILE_MAX_BYTES);
    service.put("stray.txt", "one");
    service.put("other.txt", "two");
    service.put("c1/a.txt", "three");
    service.put("not-sent/m0/b.txt", "four");
    let all = HeldDirectory::open(&service.root.path().join("work")).unwrap();
    let all = all.below(OUTBOX).unwrap().unwrap();
    let names = all.names(ENTRIES_MAX).unwrap();
    assert_eq!(stray_files(&all, &names).unwrap(), 2);
    let gathered = service.gather(&service.set_aside("m1"));
    assert_eq!(gathered.files.len(), 1);
    assert!(service.at("stray.txt").exists());
}
