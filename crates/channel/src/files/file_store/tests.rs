//! The file_store on a real disk: whole copies, caps, private modes, and a sweep that can't take a new copy for an old one.

use super::*;
use crate::files::FILE_MAX_BYTES;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

fn file_store(max: u64) -> (TempDir, FileStore) {
    let root = tempfile::tempdir().unwrap();
    let file_store = FileStore::open(root.path().join("files"), max).unwrap();
    (root, file_store)
}

fn keep(file_store: &FileStore, bytes: &[u8]) -> Result<StoredFile, FileStoreError> {
    let mut draft = file_store.begin(u64::MAX)?;
    draft.write_all_of(&mut &*bytes)?;
    draft.keep("text/plain")
}

fn drafts(root: &TempDir) -> usize {
    fs::read_dir(root.path().join("files/drafts"))
        .unwrap()
        .count()
}

#[test]
fn copy_is_content_addressed_and_private() {
    let (root, file_store) = file_store(FILE_MAX_BYTES);
    let kept = keep(&file_store, b"hello").unwrap();
    let name = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let path = root.path().join("files/2c").join(name);
    assert_eq!(kept.digest.to_string(), name);
    assert_eq!(file_store.path_of(&kept.digest), path);
    assert_eq!((kept.bytes, kept.media_type.as_str()), (5, "text/plain"));
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o600, "nothing that was sent can be run");
    for directory in ["files", "files/2c", "files/drafts"] {
        assert_eq!(mode(&root.path().join(directory)), 0o700);
    }
    assert_eq!(
        keep(&file_store, b"hello").unwrap(),
        kept,
        "again is the same"
    );
    assert_eq!(drafts(&root), 0);
}

#[test]
fn p10_oversized_file_leaves_no_draft() {
    let (root, file_store) = file_store(1_000);
    let mut draft = file_store.begin(u64::MAX).unwrap();
    let endless = &mut io::repeat(7);
    let error = draft.write_all_of(endless).unwrap_err();
    assert!(
        matches!(error, FileStoreError::TooLong { max: 1_000 }),
        "{error}"
    );
    drop(draft);
    assert_eq!(drafts(&root), 0);
    assert!(keep(&file_store, &[0; 1_000]).is_ok());
}

#[test]
fn startup_removes_unfinished_drafts() {
    let (root, file_store) = file_store(FILE_MAX_BYTES);
    let mut draft = file_store.begin(10).unwrap();
    draft.write(b"half").unwrap();
    std::mem::forget(draft);
    assert_eq!(drafts(&root), 1);
    FileStore::open(root.path().join("files"), 10).unwrap();
    assert_eq!(drafts(&root), 0);
}

#[test]
fn threat_14_store_replaces_planted_link() {
    let (root, file_store) = file_store(FILE_MAX_BYTES);
    let kept = keep(&file_store, b"hello").unwrap();
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let path = file_store.path_of(&kept.digest);
    fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    keep(&file_store, b"hello").unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
}

#[test]
fn p10_message_limits_files_and_bytes() {
    let (_root, file_store) = file_store(FILE_MAX_BYTES);
    let mut bundle = Bundle::default();
    let kept = |bytes| StoredFile {
        digest: FileDigest::new([0; 32]),
        media_type: "text/plain".to_owned(),
        bytes,
    };
    assert_eq!(bundle.room(&file_store), Some(FILE_MAX_BYTES));
    bundle.add("a", kept(MESSAGE_MAX_BYTES - 5));
    assert_eq!(bundle.room(&file_store), Some(5));
    bundle.add("a", kept(0));
    for _ in 2..MESSAGE_MAX_FILES {
        assert_eq!(bundle.room(&file_store), Some(5));
        bundle.add("a", kept(0));
    }
    assert_eq!(bundle.room(&file_store), None);
    let files = bundle.into_files();
    assert_eq!(files.len(), MESSAGE_MAX_FILES);
    assert_eq!(files.last().unwrap().name, "a (10)");
}

#[test]
fn sweep_removes_only_old_copies() {
    let (_root, file_store) = file_store(FILE_MAX_BYTES);
    let digest = keep(&file_store, b"hello").unwrap().digest;
    let path = file_store.path_of(&digest);
    let now = SystemTime::now();
    assert_eq!(file_store.old(now, 9).unwrap(), [] as [FileDigest; 0]);
    assert!(!file_store.sweep(&digest, now).unwrap());
    let later = now + SWEEP_GRACE + Duration::from_secs(1);
    assert_eq!(file_store.old(later, 9).unwrap(), [digest]);
    assert_eq!(file_store.old(later, 0).unwrap(), [] as [FileDigest; 0]);
    let before = fs::metadata(&path).unwrap().ino();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(now - 2 * SWEEP_GRACE).unwrap();
    keep(&file_store, b"hello").unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), before);
    assert!(!file_store.sweep(&digest, now).unwrap());
    assert!(file_store.sweep(&digest, later).unwrap());
    assert!(!file_store.has(&digest));
}

#[test]
fn known_copies_are_what_they_are_called() {
    let (_root, here) = file_store(FILE_MAX_BYTES);
    let (_other, there) = file_store(3);
    let kept = keep(&here, b"hello").unwrap();
    let mut bundle = Bundle::default();
    bundle.add("a", kept.clone());
    let file = bundle.into_files().remove(0);
    for piece in [&b"hell"[..], b"hella", b"hello!"] {
        let mut draft = there.begin_known(&file).unwrap();
        let written = draft.write(piece);
        assert_eq!(written.is_err(), piece.len() > 5);
        if written.is_ok() {
            let error = draft.keep_known(&kept.digest).unwrap_err();
            assert!(matches!(error, FileStoreError::Differs { .. }), "{error}");
        }
        assert!(!there.has(&kept.digest));
    }
    let mut draft = there.begin_known(&file).unwrap();
    for offset in [0, 2, 4] {
        let piece = here.read_piece(&kept.digest, offset, 2).unwrap();
        draft.write(&piece).unwrap();
    }
    draft.keep_known(&kept.digest).unwrap();
    assert_eq!(there.read(&kept.digest).unwrap(), b"hello");
    assert_eq!(there.all(9).unwrap(), [(kept.digest, 5)]);
}
