//! The depot on a real disk: whole copies, caps, private modes, and a sweep that can't take a new copy for an old one.

use super::*;
use crate::files::FILE_MAX_BYTES;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

fn depot(max: u64) -> (TempDir, Depot) {
    let root = tempfile::tempdir().unwrap();
    let depot = Depot::open(root.path().join("files"), max).unwrap();
    (root, depot)
}

fn keep(depot: &Depot, bytes: &[u8]) -> Result<Kept, DepotError> {
    let mut draft = depot.begin(u64::MAX)?;
    draft.write_all_of(&mut &*bytes)?;
    draft.keep("text/plain")
}

fn drafts(root: &TempDir) -> usize {
    fs::read_dir(root.path().join("files/drafts"))
        .unwrap()
        .count()
}

#[test]
fn a_copy_is_named_after_its_content_and_private() {
    let (root, depot) = depot(FILE_MAX_BYTES);
    let kept = keep(&depot, b"hello").unwrap();
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let path = root.path().join("files/2c").join(digest);
    assert_eq!(kept.path, path.display().to_string());
    assert_eq!((kept.bytes, kept.media_type.as_str()), (5, "text/plain"));
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o600, "nothing that was sent can be run");
    for directory in ["files", "files/2c", "files/drafts"] {
        assert_eq!(mode(&root.path().join(directory)), 0o700);
    }
    assert_eq!(keep(&depot, b"hello").unwrap(), kept, "again is the same");
    assert_eq!(drafts(&root), 0);
}

#[test]
fn p10_a_file_that_is_too_long_leaves_nothing_behind() {
    let (root, depot) = depot(1_000);
    let mut draft = depot.begin(u64::MAX).unwrap();
    let endless = &mut io::repeat(7);
    let error = draft.write_all_of(endless).unwrap_err();
    assert!(
        matches!(error, DepotError::TooLong { max: 1_000 }),
        "{error}"
    );
    drop(draft);
    assert_eq!(drafts(&root), 0);
    assert!(keep(&depot, &[0; 1_000]).is_ok());
}

#[test]
fn what_a_crash_left_half_written_is_removed_at_the_next_start() {
    let (root, depot) = depot(FILE_MAX_BYTES);
    let mut draft = depot.begin(10).unwrap();
    draft.write(b"half").unwrap();
    std::mem::forget(draft);
    assert_eq!(drafts(&root), 1);
    Depot::open(root.path().join("files"), 10).unwrap();
    assert_eq!(drafts(&root), 0);
}

#[test]
fn threat_14_a_link_in_the_place_of_a_copy_is_replaced_and_not_followed() {
    let (root, depot) = depot(FILE_MAX_BYTES);
    let kept = keep(&depot, b"hello").unwrap();
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::remove_file(&kept.path).unwrap();
    symlink(&victim, &kept.path).unwrap();
    keep(&depot, b"hello").unwrap();
    assert!(fs::symlink_metadata(&kept.path).unwrap().is_file());
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
}

#[test]
fn p10_a_message_has_ten_files_and_a_bounded_size() {
    let (_root, depot) = depot(FILE_MAX_BYTES);
    let mut bundle = Bundle::default();
    let kept = |bytes| Kept {
        path: "/x".to_owned(),
        media_type: "text/plain".to_owned(),
        bytes,
    };
    assert_eq!(bundle.room(&depot), Some(FILE_MAX_BYTES));
    bundle.add("a", kept(MESSAGE_MAX_BYTES - 5));
    assert_eq!(bundle.room(&depot), Some(5));
    bundle.add("a", kept(0));
    for _ in 2..MESSAGE_MAX_FILES {
        assert_eq!(bundle.room(&depot), Some(5));
        bundle.add("a", kept(0));
    }
    assert_eq!(bundle.room(&depot), None);
    let files = bundle.into_files();
    assert_eq!(files.len(), MESSAGE_MAX_FILES);
    assert_eq!(files.last().unwrap().name, "a (10)");
}

#[test]
fn only_old_copies_are_swept_and_a_copy_written_again_is_new() {
    let (_root, depot) = depot(FILE_MAX_BYTES);
    let kept = keep(&depot, b"hello").unwrap();
    let now = SystemTime::now();
    assert_eq!(depot.old(now, 9).unwrap(), [] as [String; 0]);
    assert!(!depot.sweep(Path::new(&kept.path), now).unwrap());
    let later = now + SWEEP_GRACE + Duration::from_secs(1);
    assert_eq!(
        depot.old(later, 9).unwrap(),
        std::slice::from_ref(&kept.path)
    );
    assert_eq!(depot.old(later, 0).unwrap(), [] as [String; 0]);
    let before = fs::metadata(&kept.path).unwrap().ino();
    let file = File::options().write(true).open(&kept.path).unwrap();
    file.set_modified(now - 2 * SWEEP_GRACE).unwrap();
    keep(&depot, b"hello").unwrap();
    assert_ne!(fs::metadata(&kept.path).unwrap().ino(), before);
    assert!(!depot.sweep(Path::new(&kept.path), now).unwrap());
    assert!(depot.sweep(Path::new(&kept.path), later).unwrap());
    assert!(!Path::new(&kept.path).exists());
    assert!(!depot.sweep(Path::new("/etc/hostname"), later).unwrap());
}
