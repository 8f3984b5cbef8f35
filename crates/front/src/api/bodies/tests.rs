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
        trace: None,
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

/// One request of a caller: its body, and the share that holds its room until the request is answered.
async fn request(
    budget: &BodyBudget,
    name: &str,
    body: Body,
) -> Result<(BodyShare, Bytes), BodyError> {
    let share = budget.of(&caller(name));
    let bytes = share.read(body).await?;
    Ok((share, bytes))
}

#[tokio::test(start_paused = true)]
async fn f4_callers_together_keep_to_the_budget() {
    let budget = BodyBudget::default();
    let mut open = Vec::new();
    for n in 0..10 {
        let name = format!("peer {n}");
        let (one, two) = tokio::join!(
            request(&budget, &name, whole(BODY_MAX_BYTES)),
            request(&budget, &name, whole(BODY_MAX_BYTES))
        );
        open.extend([one, two].into_iter().flatten());
    }
    assert_eq!(open.len() * BODY_MAX_BYTES, BODIES_MAX_BYTES);
    let owner = budget.of(&Caller::local_owner(Via::Cli));
    assert!(owner.read(whole(BODY_MAX_BYTES)).await.is_ok());
    open.pop();
    let last = request(&budget, "peer 9", whole(BODY_MAX_BYTES)).await;
    assert!(last.is_ok());
}

#[tokio::test(start_paused = true)]
async fn f4_charges_unknown_length_bodies_incrementally() {
    let budget = BodyBudget::default();
    let (share, read) = request(&budget, "one", chunked(100, 64 * 1024))
        .await
        .unwrap();
    assert_eq!(read.len(), 100 * 64 * 1024);
    let used = BODIES_MAX_BYTES - budget.tokens.available_permits();
    assert!(used + BODY_UNCOUNTED_BYTES >= read.len(), "{used}");
    for too_long in [chunked(129, 64 * 1024), half_sent(BODY_MAX_BYTES + 1)] {
        let refused = share.read(too_long).await;
        assert_eq!(refused, Err(BodyError::TooLong));
    }
    drop(read);
    let left = budget.tokens.available_permits();
    assert_eq!(left, BODIES_MAX_BYTES - used, "the request goes on");
    drop(share);
    assert_eq!(budget.tokens.available_permits(), BODIES_MAX_BYTES);
}

#[tokio::test(start_paused = true)]
async fn f4_what_a_body_becomes_is_counted() {
    let budget = BodyBudget::default();
    let lists = |n: usize| Body::from(format!("[{}[]]", "[],".repeat(n)));
    let (short, bytes) = request(&budget, "one", lists(10_000)).await.unwrap();
    assert!(bytes.len() < BODY_UNCOUNTED_BYTES);
    let used = BODIES_MAX_BYTES - budget.tokens.available_permits();
    assert!(used > 700_000, "{used}");
    drop(short);
    let (_full, _) = request(&budget, "one", lists(99_000)).await.unwrap();
    let (_half, _) = request(&budget, "one", lists(99_000)).await.unwrap();
    let third = request(&budget, "one", lists(99_000)).await;
    assert_eq!(third.err(), Some(BodyError::NoRoom));
    let refused = request(&budget, "two", lists(2_700_000)).await;
    assert_eq!(refused.err(), Some(BodyError::TooManyValues));
}

#[tokio::test(start_paused = true)]
async fn f4_waiting_body_gets_freed_room() {
    let budget = BodyBudget::default();
    let long = || request(&budget, "one", whole(BODY_MAX_BYTES));
    let (first, second) = (long().await.unwrap(), long().await.unwrap());
    let mut third = std::pin::pin!(long());
    assert!(third.as_mut().now_or_never().is_none());
    drop((first, second));
    assert!(third.await.is_ok());
}

#[tokio::test]
async fn f4_budget_exhaustion_sets_retry_after() {
    use axum::response::IntoResponse;
    let response = crate::api::ProblemResponse::from(BodyError::NoRoom).into_response();
    assert_eq!(response.status().as_u16(), 503);
    assert!(response.headers().contains_key("retry-after"));
}

fn values(json: &str) -> usize {
    values_memory(json.as_bytes()).unwrap() / VALUE_BYTES
}

#[test]
fn f4_counts_json_values_before_parsing() {
    assert_eq!(values("[]"), 1);
    assert_eq!(values(r#"[1, -1, 0.5, "a\n", null, true, []]"#), 8);
    assert_eq!(values(r#"{"a": {"b": 1}}"#), 2 * OBJECT_VALUES + 3);
    assert_eq!(values("[1, 2"), 3, "not JSON");
    assert_eq!(values(&"[".repeat(100_000)), 128, "too deep");
    let list = |n: usize| format!("[{}[]]", "[],".repeat(n));
    assert!(values_memory(list(VALUES_MAX - 2).as_bytes()).is_ok());
    assert_eq!(
        values_memory(list(VALUES_MAX - 1).as_bytes()),
        Err(TooManyValues)
    );
    assert_eq!(
        values_memory(list(2_700_000).as_bytes()),
        Err(TooManyValues)
    );
    let objects = format!("[{}0]", r#"{"":0},"#.repeat(20_000));
    assert_eq!(values_memory(objects.as_bytes()), Err(TooManyValues));
}
