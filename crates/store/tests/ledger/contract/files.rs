//! Files of messages and answers in the ledger: pieces in their order, and no file goes that somebody is about to name.

use crate::fixture::Fixture;
use crate::given::World;
use bridge_core::port::Ledger;
use bridge_core::step::{DropFiles, FileStored, StoreFile};
use bridge_core::value::{FileDigest, KeptFile, Timestamp};

const FILE: FileDigest = FileDigest::new([0xab; 32]);

impl<L: Ledger> World<L> {
    async fn stores(&self, known: Option<KeptFile>, bytes: &[u8]) -> FileStored {
        let store = StoreFile {
            digest: FILE,
            known,
            bytes: bytes.to_vec(),
        };
        self.does(store).await.outcome
    }

    async fn piece(&self, offset: u64) -> Option<Vec<u8>> {
        self.reads(move |rows| rows.file_piece(&FILE, offset)).await
    }

    async fn drops(&self, file: KeptFile) -> usize {
        self.does(DropFiles { files: vec![file] }).await.outcome
    }
}

pub(super) async fn pieces_of_a_file_follow_each_other<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let kept = |rows: &dyn bridge_core::port::Read| rows.kept_file(&FILE);
    assert_eq!(world.reads(kept).await, None);
    let large: Vec<u8> = (0..1_u32 << 20).map(|n| n.to_le_bytes()[0]).collect();
    let first = world.stores(None, &large).await;
    assert!(first.untouched);
    assert_eq!(first.file.length, 1 << 20);
    let late = world.stores(None, b"another node was slower").await;
    assert!(!late.untouched);
    assert_eq!(late.file.length, 1 << 20, "its bytes are left out");
    let second = world.stores(Some(late.file), b"end").await;
    assert_eq!(second.file.length, (1 << 20) + 3);
    assert_eq!(world.reads(kept).await, Some(second.file));
    assert_eq!(world.piece(0).await, Some(large));
    assert_eq!(world.piece(1 << 20).await.as_deref(), Some(&b"end"[..]));
    assert_eq!(world.piece(7).await, None);
}

pub(super) async fn a_file_about_to_be_named_stays<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let ours = world.stores(None, b"bytes").await;
    let theirs = world.stores(None, b"bytes").await;
    assert!(ours.untouched && !theirs.untouched);
    assert!(theirs.file.kept_at > ours.file.kept_at);
    assert_eq!(world.drops(ours.file).await, 0);
    assert_eq!(world.piece(0).await.as_deref(), Some(&b"bytes"[..]));
    assert_eq!(world.drops(theirs.file).await, 1);
    assert_eq!(world.piece(0).await, None);
    assert!(world.stores(None, b"").await.untouched);
}

pub(super) async fn old_files_are_listed_in_order<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let begun = world.now;
    for n in [3, 1, 2, 4] {
        let digest = FileDigest::new([n; 32]);
        let (known, bytes) = (None, vec![n]);
        let store = StoreFile {
            digest,
            known,
            bytes,
        };
        world.does(store).await;
        world.pass_ms(10);
    }
    let listed = async |before_ms, after: Option<u8>, limit| {
        let after = after.map(|n| FileDigest::new([n; 32]));
        let before = Timestamp(begun.0 + before_ms);
        let read = world.reads(move |rows| rows.files_kept_before(before, after.as_ref(), limit));
        let files = read.await.into_iter();
        files.map(|file| file.digest.bytes()[0]).collect::<Vec<_>>()
    };
    assert_eq!(listed(0, None, 9).await, [0; 0]);
    assert_eq!(listed(30, None, 9).await, [1, 2, 3]);
    assert_eq!(listed(31, None, 2).await, [1, 2]);
    assert_eq!(listed(31, Some(2), 2).await, [3, 4]);
    let asked = [4, 9, 2].map(|n| FileDigest::new([n; 32]));
    let found = world.reads(move |rows| rows.kept_files(&asked)).await;
    let found = found
        .iter()
        .map(|file| (file.digest.bytes()[0], file.length));
    assert_eq!(found.collect::<Vec<_>>(), [(2, 1), (4, 1)]);
}
