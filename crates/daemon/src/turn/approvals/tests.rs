//! How long a turn waited for people, and which requests are open.

use super::*;
use bridge_core::value::{IncarnationId, RequestState};

fn standing(from: i64, state: RequestState) -> Standing {
    Standing {
        request_id: RequestId::new(format!("r{from}")),
        attempt: 1,
        incarnation: IncarnationId::new("i"),
        rpc_id: "0".to_owned(),
        item_id: None,
        state,
        created_at: Timestamp(from),
        resends: 0,
    }
}

fn decided(from: i64, to: i64) -> Standing {
    let verdict = RequestVerdict::own(RequestDecision::Decline, "cli", Timestamp(to));
    standing(from, RequestState::Decided(verdict))
}

#[test]
fn waits_that_overlap_count_once() {
    let now = Timestamp(1_000);
    let all = [
        decided(100, 300),
        decided(200, 250),
        decided(290, 400),
        standing(900, RequestState::Open),
        standing(500, RequestState::Orphaned),
    ];
    assert_eq!(waited(&all, now), Duration::from_millis(400));
    assert_eq!(waited(&[], now), Duration::ZERO);
    assert_eq!(open(&all).len(), 1);
}
