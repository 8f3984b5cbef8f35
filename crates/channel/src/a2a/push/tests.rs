//! Push notifications as their receiver sees them.

use super::*;
use crate::guard::{Looking, Lookup, check_origin};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap as Heads, StatusCode as Said};
use axum::routing::post;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

type Seen = Arc<Mutex<Vec<(Heads, Bytes)>>>;

const SECRET: &str = "tck-secret-0123456789";

/// A receiver that answers so, with what it saw.
async fn receiver(status: Said, location: Option<&'static str>) -> (String, Seen) {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let hook = move |headers: Heads, body: Bytes| {
        let kept = Arc::clone(&kept);
        async move {
            kept.lock().unwrap().push((headers, body));
            let mut answer = Heads::new();
            if let Some(location) = location {
                answer.insert("location", location.parse().unwrap());
            }
            (status, answer, "the words of a neighbour")
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/push", post(hook));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (origin, seen)
}

fn pusher(origins: &[&str]) -> Pusher {
    let origins = origins.iter().map(|origin| check_origin(origin).unwrap());
    Pusher::new(AddressGuard::new(origins.collect()))
}

fn to(url: &str) -> Receiver<'_> {
    Receiver {
        url,
        token: Some(SECRET),
        scheme: Some("Bearer"),
        credentials: Some(SECRET),
    }
}

const NEWS: PostPayload<'static> = PostPayload {
    id: "task/m1/working",
    body: r#"{"statusUpdate":{}}"#,
};

#[tokio::test]
async fn push_sends_configured_credentials() {
    let (origin, seen) = receiver(Said::NO_CONTENT, None).await;
    let url = format!("{origin}/push");
    pusher(&[&origin]).deliver(to(&url), NEWS).await.unwrap();
    let (headers, body) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(headers["x-a2a-notification-token"], SECRET);
    assert_eq!(headers["content-type"], "application/a2a+json");
    assert_eq!(headers["webhook-id"], NEWS.id);
    assert_eq!(body, NEWS.body);
    let bare = Receiver {
        token: None,
        scheme: None,
        credentials: Some(SECRET),
        url: &url,
    };
    pusher(&[&origin]).deliver(bare, NEWS).await.unwrap();
    let (headers, _) = seen.lock().unwrap().pop().unwrap();
    assert!(!headers.contains_key("authorization"), "{headers:?}");
}

#[tokio::test]
async fn threat_17_push_follows_no_redirect() {
    let metadata = "http://169.254.169.254/latest/meta-data/";
    let (origin, seen) = receiver(Said::TEMPORARY_REDIRECT, Some(metadata)).await;
    let url = format!("{origin}/push");
    let failure = pusher(&[&origin])
        .deliver(to(&url), NEWS)
        .await
        .unwrap_err();
    assert_eq!(failure.class, Class::Permanent);
    for hidden in ["169.254", "neighbour", SECRET] {
        assert!(!failure.reason.contains(hidden), "{}", failure.reason);
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// A name that stood for a public address when it was given, and for a neighbour when it is called.
struct Rebinds;

impl Lookup for Rebinds {
    fn lookup(&self, _name: &str) -> Looking {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

#[tokio::test]
async fn threat_17_push_blocks_dns_rebinding() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let pusher = Pusher::new(AddressGuard::with_lookup(Vec::new(), Arc::new(Rebinds)));
    let url = format!("https://rebind.example:{port}/push");
    pusher.check(to(&url)).unwrap();
    let failure = pusher.deliver(to(&url), NEWS).await.unwrap_err();
    assert_eq!(failure.class, Class::Permanent, "{}", failure.reason);
    assert!(failure.reason.contains("no public address"), "{failure:?}");
    let nobody = futures_util::FutureExt::now_or_never(listener.accept());
    assert!(nobody.is_none(), "somebody connected");
}

#[test]
fn threat_17_push_rejects_unsafe_urls() {
    let pusher = pusher(&[]);
    for url in [
        "http://example.com/push",
        "https://127.0.0.1/push",
        "https://2852039166/latest/meta-data/",
        "https://0251.0376.0251.0376/",
        "https://0xa9.0xfe.0xa9.0xfe/",
        "https://[::ffff:169.254.169.254]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://user:pass@example.com/",
        "file:///etc/passwd",
    ] {
        assert!(pusher.check(to(url)).is_err(), "{url}");
    }
    pusher.check(to("https://hooks.example.com/push")).unwrap();
}

#[test]
fn push_rejects_header_injection() {
    let url = "https://hooks.example.com/push";
    assert!(!format!("{:?}", to(url)).contains(SECRET));
    for (token, scheme, credentials) in [
        ("a\r\nX-Evil: 1", "Bearer", "x"),
        ("a", "Bearer", "x\r\nX-Evil: 1"),
        ("a", "Bearer\r\nX-Evil:", "x"),
        ("a", "Bea rer", "x"),
    ] {
        let bad = Receiver {
            url,
            token: Some(token),
            scheme: Some(scheme),
            credentials: Some(credentials),
        };
        let why = pusher(&[]).check(bad).unwrap_err();
        assert!(!why.contains("Evil"), "{why}");
    }
    let long = "x".repeat(SECRET_MAX_CHARS + 1);
    let bad = Receiver {
        token: Some(&long),
        ..to(url)
    };
    assert!(pusher(&[]).check(bad).is_err());
}

/// A route that is not there yet may come; one that is gone does not.
#[tokio::test]
async fn only_gone_receiver_fails_permanently() {
    for (status, class) in [
        (Said::NOT_FOUND, "config"),
        (Said::UNAUTHORIZED, "config"),
        (Said::INTERNAL_SERVER_ERROR, "transient"),
        (Said::SERVICE_UNAVAILABLE, "capacity"),
        (Said::GONE, "permanent"),
    ] {
        let (origin, _) = receiver(status, None).await;
        let url = format!("{origin}/push");
        let delivered = pusher(&[&origin]).deliver(to(&url), NEWS).await;
        assert_eq!(delivered.unwrap_err().class.as_str(), class, "{status}");
    }
}
