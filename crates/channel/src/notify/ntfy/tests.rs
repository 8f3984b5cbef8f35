//! Topics, tokens, and a server that takes what is published.

use super::*;
use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

type Calls = Arc<Mutex<Vec<(Option<String>, Value)>>>;

async fn server() -> (Url, Calls) {
    let calls = Calls::default();
    let take = |State(calls): State<Calls>, headers: HeaderMap, Json(body): Json<Value>| async move {
        let token = headers.get(AUTHORIZATION);
        let token = token.map(|token| token.to_str().unwrap().to_owned());
        calls.lock().unwrap().push((token, body));
    };
    let app = axum::Router::new()
        .route("/", post(take))
        .with_state(Arc::clone(&calls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (Url::parse(&url).unwrap(), calls)
}

const MESSAGE: NtfyMessage<'_> = NtfyMessage {
    title: "Ein Titel\r\nX-Priority: 5 ü",
    text: "Text",
    link: Some("https://b.example/console/#/requests/1"),
    priority: NtfyPriority::High,
};

#[tokio::test]
async fn ntfy_publishes_with_token_to_own_server() {
    let (own, calls) = server().await;
    let (other, elsewhere) = server().await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("token");
    std::fs::write(&file, "tk_canary\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ntfy = Ntfy::new(Some(own.clone()), Some(file), vec![other.clone()]);
    ntfy.publish("codex", MESSAGE).await.unwrap();
    let (token, body) = calls.lock().unwrap().pop().unwrap();
    assert_eq!(token.as_deref(), Some("Bearer tk_canary"));
    let expected = json!({
        "topic": "codex",
        "title": MESSAGE.title,
        "message": "Text",
        "priority": 4,
        "click": MESSAGE.link,
    });
    assert_eq!(body, expected);
    ntfy.publish(&format!("{other}codex"), MESSAGE)
        .await
        .unwrap();
    let (token, _) = elsewhere.lock().unwrap().pop().unwrap();
    assert_eq!(token, None, "the token is not for strangers");
    assert!(!format!("{ntfy:?}").contains("canary"));
}

#[tokio::test]
async fn threat_17_ntfy_calls_no_unlisted_neighbour() {
    let (neighbour, calls) = server().await;
    let ntfy = Ntfy::new(None, None, Vec::new());
    let refused = ntfy.publish(&format!("{neighbour}codex"), MESSAGE).await;
    assert_eq!(refused.unwrap_err().class, Class::Permanent);
    assert!(calls.lock().unwrap().is_empty());
}

#[test]
fn ntfy_topics_are_plain_names() {
    let server = Url::parse("https://ntfy.example").unwrap();
    let ntfy = Ntfy::new(Some(server), None, Vec::new());
    for fine in ["codex", "a_b-C9", "https://ntfy.example/codex"] {
        assert_eq!(ntfy.check(fine), Ok(()), "{fine}");
    }
    for bad in [
        "",
        "a b",
        "a/b",
        "ü",
        "https://ntfy.example/",
        "https://ntfy.example/a/b",
        &"x".repeat(65),
    ] {
        assert!(ntfy.check(bad).is_err(), "{bad}");
    }
    let nowhere = Ntfy::default();
    assert!(
        nowhere
            .check("codex")
            .unwrap_err()
            .contains("notify.ntfy.server")
    );
}
