//! `codex-bridge call` against agents that lie, never end or lead elsewhere.

use crate::world::{Ended, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What an agent does with each connection: a head, and then a piece over and over.
struct Liar {
    address: String,
    calls: Arc<AtomicUsize>,
    served: tokio::task::JoinHandle<()>,
}

impl Liar {
    /// Answers every call with `head`, then with `piece` so often.
    async fn with(head: String, piece: Vec<u8>, times: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let head = head.replace("ADDRESS", &address);
        let piece = String::from_utf8(piece)
            .unwrap()
            .replace("ADDRESS", &address);
        let served = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut asked = [0; 4096];
                let _some = stream.read(&mut asked).await;
                let mut alive = stream.write_all(head.as_bytes()).await.is_ok();
                for _ in 0..times {
                    alive = alive && stream.write_all(piece.as_bytes()).await.is_ok();
                }
            }
        });
        Self {
            address,
            calls,
            served,
        }
    }

    async fn called(&self, world: &World) -> Ended {
        let url = format!("http://{}", self.address);
        let args = ["call", "--allow-private", "--wait", "20", &url, "hello"];
        world.run(&args).await
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.served.abort();
    }
}

fn ok(media: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nConnection: close\r\n\r\n")
}

fn is_clean(ended: &Ended) -> bool {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let allowed = |letter: char| letter == '\n' || !letter.is_control();
    let turned = ['\u{202e}', '\u{2066}', '\u{200b}'];
    said.chars()
        .all(|letter| allowed(letter) && !turned.contains(&letter))
}

#[tokio::test(flavor = "multi_thread")]
async fn call_survives_hostile_agents() {
    let world = World::new().await;
    let json = ok("application/json");
    let elsewhere = Liar::with(json.clone(), b"{}".to_vec(), 1).await;
    let away = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        elsewhere.address
    );
    let card = |url: &str| {
        format!(
            "{{\"name\":\"\\u001b[2J\\u202eevil\\u0007\",\"supportedInterfaces\":[{{\"url\":\"{url}\",\"protocolBinding\":\"JSONRPC\",\"protocolVersion\":\"1.0\"}}]}}"
        )
    };
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    let foreign = card(&format!("http://{}/", elsewhere.address));
    let escapes = "HTTP/1.1 418 \u{1b}]0;evil\u{7}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    for (what, head, piece, times) in [
        (
            "a card without end",
            json.clone(),
            b"[1,".repeat(10_000),
            40,
        ),
        ("a deep card", json.clone(), deep.into_bytes(), 1),
        ("a redirect", away, Vec::new(), 0),
        (
            "a card that leads elsewhere",
            json.clone(),
            foreign.into_bytes(),
            1,
        ),
        (
            "a card that answers itself",
            json.clone(),
            card("http://ADDRESS/").into_bytes(),
            1,
        ),
        (
            "escapes in a refusal",
            escapes.to_owned(),
            b"{\"detail\":\"\\u001b[2J\"}".to_vec(),
            1,
        ),
        ("no HTTP", "\u{1b}[31mSSH-2.0\r\n".to_owned(), Vec::new(), 0),
        ("nothing", String::new(), Vec::new(), 0),
        ("no card", json.clone(), b"[]".to_vec(), 1),
    ] {
        let liar = Liar::with(head, piece, times).await;
        let ended = liar.called(&world).await;
        assert_ne!(ended.code, Some(0), "{what}: {ended:?}");
        assert_ne!(ended.code, Some(101), "{what}: {ended:?}");
        assert!(ended.code.is_some(), "{what}: {ended:?}");
        assert!(is_clean(&ended), "{what}: {ended:?}");
        assert!(liar.calls.load(Ordering::SeqCst) > 0, "{what}");
    }
    assert_eq!(
        elsewhere.calls.load(Ordering::SeqCst),
        0,
        "nobody was led there"
    );
    let left = std::fs::read_dir(world.path()).unwrap().count();
    assert_eq!(
        left, 2,
        "a home and a configuration, and nothing was written"
    );
}
