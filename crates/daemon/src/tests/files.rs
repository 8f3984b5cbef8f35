//! Files in a fleet: what one node stored another one brings, and what nobody is about to name goes.

use super::agent::ScriptedAgent;
use super::platform::ScriptedPlatform;
use crate::Daemon;
use crate::config::Config;
use crate::fleet::NodeSettings;
use crate::process::counted::Counted;
use crate::settings::{Settings, StartSettings};
use bridge_channel::files::{Bundle, FILE_MAX_BYTES, FileStore};
use bridge_core::limits::FILE_PIECE_BYTES;
use bridge_core::port::{FleetRead, Ledger};
use bridge_core::step::{Extras, MidTurn, Receive, Received, StoreFile, Verdict};
use bridge_core::value::{
    Attachment, BootId, ChannelId, Class, ConversationId, ExternalId, FileDigest, MessageId,
    NodeId, NodeInfo, SenderKind, Tier, Timestamp,
};
use bridge_host::keeper::{BootInstant, KeeperLease};
use bridge_testkit::MemoryLedger;
use futures_util::poll;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// One node of a fleet, with files of its own.
pub(super) struct Node {
    pub(super) daemon: Arc<Daemon<Counted<MemoryLedger>, ScriptedAgent, ScriptedPlatform>>,
    file_store: FileStore,
    _work: TempDir,
}

impl Node {
    pub(super) fn over(rows: &MemoryLedger, name: &str) -> Self {
        let work = tempfile::tempdir().unwrap();
        let file_store = FileStore::open(work.path().join("files"), FILE_MAX_BYTES).unwrap();
        let node_id = NodeId::new(name);
        let ledger = rows.join(&node_id, NodeInfo::default(), i64::MAX).unwrap();
        let root = work.path().join("work");
        let lease = Duration::from_secs(9);
        let keepers = KeeperLease::new(BootInstant::now().plus(Duration::from_secs(3_600)));
        let node = NodeSettings {
            node_id,
            lease,
            keepers,
            fenced: CancellationToken::new(),
        };
        let start = StartSettings {
            node: Some(node),
            ..StartSettings::new(BootId::new("boot"), root, file_store.clone())
        };
        let daemon = Daemon::new(
            Counted::new(ledger),
            ScriptedAgent::default(),
            ScriptedPlatform::default(),
            Settings::new(&Config::default(), Arc::new(start)),
        );
        Self {
            daemon,
            file_store,
            _work: work,
        }
    }

    fn keeps(&self, bytes: &[u8]) -> Attachment {
        let mut draft = self.file_store.begin(u64::MAX).unwrap();
        draft.write(bytes).unwrap();
        let mut bundle = Bundle::default();
        bundle.add("a.bin", draft.keep("text/plain").unwrap());
        bundle.into_files().remove(0)
    }

    async fn brings(&self, file: &Attachment) -> Result<Vec<u8>, Class> {
        let brought = self.daemon.bring_files(std::slice::from_ref(file)).await;
        brought.map_err(|failure| failure.class)?;
        Ok(self.file_store.read(&file.digest).unwrap())
    }
}

pub(super) fn naming(files: Vec<Attachment>) -> Receive {
    let extras = Extras {
        attachments: files,
        ..Extras::default()
    };
    Receive {
        message_id: MessageId::new("m"),
        conversation_id: ConversationId::new("c"),
        workdir: "/work".to_owned(),
        channel: ChannelId::new("scripted"),
        external_key: "c".to_owned(),
        external_id: ExternalId::new("x"),
        kind: SenderKind::Person,
        sender: "ann".to_owned(),
        tier: Tier::Owner,
        body: String::new(),
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras,
    }
}

#[tokio::test]
async fn stored_file_is_brought_elsewhere() {
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    for bytes in [vec![], vec![7; 3], vec![8; 2 * FILE_PIECE_BYTES + 1]] {
        let file = a.keeps(&bytes);
        assert_eq!(b.brings(&file).await, Err(Class::Capacity { until: None }));
        let files = [file.clone()];
        a.daemon.share_files(&files).await.unwrap();
        assert_eq!(b.brings(&file).await, Ok(bytes));
    }
}

