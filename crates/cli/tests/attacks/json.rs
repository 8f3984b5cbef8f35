//! JSON that is deep, doubled, endless or none, on every route that takes some.

use crate::fake::peak_mib;
use crate::target::Target;
use crate::world::within;
use reqwest::StatusCode;

/// The most memory that the daemon may have had, in MiB: some bodies of 8 MiB at a time, unoptimised.
const PEAK_MAX_MIB: u64 = 400;
const BODY_MAX_BYTES: usize = 8 << 20;

/// Routes that take a body, with the scope that they want.
const ROUTES: [&str; 6] = [
    "/v1/messages",
    "/v1/tasks",
    "/v1/tokens",
    "/a2a",
    "/a2a/message:send",
    "/mcp",
];

fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(200_000), close.repeat(200_000));
        format!("{{\"text\":{open}1{close}}}").into_bytes()
    };
    let text = |text: &str| text.as_bytes().to_vec();
    let long = "9".repeat(1 << 20);
    vec![
        ("200,000 lists", deep("[", "]")),
        ("200,000 objects", deep("{\"a\":", "}")),
        ("a key twice", text(r#"{"text":"a","text":"b"}"#)),
        (
            "an unknown key",
            text(r#"{"text":"a","sandbox":"danger-full-access"}"#),
        ),
        (
            "a number of a megabyte",
            format!("{{\"text\":{long}}}").into_bytes(),
        ),
        (
            "an exponent of a megabyte",
            format!("{{\"text\":1e{long}}}").into_bytes(),
        ),
        ("no UTF-8", b"{\"text\":\"\xff\xfe\"}".to_vec()),
        ("an overlong zero", b"{\"text\":\"\xc0\x80\"}".to_vec()),
        ("half a surrogate", text(r#"{"text":"\ud800"}"#)),
        ("the wrong half first", text(r#"{"text":"\udc00\ud800"}"#)),
        ("a zero in the text", text(r#"{"text":"a\u0000b"}"#)),
        ("a byte order mark", text("\u{feff}{\"text\":\"a\"}")),
        ("two values", text(r#"{"text":"a"}{"text":"b"}"#)),
        ("a comment", text(r#"{"text":"a"/* b */}"#)),
        ("a list", text(r#"[{"text":"a"}]"#)),
        ("nothing", Vec::new()),
        ("one byte too many", vec![b' '; BODY_MAX_BYTES + 1]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn json_bombs_are_refused_everywhere() {
    let target = Target::start("").await;
    let scopes = ["read", "send", "control", "admin", "a2a"];
    let token = target.token("bomber", &scopes).await;
    for path in ROUTES {
        for (what, body) in bombs() {
            let call = target
                .call("POST", path, &token)
                .header("Content-Type", "application/json")
                .header("Accept", "application/json, text/event-stream")
                .header("A2A-Version", "1.0")
                .body(body);
            // Whoever sends too much may be cut off before all was said.
            let Ok(response) = within(what, call.send()).await else {
                continue;
            };
            let status = response.status();
            let said = within(what, response.text()).await.unwrap_or_default();
            let refused = match status {
                // JSON-RPC answers everything; what counts is the error in it.
                StatusCode::OK => said.contains("\"error\""),
                status => status.is_client_error(),
            };
            assert!(refused, "{path}, {what}: {status} {said}");
        }
    }
    let compressed = target
        .call("POST", "/v1/messages", &token)
        .header("Content-Type", "application/json")
        .header("Content-Encoding", "gzip")
        .body(&b"\x1f\x8b\x08\x00"[..]);
    let status = within("gzip", compressed.send()).await.unwrap().status();
    assert!(status.is_client_error(), "{status}");
    let listed = target.world().json(&["status", "--json"]).await;
    let peak = peak_mib(target.fake.daemon.pid());
    assert!(peak < PEAK_MAX_MIB, "{peak} MiB");
    assert_eq!(target.fake.texts(), Vec::<String>::new(), "{listed}");
    target.is_well().await;
}
