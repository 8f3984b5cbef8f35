//! HTTP: parsing tricks, foreign hosts, listeners that come and go.

use crate::target::Target;
use crate::world::within;
use std::time::Duration;

/// One try: what it is, the bytes, and the first statuses that are right. `AUTH` stands for a token with `read`.
type Try = (&'static str, String, &'static [u16]);

const BAD: &[u16] = &[400];
const NO: &[u16] = &[400, 403, 404, 405, 431, 501];

fn get(lines: &[&str]) -> String {
    format!(
        "{}\r\nAUTH\r\nConnection: close\r\n\r\n",
        lines.join("\r\n")
    )
}

/// Requests that two parsers may read differently; behind each is a second one that must not be heard as its own.
fn framing() -> Vec<Try> {
    let smuggled = "GET /v1/tokens HTTP/1.1\r\nHost: HOST\r\nAUTH\r\nConnection: close\r\n\r\n";
    let post = |headers: &str, body: &str| {
        format!(
            "POST /v1/messages HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n{headers}\r\n\r\n{body}{smuggled}"
        )
    };
    vec![
        (
            "length and chunks",
            post(
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "0\r\n\r\n",
            ),
            &[400, 403],
        ),
        (
            "chunks and length",
            post(
                "Transfer-Encoding: chunked\r\nContent-Length: 5",
                "0\r\n\r\n",
            ),
            &[400, 403],
        ),
        (
            "an unknown encoding",
            post("Transfer-Encoding: xchunked", "0\r\n\r\n"),
            BAD,
        ),
        (
            "chunks that are not last",
            post("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
            BAD,
        ),
        (
            "an encoding with a tab",
            post("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"),
            BAD,
        ),
        (
            "two lengths",
            post("Content-Length: 0\r\nContent-Length: 5", "hello"),
            BAD,
        ),
        (
            "a length beyond 64 bits",
            post("Content-Length: 18446744073709551616", ""),
            BAD,
        ),
        (
            "a length with a sign",
            post("Content-Length: +5", "hello"),
            BAD,
        ),
        ("a negative length", post("Content-Length: -1", ""), BAD),
        (
            "a length in hexadecimal",
            post("Content-Length: 0x5", "hello"),
            BAD,
        ),
        (
            "a chunk beyond 64 bits",
            post("Transfer-Encoding: chunked", "fffffffffffffffff\r\n"),
            &[400, 403],
        ),
        (
            "a folded line",
            post("X-A: b\r\n Transfer-Encoding: chunked", "0\r\n\r\n"),
            NO,
        ),
        (
            "a blank before the colon",
            post("Transfer-Encoding : chunked", "0\r\n\r\n"),
            NO,
        ),
    ]
}

/// Hosts, origins and targets that are not ours.
fn heads() -> Vec<Try> {
    vec![
        (
            "two hosts",
            get(&[
                "GET /v1/status HTTP/1.1",
                "Host: HOST",
                "Host: evil.example",
            ]),
            &[400, 403],
        ),
        ("no host", get(&["GET /v1/status HTTP/1.1"]), &[400, 403]),
        (
            "an empty host",
            get(&["GET /v1/status HTTP/1.1", "Host: "]),
            &[400, 403],
        ),
        (
            "a foreign host",
            get(&["GET /healthz HTTP/1.1", "Host: evil.example"]),
            &[403],
        ),
        (
            "a host with a dot",
            get(&["GET /healthz HTTP/1.1", "Host: evil.example."]),
            &[403],
        ),
        (
            "a host behind ours",
            get(&["GET /healthz HTTP/1.1", "Host: 127.0.0.1.evil.example"]),
            &[403],
        ),
        (
            "a host with a name before it",
            get(&["GET /healthz HTTP/1.1", "Host: localhost@evil.example"]),
            &[400, 403],
        ),
        (
            "no origin",
            get(&["GET /healthz HTTP/1.1", "Host: HOST", "Origin: null"]),
            &[403],
        ),
        (
            "a foreign target",
            get(&["GET http://evil.example/v1/status HTTP/1.1", "Host: HOST"]),
            &[400, 403],
        ),
    ]
}

/// Heads that are none, too long, or of another protocol.
fn odd_heads() -> Vec<Try> {
    let many: String = (0..70).map(|n| format!("X-{n}: y\r\n")).collect();
    let long = format!("X-Long: {}", "y".repeat(40 << 10));
    vec![
        (
            "a zero byte in the path",
            get(&["GET /v1/\0status HTTP/1.1", "Host: HOST"]),
            BAD,
        ),
        (
            "a zero byte in a header",
            get(&["GET /v1/status HTTP/1.1", "Host: HOST", "X-A: a\0b"]),
            BAD,
        ),
        (
            "seventy headers",
            get(&["GET /v1/status HTTP/1.1", "Host: HOST", many.trim_end()]),
            &[431],
        ),
        (
            "a head of forty kilobytes",
            get(&["GET /v1/status HTTP/1.1", "Host: HOST", &long]),
            &[431],
        ),
        (
            "the preface of HTTP/2",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            NO,
        ),
        (
            "an unknown version",
            get(&["GET /v1/status HTTP/3.7", "Host: HOST"]),
            BAD,
        ),
        ("no version", "GET /v1/status\r\n\r\n".to_owned(), NO),
        (
            "a tunnel",
            get(&[
                "CONNECT evil.example:443 HTTP/1.1",
                "Host: evil.example:443",
            ]),
            NO,
        ),
        (
            "an echo",
            get(&["TRACE /v1/status HTTP/1.1", "Host: HOST"]),
            &[405],
        ),
        (
            "a method of its own",
            get(&["FROB /v1/status HTTP/1.1", "Host: HOST"]),
            &[405],
        ),
    ]
}

/// Ways around the guard of `/v1/tokens`, which the token may not see.
fn ways_around() -> Vec<Try> {
    let path = |path: &str| get(&[&format!("GET {path} HTTP/1.1"), "Host: HOST"]);
    vec![
        ("dots", path("/v1/status/../tokens"), NO),
        ("encoded dots", path("/v1/status/%2e%2e/tokens"), NO),
        ("two slashes", path("//v1/tokens"), NO),
        ("a slash at the end", path("/v1/tokens/"), NO),
        ("an encoded slash", path("/v1%2ftokens"), NO),
        ("capitals", path("/V1/TOKENS"), NO),
        ("a semicolon", path("/v1/tokens;a=b"), NO),
        ("an encoded letter", path("/v1/t%6fkens"), NO),
        ("a zero at the end", path("/v1/tokens%00"), NO),
        ("a backslash", path("/v1\\tokens"), NO),
        (
            "an override of the method",
            get(&[
                "POST /v1/status HTTP/1.1",
                "Host: HOST",
                "X-HTTP-Method-Override: GET",
            ]),
            &[405],
        ),
        (
            "an override of the path",
            get(&[
                "GET /v1/nothing HTTP/1.1",
                "Host: HOST",
                "X-Original-URL: /v1/tokens",
                "X-Rewrite-URL: /v1/tokens",
            ]),
            &[404],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn http_parsing_tricks_reach_nothing() {
    let target = Target::start("").await;
    let token = target.token("reader", &["read"]).await;
    let tries = [framing(), heads(), odd_heads(), ways_around()].concat();
    for (what, request, right) in tries {
        let request = request
            .replace("AUTH", &format!("Authorization: Bearer {token}"))
            .replace("HOST", &target.at);
        let answer = target.raw(request.as_bytes()).await;
        let statuses = Target::statuses(&answer);
        let first = statuses.first().copied().unwrap_or(400);
        assert!(right.contains(&first), "{what}: {answer}");
        assert!(!statuses.contains(&500), "{what}: {answer}");
        assert!(!statuses.contains(&200), "{what}: {answer}");
        assert!(statuses.len() <= 2, "{what}: {answer}");
    }
    target.is_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_listeners_that_reset_leave_nothing() {
    let target = Target::start("").await;
    let token = target.token("listener", &["read"]).await;
    let before = target.descriptors();
    let mut refused = 0;
    for _ in 0..3 {
        let mut open = Vec::new();
        for _ in 0..80 {
            let call = target.call("GET", "/v1/events", &token).send();
            let response = within("a stream", call).await.unwrap();
            match response.status().as_u16() {
                200 => open.push(response),
                429 | 503 => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert!(open.len() <= 64, "{}", open.len());
    }
    assert!(refused > 0, "one token may have 64 streams");
    let mut look = tokio::time::interval(Duration::from_millis(20));
    within("descriptors that are given back", async {
        while target.descriptors() > before + 4 {
            look.tick().await;
        }
    })
    .await;
    target.is_well().await;
}
