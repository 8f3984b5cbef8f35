//! Each fault does what its name says, at its call and at no other.

use super::*;
use crate::MemoryLedger;
use bridge_core::step::{MidTurn, Receive, Received, Verdict};
use bridge_core::value::{ChannelId, ConversationId, ExternalId, MessageId, SenderKind, Tier};
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

const NOW: Timestamp = Timestamp(1);

fn text(id: &str) -> Receive {
    Receive {
        message_id: MessageId::new(id),
        conversation_id: ConversationId::new("c"),
        workdir: "/work".to_owned(),
        channel: ChannelId::new("local"),
        external_key: "c".to_owned(),
        external_id: ExternalId::new(id),
        kind: SenderKind::Person,
        sender: "ann".to_owned(),
        tier: Tier::Owner,
        body: "hello".to_owned(),
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras: bridge_core::step::Extras::default(),
    }
}

fn ledger() -> FaultLedger<MemoryLedger> {
    FaultLedger::new(MemoryLedger::new())
}

async fn stored(ledger: &FaultLedger<MemoryLedger>) -> u32 {
    ledger.inner().read(|rows| rows.backlog()).await.unwrap()
}

fn is_pending<V>(future: Pin<&mut impl Future<Output = V>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    future.poll(&mut context).is_pending()
}

#[tokio::test]
async fn planned_failure_writes_nothing() {
    for fault in [Fault::Unavailable, Fault::Backend] {
        let ledger = ledger();
        ledger.plan(2, Span::Once, fault.clone());
        ledger.transact(text("m1"), NOW).await.unwrap();
        let error = ledger.transact(text("m2"), NOW).await.unwrap_err();
        assert_eq!(error.class(), bridge_core::value::Class::Transient);
        let unavailable = matches!(error, LedgerError::Unavailable { .. });
        assert_eq!(unavailable, matches!(fault, Fault::Unavailable));
        assert_eq!(stored(&ledger).await, 1);
        ledger.transact(text("m2"), NOW).await.unwrap();
        assert_eq!((stored(&ledger).await, ledger.calls()), (2, 3));
    }
}

#[tokio::test]
async fn fault_span_includes_reads_until_mended() {
    let ledger = ledger();
    ledger.plan(2, Span::From, Fault::Backend);
    ledger.read(|rows| rows.backlog()).await.unwrap();
    for _ in 0..3 {
        assert!(ledger.read(|rows| rows.backlog()).await.is_err());
        assert!(ledger.transact(text("m1"), NOW).await.is_err());
    }
    ledger.mend();
    ledger.transact(text("m1"), NOW).await.unwrap();
    assert_eq!((stored(&ledger).await, ledger.calls()), (1, 8));
}

#[tokio::test]
async fn unknown_outcome_commits_but_fails() {
    let ledger = ledger();
    ledger.plan(1, Span::Once, Fault::Unknown);
    assert!(ledger.transact(text("m1"), NOW).await.is_err());
    assert_eq!(stored(&ledger).await, 1);
    let again = ledger.transact(text("m1"), NOW).await.unwrap().outcome;
    assert_eq!(again, Received::Duplicate(MessageId::new("m1")));
}

#[tokio::test]
async fn a_delayed_call_waits_for_its_gate() {
    let ledger = ledger();
    let gate = Gate::default();
    ledger.plan(1, Span::From, Fault::Delay(gate.clone()));
    let mut first = pin!(ledger.transact(text("m1"), NOW));
    assert!(is_pending(first.as_mut()));
    gate.entered().await;
    assert_eq!(stored(&ledger).await, 0);
    gate.open();
    first.await.unwrap();
    ledger.transact(text("m2"), NOW).await.unwrap();
    assert_eq!(stored(&ledger).await, 2);
}

#[tokio::test]
async fn aborted_call_never_resolves() {
    for (done, rows) in [(false, 0), (true, 1)] {
        let ledger = ledger();
        ledger.plan(1, Span::Once, Fault::Abort { done });
        let mut call = pin!(ledger.transact(text("m1"), NOW));
        assert!(is_pending(call.as_mut()));
        assert!(is_pending(call.as_mut()));
        assert_eq!(stored(&ledger).await, rows);
    }
}
