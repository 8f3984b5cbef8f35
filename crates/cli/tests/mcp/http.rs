//! Streamable HTTP on the daemon's TCP door: what a token's scopes let its holder do, and whose session is whose.

use crate::rig::{Client, TestClient};
use crate::world::{Daemon, World, within};
use rmcp::ServiceExt;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// A daemon that listens on TCP.
pub(crate) struct Served {
    pub(crate) daemon: Daemon,
    pub(crate) url: String,
    address: String,
    state: PathBuf,
}

impl Served {
    pub(crate) async fn by(world: &World) -> Self {
        let daemon = world.daemon_with(&["--listen", "127.0.0.1:0"]).await;
        let state = world.state_dir();
        let address = std::fs::read_to_string(state.join("listen")).unwrap();
        let address = address.trim().to_owned();
        Self {
            daemon,
            url: format!("http://{address}/mcp"),
            address,
            state,
        }
    }

    /// A token of its own name with these scopes.
    async fn token(&self, scopes: &[&str]) -> String {
        let body = json!({"name": scopes.join("-"), "scopes": scopes}).to_string();
        let mut stream = UnixStream::connect(self.state.join("api.sock"))
            .await
            .unwrap();
        let head = format!(
            "POST /v1/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let made = answer.split("\r\n\r\n").nth(1).unwrap();
        let made: Value = serde_json::from_str(made).unwrap_or_else(|_| panic!("{answer}"));
        made["token"].as_str().unwrap().to_owned()
    }

    async fn client(&self, token: &str) -> Client {
        let config =
            StreamableHttpClientTransportConfig::with_uri(self.url.as_str()).auth_header(token);
        let transport = StreamableHttpClientTransport::from_config(config);
        Client(
            within("the handshake", TestClient::default().serve(transport))
                .await
                .unwrap(),
        )
    }

    /// One raw request; its status and its head.
    async fn raw(&self, token: &str, session: Option<&str>, body: &str) -> (u16, String) {
        let session = session.map_or_else(String::new, |id| format!("Mcp-Session-Id: {id}\r\n"));
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{session}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
            let mut piece = [0; 1024];
            let read = within("a head", stream.read(&mut piece)).await.unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&piece[..read]);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }
}

#[tokio::test]
async fn sdk_client_lists_and_calls_over_http() {
    let world = World::new().await;
    let served = Served::by(&world).await;
    let client = served.client(&world.owner_token().await).await;
    assert_eq!(client.0.list_all_tools().await.unwrap().len(), 9);
    let done = client
        .done(
            "codex_start",
            json!({"prompt": "echo:over http", "wait_seconds": 60}),
        )
        .await;
    assert_eq!(done["answer"], "over http", "{done:#}");
    let resources = client.0.list_all_resources().await.unwrap();
    assert_eq!(resources.len(), 2);
    client.0.cancel().await.unwrap();
    assert_eq!(served.daemon.stop().await, Some(0));
}

#[tokio::test]
async fn threat_6_mcp_content_is_never_logged() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", "debug,rmcp::service=trace");
    let served = Served::by(&world).await;
    let client = served.client(&world.owner_token().await).await;
    let said = json!({"prompt": "echo:canary-mcp-3f1b", "wait_seconds": 60});
    let done = client.done("codex_start", said).await;
    assert_eq!(done["answer"], "canary-mcp-3f1b", "{done:#}");
    client.0.cancel().await.unwrap();
    let mut log = served.daemon.log.clone();
    assert_eq!(served.daemon.stop().await, Some(0));
    log.closed().await;
    let log = log.text();
    assert!(log.contains("DEBUG"), "{log}");
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("canary-"))
        .collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[tokio::test]
async fn scopes_decide_what_a_tool_does() {
    let world = World::new().await;
    let served = Served::by(&world).await;
    let reader = served.client(&served.token(&["read"]).await).await;
    let worker = served
        .client(&served.token(&["read", "control"]).await)
        .await;
    let owner = served.client(&world.owner_token().await).await;

    let start = json!({"prompt": "escal:touch one ;; echo:ran", "sandbox": "workspace-write", "wait_seconds": 60});
    let why = reader.refused("codex_start", start.clone()).await;
    assert!(why.contains("not made for `control`"), "{why}");
    let asked = worker.done("codex_start", start).await;
    assert_eq!(asked["status"], "waiting_for_approval", "{asked:#}");
    let request = &asked["requests"][0]["request_id"];
    let accept = json!({"task_id": asked["task_id"], "request_id": request, "decision": "accept"});
    for (client, scope) in [(&reader, "control"), (&worker, "approve")] {
        let why = client.refused("codex_respond", accept.clone()).await;
        assert!(why.contains(&format!("not made for `{scope}`")), "{why}");
    }
    // Looking is allowed, and whoever holds the scope may accept.
    let seen = reader.done("codex_requests", json!({})).await;
    assert_eq!(&seen["requests"][0]["request_id"], request);
    owner.done("codex_respond", accept).await;
    let done = reader
        .done("codex_wait", json!({"task_id": asked["task_id"]}))
        .await;
    assert_eq!(done["answer"], "ran", "{done:#}");
    assert_eq!(served.daemon.stop().await, Some(0));
}

#[tokio::test]
async fn session_is_bound_to_its_caller() {
    let world = World::new().await;
    let served = Served::by(&world).await;
    let (owner, reader) = (world.owner_token().await, served.token(&["read"]).await);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    let (status, head) = served.raw(&owner, None, hello).await;
    assert_eq!(status, 200, "{head}");
    let session = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap();
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(served.raw(&owner, Some(session), ready).await.0, 202);
    assert_eq!(served.raw(&owner, Some(session), list).await.0, 200);
    assert_eq!(served.raw(&reader, Some(session), list).await.0, 404);
    assert_eq!(served.raw("wrong", Some(session), list).await.0, 401);
    assert_eq!(served.raw(&owner, Some(session), list).await.0, 200);
    assert_eq!(served.daemon.stop().await, Some(0));
}
