//! The outbox on a real disk: what is sent, what is not, and that a death at any point sends nothing twice.

use super::*;
use crate::files::{FILE_MAX_BYTES, MESSAGE_MAX_FILES};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A value that must not leave.
const SECRET: &str = "tok-0123456789abcdef";

struct Desk {
    root: TempDir,
    depot: Depot,
    outbox: Outbox,
}

impl Desk {
    fn new(max: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        fs::create_dir(&work).unwrap();
        let conversation = ConversationId::new("c1");
        Self {
            depot: Depot::open(root.path().join("files"), max).unwrap(),
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
        self.outbox.gather(aside, &self.depot, &secrets).unwrap()
    }
}

fn names(gathered: &Gathered) -> Vec<&str> {
    let files = gathered.files.iter();
    files.map(|file| file.name.as_str()).collect()
}

#[test]
fn files_are_copied_and_gone_when_the_answer_is_written() {
    let desk = Desk::new(FILE_MAX_BYTES);
    assert_eq!(desk.set_aside("m1"), []);
    desk.put("c1/b.txt", "two");
    desk.put("c1/a.txt", "one");
    desk.put("c2/other.txt", "of another conversation");
    assert!(desk.outbox.is_there());
    let aside = desk.set_aside("m1");
    assert_eq!(aside.len(), 1);
    let gathered = desk.gather(&aside);
    assert_eq!(names(&gathered), ["a.txt", "b.txt"]);
    assert_eq!(gathered.not_sent, "");
    let copy = &gathered.files.first().unwrap().path;
    assert_eq!(fs::read_to_string(copy).unwrap(), "one");
    desk.outbox.clear(&aside).unwrap();
    assert_eq!(desk.set_aside("m2"), []);
    assert!(desk.at("c2/other.txt").exists());
    assert!(!desk.at("c1").exists());
}

#[test]
fn what_was_set_aside_before_a_death_is_gathered_again_and_never_mixed_up() {
    let desk = Desk::new(FILE_MAX_BYTES);
    desk.put("c1/a.txt", "one");
    let first = desk.gather(&desk.set_aside("m1"));
    let again = desk.gather(&desk.set_aside("m1"));
    assert_eq!(first, again);
    desk.put("c1/late.txt", "after it was set aside");
    let aside = desk.set_aside("m1");
    assert_eq!(names(&desk.gather(&aside)), ["a.txt"]);
    // The answer was written and the death came before the files were thrown away.
    let aside = desk.set_aside("m2");
    let (answered, open): (Vec<Aside>, Vec<Aside>) = aside
        .into_iter()
        .partition(|aside| aside.message_id.as_str() == "m1");
    desk.outbox.clear(&answered).unwrap();
    assert_eq!(names(&desk.gather(&open)), ["late.txt"]);
}

#[test]
fn threat_14_links_pipes_and_directories_are_not_sent_and_are_named() {
    let desk = Desk::new(FILE_MAX_BYTES);
    let secret = desk.root.path().join("secret");
    fs::write(&secret, "token").unwrap();
    desk.put("c1/good.txt", "fine");
    symlink(&secret, desk.at("c1/link.txt")).unwrap();
    fs::hard_link(&secret, desk.at("c1/hard.txt")).unwrap();
    desk.put("c1/folder/x", "inside");
    nix::unistd::mkfifo(&desk.at("c1/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let aside = desk.set_aside("m1");
    let gathered = desk.gather(&aside);
    assert_eq!(names(&gathered), ["good.txt"]);
    for name in ["`link.txt`", "`hard.txt`", "`folder`", "`pipe`"] {
        assert!(gathered.not_sent.contains(name), "{}", gathered.not_sent);
    }
    let kept = fs::read_to_string(desk.at("not-sent/m1/folder/x")).unwrap();
    assert_eq!(kept, "inside");
    desk.outbox.clear(&aside).unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "token");
    assert_eq!(desk.set_aside("m2"), []);
}

#[test]
fn threat_14_an_outbox_that_is_a_link_is_not_looked_into() {
    for link in ["outbox", "outbox/c1"] {
        let desk = Desk::new(FILE_MAX_BYTES);
        let elsewhere = desk.root.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join("c1")).unwrap();
        fs::write(elsewhere.join("c1/a"), "x").unwrap();
        if link != "outbox" {
            fs::create_dir(desk.at("")).unwrap();
        }
        symlink(&elsewhere, desk.root.path().join("work").join(link)).unwrap();
        let message = MessageId::new("m1");
        assert!(desk.outbox.set_aside(&message, 1).is_err());
        assert!(desk.outbox.is_there());
        assert!(elsewhere.join("c1/a").exists());
    }
}

#[test]
fn p10_long_and_many_files_are_cut_off_and_named() {
    let desk = Desk::new(10);
    desk.put("c1/00-long.bin", "eleven bytes and more");
    for n in 10..60 {
        desk.put(&format!("c1/{n}.txt"), "x");
    }
    let gathered = desk.gather(&desk.set_aside("m1"));
    assert_eq!(gathered.files.len(), MESSAGE_MAX_FILES);
    let not_sent = &gathered.not_sent;
    assert!(
        not_sent.contains("`00-long.bin`: it is longer than 10 bytes"),
        "{not_sent}"
    );
    assert!(not_sent.contains("and 31 more"), "{not_sent}");
    assert!(desk.at("not-sent/m1/00-long.bin").exists());
}

/// A value that no text may hold can't leave in a file either, however it is written there.
#[test]
fn threat_5_a_file_that_holds_a_secret_is_not_sent() {
    let desk = Desk::new(FILE_MAX_BYTES);
    let padding = "x".repeat((64 << 10) - 5);
    desk.put("c1/cut.bin", &format!("{padding}{SECRET} and more"));
    desk.put("c1/base64.txt", "dG9rLTAxMjM0NTY3\nODlhYmNkZWY=\n");
    desk.put(&format!("c1/{SECRET}.txt"), "nothing");
    desk.put("c1/fine.txt", "tok-0123456789abcde");
    let gathered = desk.gather(&desk.set_aside("m1"));
    assert_eq!(names(&gathered), ["fine.txt"]);
    for told in [
        "`cut.bin`: it holds a secret value",
        "`base64.txt`: it holds a secret value",
        "`[withheld].txt`: its name holds a secret value",
    ] {
        assert!(gathered.not_sent.contains(told), "{gathered:?}");
    }
    assert!(!gathered.not_sent.contains(SECRET));
    assert!(desk.at("not-sent/m1/cut.bin").exists());
    let drafts = fs::read_dir(desk.root.path().join("files/drafts"));
    assert_eq!(drafts.unwrap().count(), 0);
}

#[test]
fn what_can_not_be_thrown_away_is_in_the_way_of_no_later_answer() {
    for not_sent_is_a_file in [false, true] {
        let desk = Desk::new(FILE_MAX_BYTES);
        desk.put("c1/tree/deep.txt", "a directory can't be sent");
        if not_sent_is_a_file {
            desk.put(NOT_SENT, "so nothing can be put by");
        } else {
            // A tree of this name lies there already.
            desk.put(&format!("{NOT_SENT}/m1/tree/deep.txt"), "of an earlier try");
        }
        let aside = desk.set_aside("m1");
        let gathered = desk.gather(&aside);
        assert_eq!(names(&gathered), [""; 0]);
        assert!(gathered.not_sent.contains("tree"), "{gathered:?}");
        desk.outbox.clear(&aside).unwrap();

        desk.put("c1/a.txt", "one");
        let later = desk.set_aside("m2");
        let open: Vec<Aside> = later
            .into_iter()
            .filter(|aside| aside.message_id.as_str() == "m2")
            .collect();
        assert_eq!(names(&desk.gather(&open)), ["a.txt"]);
        desk.outbox.clear(&open).unwrap();
    }
}

#[test]
fn d6_files_beside_the_outboxes_are_counted() {
    let desk = Desk::new(FILE_MAX_BYTES);
    desk.put("stray.txt", "one");
    desk.put("other.txt", "two");
    desk.put("c1/a.txt", "three");
    desk.put("not-sent/m0/b.txt", "four");
    let all = Ground::open(&desk.root.path().join("work")).unwrap();
    let all = all.below(OUTBOX).unwrap().unwrap();
    let names = all.names(ENTRIES_MAX).unwrap();
    assert_eq!(stray_files(&all, &names).unwrap(), 2);
    let gathered = desk.gather(&desk.set_aside("m1"));
    assert_eq!(gathered.files.len(), 1);
    assert!(desk.at("stray.txt").exists());
}