#[tokio::test]
async fn changed_bytes_are_not_brought() {
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    let file = a.keeps(b"sent");
    let store = StoreFile {
        digest: file.digest,
        known: None,
        bytes: b"else".to_vec(),
    };
    let ledger = &a.daemon.ledger;
    ledger.transact(store, Timestamp(1)).await.unwrap();
    assert_eq!(b.brings(&file).await, Err(Class::Permanent));
    assert!(!b.file_store.has(&file.digest));
}

#[tokio::test]
async fn refused_message_s_files_leave_ledger() {
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    let kept = |file: &Attachment| rows.snapshot().unwrap().kept_file(&file.digest).unwrap();
    let file = [a.keeps(b"of one")];
    let shared = a.daemon.share_files(&file).await.unwrap();
    a.daemon.unshare_files(shared).await;
    assert_eq!(kept(&file[0]), None);
    let both = [a.keeps(b"of two")];
    b.keeps(b"of two");
    let first = a.daemon.share_files(&both).await.unwrap();
    let second = b.daemon.share_files(&both).await.unwrap();
    a.daemon.unshare_files(first).await;
    b.daemon.unshare_files(second).await;
    assert!(kept(&both[0]).is_some(), "the first was refused first");
}

#[tokio::test]
async fn unnamed_files_leave_ledger_in_time() {
    let rows = MemoryLedger::new();
    let a = Node::over(&rows, "a");
    let (old, named) = (a.keeps(b"old"), a.keeps(b"named"));
    let ledger = &a.daemon.ledger;
    let store = async |digest: FileDigest, at| {
        let (known, bytes) = (None, vec![1]);
        let store = StoreFile {
            digest,
            known,
            bytes,
        };
        ledger.transact(store, at).await.unwrap();
    };
    store(old.digest, Timestamp(1)).await;
    store(named.digest, Timestamp(1)).await;
    let receive = naming(vec![named.clone()]);
    let received = a.daemon.commit(receive).await.unwrap();
    assert!(matches!(received, Received::New(_)), "{received:?}");
    let new = [a.keeps(b"new")];
    a.daemon.share_files(&new).await.unwrap();
    assert_eq!(a.daemon.drop_old_files().await, Ok(1));
    let rows = rows.snapshot().unwrap();
    let kept = |file: &Attachment| rows.kept_file(&file.digest).unwrap().is_some();
    assert!(!kept(&old) && kept(&named) && kept(&new[0]));
}

#[tokio::test]
async fn unreadable_copy_keeps_no_other_back() {
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    let files: Vec<_> = (0..3_u8).map(|n| a.keeps(&[n; 9])).collect();
    let received = a.daemon.commit(naming(files.clone())).await.unwrap();
    assert!(matches!(received, Received::New(_)), "{received:?}");
    let mut by_digest = files.clone();
    by_digest.sort_by_key(|file| file.digest);
    let broken = a.file_store.path_of(&by_digest[0].digest);
    std::fs::remove_file(&broken).unwrap();
    std::fs::create_dir(&broken).unwrap();
    assert_eq!(a.daemon.try_share_old_files().await.unwrap(), 2);
    for file in &by_digest[1..] {
        assert!(b.brings(file).await.is_ok());
    }
    assert_eq!(a.daemon.try_share_old_files().await.unwrap(), 0);
}

#[tokio::test]
async fn file_on_its_way_is_waited_for() {
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    let files = [a.keeps(b"sent")];
    let flight = b.daemon.bringing.wait(files[0].digest).await;
    let mut second = pin!(b.daemon.bring_files(&files));
    assert!(poll!(&mut second).is_pending());
    // The first one has it, and nothing is read again: the ledger does not have this file.
    b.keeps(b"sent");
    drop(flight);
    assert_eq!(second.await, Ok(()));
}
