//! Webhooks as a receiver sees them. The signature is computed here from its definition, not by the code under test.

use super::*;
use crate::guard::check_origin;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode as Said};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const KEY: [u8; 32] = [9; 32];

type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver that answers so, with what it saw.
async fn receiver(
    status: Said,
    headers: &'static [(&'static str, &'static str)],
) -> (String, Seen) {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let hook = move |headers_seen: HeaderMap, body: Bytes| {
        let kept = Arc::clone(&kept);
        async move {
            kept.lock().unwrap().push((headers_seen, body));
            let mut answer = HeaderMap::new();
            for (name, value) in headers {
                answer.insert(*name, value.parse().unwrap());
            }
            (status, answer, "the words of a neighbour")
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/hook", post(hook));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (origin, seen)
}

fn webhook(origins: &[&str], directory: &tempfile::TempDir) -> Webhook {
    let path = directory.path().join("secrets");
    std::fs::write(&path, format!("whsec_{}\n", STANDARD.encode(KEY))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let origins = origins.iter().map(|origin| check_origin(origin).unwrap());
    Webhook::new(AddressGuard::new(origins.collect()), Some(path))
}

/// HMAC-SHA256 by RFC 2104.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let padded = |with: u8| -> Vec<u8> {
        let mut block = [0_u8; 64];
        block[..key.len()].copy_from_slice(key);
        block.iter().map(|byte| byte ^ with).collect()
    };
    let inner = Sha256::digest([padded(0x36).as_slice(), text].concat());
    Sha256::digest([padded(0x5c).as_slice(), &inner].concat()).to_vec()
}

const DELIVERY: PostPayload<'static> = PostPayload {
    id: "msg_1",
    body: r#"{"task":1}"#,
};

#[tokio::test]
async fn delivery_carries_standard_webhook_signature() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, seen) = receiver(Said::NO_CONTENT, &[]).await;
    let hooks = webhook(&[&origin], &directory);
    hooks
        .deliver(&format!("{origin}/hook"), DELIVERY)
        .await
        .unwrap();
    let (headers, body) = seen.lock().unwrap().pop().unwrap();
    let said = |name: &str| headers[name].to_str().unwrap().to_owned();
    let signed = format!(
        "{}.{}.{}",
        said("webhook-id"),
        said("webhook-timestamp"),
        std::str::from_utf8(&body).unwrap()
    );
    let expected = format!("v1,{}", STANDARD.encode(hmac(&KEY, signed.as_bytes())));
    assert_eq!(said("webhook-signature"), expected);
    assert_eq!(said("webhook-id"), "msg_1");
    assert_eq!(body, DELIVERY.body);
}

#[tokio::test]
async fn threat_17_webhook_follows_no_redirect() {
    let directory = tempfile::tempdir().unwrap();
    let to = &[("location", "http://169.254.169.254/latest/meta-data/")];
    let (origin, seen) = receiver(Said::TEMPORARY_REDIRECT, to).await;
    let hooks = webhook(&[&origin], &directory);
    let failure = hooks
        .deliver(&format!("{origin}/hook"), DELIVERY)
        .await
        .unwrap_err();
    assert_eq!(failure.class, Class::Permanent);
    assert!(failure.reason.contains("307"), "{}", failure.reason);
    assert!(!failure.reason.contains("169.254"), "{}", failure.reason);
    assert!(!failure.reason.contains("neighbour"), "{}", failure.reason);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn status_code_decides_retry_class() {
    let directory = tempfile::tempdir().unwrap();
    for (status, headers, class) in [
        (Said::INTERNAL_SERVER_ERROR, [].as_slice(), "transient"),
        (Said::BAD_GATEWAY, &[], "transient"),
        (Said::GONE, &[], "permanent"),
        (Said::BAD_REQUEST, &[], "permanent"),
        (Said::UNAUTHORIZED, &[], "config"),
        (
            Said::TOO_MANY_REQUESTS,
            &[("retry-after", "30")],
            "capacity",
        ),
        (Said::SERVICE_UNAVAILABLE, &[], "capacity"),
    ] {
        let (origin, _) = receiver(status, headers).await;
        let hooks = webhook(&[&origin], &directory);
        let delivered = hooks.deliver(&format!("{origin}/hook"), DELIVERY).await;
        assert_eq!(delivered.unwrap_err().class.as_str(), class, "{status}");
    }
}

#[tokio::test]
async fn unsigned_or_private_delivery_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, seen) = receiver(Said::OK, &[]).await;
    let url = format!("{origin}/hook");
    let bare = Webhook::new(
        AddressGuard::new(vec![check_origin(&origin).unwrap()]),
        None,
    );
    assert!(
        bare.check(&url)
            .unwrap_err()
            .contains("webhook_secret_file")
    );
    let failure = bare.deliver(&url, DELIVERY).await.unwrap_err();
    assert_eq!(failure.class, Class::Config);
    let hooks = webhook(&[], &directory);
    assert!(hooks.check(&url).is_err());
    let failure = hooks.deliver(&url, DELIVERY).await.unwrap_err();
    assert_eq!(failure.class, Class::Permanent);
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(hooks.secrets().len(), 1);
}
