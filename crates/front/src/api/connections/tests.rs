//! Who makes room, under floods of connections that say nothing.

use super::*;
use futures_util::FutureExt;

const PATIENCE: Duration = Duration::from_secs(1);

fn address(n: u8) -> Option<IpAddr> {
    Some(IpAddr::from([10, 0, 0, n]))
}

fn tcp(total: usize) -> Connections {
    Connections::new(ConnectionLimits::tcp(total, false, PATIENCE))
}

async fn open(connections: &Connections, n: u8) -> Arc<OpenConnection> {
    Arc::new(connections.admit(address(n)).await.unwrap())
}

fn closed(connections: &[Arc<OpenConnection>]) -> usize {
    let closed = connections
        .iter()
        .filter(|one| one.closing().is_cancelled());
    closed.count()
}

/// Ends the connections that were chosen, as their tasks do.
fn end_closed(connections: &mut Vec<Arc<OpenConnection>>) {
    connections.retain(|one| !one.closing().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn f6_one_address_keeps_few_idle_connections() {
    let connections = tcp(16);
    let mut flood = Vec::new();
    for _ in 0..100 {
        tokio::time::advance(CONNECTION_QUIET).await;
        flood.push(open(&connections, 1).await);
        end_closed(&mut flood);
    }
    assert!(flood.len() <= 5, "{}", flood.len());
    let proxied = Connections::new(ConnectionLimits::tcp(16, true, PATIENCE));
    let mut pooled = Vec::new();
    for _ in 0..16 {
        tokio::time::advance(CONNECTION_QUIET).await;
        pooled.push(open(&proxied, 1).await);
    }
    assert_eq!(closed(&pooled), 0, "a proxy stands for many");
}

#[tokio::test(start_paused = true)]
async fn f6_flood_makes_room_for_others() {
    let connections = tcp(16);
    let known = open(&connections, 1).await;
    assert!(!known.is_too_many_of("ci"));
    let early = open(&connections, 2).await;
    let mut flood = Vec::new();
    for _ in 0..14 {
        flood.push(open(&connections, 1).await);
    }
    tokio::time::advance(CONNECTION_QUIET).await;
    let mut late = std::pin::pin!(connections.admit(address(3)));
    assert!(late.as_mut().now_or_never().is_none());
    assert_eq!(
        closed(&flood),
        1,
        "the address with most of them makes room"
    );
    assert!(!known.closing().is_cancelled() && !early.closing().is_cancelled());
    end_closed(&mut flood);
    assert!(late.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn f6_request_under_way_is_not_closed() {
    let connections = tcp(2);
    let one = open(&connections, 1).await;
    let two = open(&connections, 1).await;
    let (first, second) = (one.begin().unwrap(), two.begin().unwrap());
    tokio::time::advance(CONNECTION_QUIET).await;
    assert_eq!(connections.admit(address(2)).await.unwrap_err(), Full);
    drop(first);
    tokio::time::advance(CONNECTION_QUIET).await;
    assert!(connections.admit(address(2)).now_or_never().is_none());
    assert!(one.closing().is_cancelled(), "it is idle");
    assert!(one.begin().is_none(), "what it sends now is not begun");
    assert!(!two.closing().is_cancelled());
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn f6_known_idle_connections_give_way_last() {
    let connections = tcp(8);
    let many: Vec<_> = futures_util::future::join_all((0..4).map(|_| open(&connections, 1))).await;
    let few: Vec<_> = futures_util::future::join_all((0..3).map(|_| open(&connections, 1))).await;
    assert!(many.iter().all(|one| !one.is_too_many_of("many")));
    assert!(few.iter().all(|one| !one.is_too_many_of("few")));
    let unknown = open(&connections, 2).await;
    tokio::time::advance(CONNECTION_QUIET).await;
    assert!(connections.admit(address(3)).now_or_never().is_none());
    assert!(unknown.closing().is_cancelled());
    assert_eq!(closed(&many) + closed(&few), 0);
    drop(unknown);
    let _taken = open(&connections, 3).await.is_too_many_of("third");
    let third = open(&connections, 3).await;
    assert!(!third.is_too_many_of("third"));
    tokio::time::advance(CONNECTION_QUIET).await;
    assert!(connections.admit(address(3)).now_or_never().is_none());
    assert_eq!((closed(&many), closed(&few)), (1, 0), "the largest holder");
}

#[tokio::test(start_paused = true)]
async fn f6_one_caller_has_half_the_connections() {
    let connections = tcp(8);
    let mut held = Vec::new();
    for n in 0..5 {
        let one = open(&connections, 1).await;
        assert_eq!(one.is_too_many_of("greedy"), n == 4);
        held.push(one);
    }
}

#[tokio::test(start_paused = true)]
async fn f6_burst_of_new_connections_is_served() {
    let connections = tcp(8);
    let burst: Vec<_> = futures_util::future::join_all((0..8).map(|_| open(&connections, 1))).await;
    let mut next = std::pin::pin!(connections.admit(address(1)));
    assert!(next.as_mut().now_or_never().is_none());
    assert_eq!(closed(&burst), 0, "they are about to speak");
    drop(burst);
    assert!(next.await.is_ok());
}
