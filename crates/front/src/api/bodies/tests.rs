//! The budget under callers that send much, slowly, or nothing at all.

use super::*;
use crate::control::Via;
use futures_util::{FutureExt, StreamExt, stream};
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::task::{Context, Poll};

/// A body that says how long it is, and never comes.
struct HalfSent(u64);

impl HttpBody for HalfSent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        via: Via::Http,
        program: None,
        grants: Grants::Scopes(Vec::new()),
    }
}

fn half_sent(length: usize) -> Body {
    Body::new(HalfSent(length as u64))
}

fn whole(length: usize) -> Body {
    Body::from(vec![b'x'; length])
}

/// A body of unknown length.
fn chunked(chunks: usize, bytes: usize) -> Body {
    let chunk = Bytes::from(vec![b'x'; bytes]);
    let chunks = stream::iter(std::iter::repeat_n(chunk, chunks));
    Body::from_stream(chunks.map(Ok::<_, Infallible>))
}

#[tokio::test(start_paused = true)]
async fn f4_half_sent_bodies_cost_one_share() {
    let budget = BodyBudget::default();
    let greedy = budget.of(&caller("greedy"));
    let reads = (0..150).map(|_| greedy.read(half_sent(BODY_MAX_BYTES)));
    let mut reads = std::pin::pin!(futures_util::future::join_all(reads));
    assert!(reads.as_mut().now_or_never().is_none());
    let left = budget.tokens.available_permits();
    assert_eq!(left, BODIES_MAX_BYTES - BODIES_PER_CALLER_BYTES);
    let other = budget
        .of(&caller("other"))
        .read(whole(BODY_MAX_BYTES))
        .await;
    assert_eq!(other.unwrap().len(), BODY_MAX_BYTES);
    let short = greedy.read(whole(BODY_UNCOUNTED_BYTES)).await;
    assert_eq!(short.unwrap().len(), BODY_UNCOUNTED_BYTES);
    let ended = reads.await;
    let count = |wanted| ended.iter().filter(|read| **read == Err(wanted)).count();
    assert_eq!((count(BodyError::Late), count(BodyError::NoRoom)), (2, 148));
    assert_eq!(budget.tokens.available_permits(), BODIES_MAX_BYTES);
}

#[tokio::test(start_paused = true)]
async fn f4_callers_together_keep_to_the_budget() {
    let budget = BodyBudget::default();
    let names: Vec<String> = (0..10).map(|n| format!("peer {n}")).collect();
    let shares: Vec<_> = names.iter().map(|name| budget.of(&caller(name))).collect();
    let both = |share: &BodyShare| {
        let (one, two) = (share.clone(), share.clone());
        async move {
            tokio::join!(
                one.read(whole(BODY_MAX_BYTES)),
                two.read(whole(BODY_MAX_BYTES))
            )
        }
    };
    let mut kept = Vec::new();
    for share in &shares {
        let (one, two) = both(share).await;
        kept.extend([one, two].into_iter().flatten());
    }
    assert_eq!(kept.len() * BODY_MAX_BYTES, BODIES_MAX_BYTES);
    let owner = budget.of(&Caller::local_owner(Via::Cli));
    assert!(owner.read(whole(BODY_MAX_BYTES)).await.is_ok());
    kept.pop();
    assert!(shares[9].read(whole(BODY_MAX_BYTES)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn f4_unknown_length_is_counted_as_it_comes() {
    let budget = BodyBudget::default();
    let share = budget.of(&caller("one"));
    let read = share.read(chunked(100, 64 * 1024)).await.unwrap();
    assert_eq!(read.len(), 100 * 64 * 1024);
    let used = BODIES_MAX_BYTES - budget.tokens.available_permits();
    assert!(used + BODY_UNCOUNTED_BYTES >= read.len(), "{used}");
    assert_eq!(
        share.read(chunked(129, 64 * 1024)).await,
        Err(BodyError::TooLong)
    );
    assert_eq!(
        share.read(half_sent(BODY_MAX_BYTES + 1)).await,
        Err(BodyError::TooLong)
    );
    let copy = read.slice(10..20);
    drop(read);
    assert!(
        budget.tokens.available_permits() < BODIES_MAX_BYTES,
        "a copy holds it"
    );
    drop(copy);
    assert_eq!(budget.tokens.available_permits(), BODIES_MAX_BYTES);
}

#[tokio::test(start_paused = true)]
async fn f4_waiting_body_gets_freed_room() {
    let budget = BodyBudget::default();
    let share = budget.of(&caller("one"));
    let first = share
        .read(whole(BODIES_PER_CALLER_BYTES / 2))
        .await
        .unwrap();
    let second = share
        .read(whole(BODIES_PER_CALLER_BYTES / 2))
        .await
        .unwrap();
    let mut third = std::pin::pin!(share.read(whole(BODY_MAX_BYTES)));
    assert!(third.as_mut().now_or_never().is_none());
    drop((first, second));
    assert!(third.await.is_ok());
}

#[tokio::test]
async fn f4_no_room_is_unavailable_with_a_time() {
    use axum::response::IntoResponse;
    let response = crate::api::ProblemResponse::from(BodyError::NoRoom).into_response();
    assert_eq!(response.status().as_u16(), 503);
    assert!(response.headers().contains_key("retry-after"));
}
