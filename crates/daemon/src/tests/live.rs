//! Which turns of other nodes are watched here.

use super::files::{Node, naming};
use crate::process::clock::now;
use bridge_core::port::Ledger;
use bridge_core::step::{Claim, ClaimOutcome, Receive, Received, TurnsPerSender};
use bridge_core::value::{ConversationId, ExternalId, MessageId, NodeId};
use bridge_testkit::MemoryLedger;
use std::collections::HashMap;
use std::sync::Arc;

/// Messages of their own conversations, whose turns run on this node.
async fn run(node: &Node, ids: &[MessageId]) {
    for id in ids {
        let receive = Receive {
            message_id: id.clone(),
            conversation_id: ConversationId::new(id.as_str()),
            external_key: id.to_string(),
            external_id: ExternalId::new(id.as_str()),
            ..naming(Vec::new())
        };
        let received = node.daemon.commit(receive).await.unwrap();
        assert_eq!(received, Received::New(id.clone()));
        let claim = Claim {
            turns_max: 1_000,
            turns_reserved: 0,
            turns_per_channel: 1_000,
            one_writer: Vec::new(),
            per_sender: Arc::new(TurnsPerSender::UNLIMITED),
            ..node.daemon.settings().claim(now())
        };
        let claimed = node.daemon.ledger.transact(claim, now()).await.unwrap();
        let claimed = claimed.outcome;
        assert!(
            matches!(claimed, ClaimOutcome::Claimed { .. }),
            "{id}: {claimed:?}"
        );
    }
}

#[tokio::test]
async fn local_watchers_crowd_out_no_remote_ones() {
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    let ids = |name: &str, many: usize| -> Vec<MessageId> {
        let ids = (0..many).map(|n| MessageId::new(format!("{name}-{n:03}")));
        ids.collect()
    };
    let (ours, theirs) = (ids("a", 300), ids("b", 40));
    run(&a, &ours).await;
    run(&b, &theirs).await;
    let watched = ours.iter().chain(&theirs);
    let _watchers: Vec<_> = watched.map(|id| a.daemon.hub.watch(id).unwrap()).collect();
    let found = a.daemon.watched_elsewhere().await.unwrap();
    let expected = theirs.into_iter().map(|id| (id, NodeId::new("b")));
    assert_eq!(found, expected.collect::<HashMap<_, _>>());
}
