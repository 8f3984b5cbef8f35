//! MCP: floods of sessions. Whose session is whose is shown in `tests/mcp/http.rs`.

use crate::fake::peak_mib;
use crate::target::Target;
use crate::world::within;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"flood","version":"0"}}}"#;
/// Sessions that one token opens.
const SESSIONS: usize = 150;
/// What they may cost, in MiB, unoptimised.
const GROWTH_MAX_MIB: u64 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn mcp_session_floods_are_bounded() {
    let target = Target::start("").await;
    let token = target.token("flooder", &["read"]).await;
    let before = peak_mib(target.fake.daemon.pid());
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let call = target
            .call("POST", "/mcp", &token)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(HELLO);
        let response = within("a session", call.send()).await.unwrap();
        let session = response.headers().get("mcp-session-id").cloned();
        match response.status().as_u16() {
            200 => sessions.extend(session),
            429 | 503 => {}
            other => panic!("{other}"),
        }
    }
    let mut living = 0;
    // The newest live; they come before the caller has used up its calls.
    for session in sessions.into_iter().rev() {
        let call = target
            .call("POST", "/mcp", &token)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("Mcp-Session-Id", session)
            .body(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let status = within("a word", call.send()).await.unwrap().status();
        living += usize::from(status.is_success());
    }
    assert!(
        (1..=16).contains(&living),
        "{living} sessions of one token live"
    );
    let growth = peak_mib(target.fake.daemon.pid()) - before;
    assert!(growth < GROWTH_MAX_MIB, "{growth} MiB");
    target.is_well().await;
}
