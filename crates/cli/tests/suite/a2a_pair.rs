//! Two of our daemons that may ask each other over A2A, each with a real Codex and a model that can't stop by itself:
//! the loop guard stops them, and both sides are told.

use crate::world::{Daemon, Ended, World, within};
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, OnceLock};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// An address that is known before the daemon behind it has one.
struct Front {
    url: String,
    behind: Arc<OnceLock<SocketAddr>>,
}

impl Front {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let behind = Arc::new(OnceLock::<SocketAddr>::new());
        let target = Arc::clone(&behind);
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let address = *target.get().unwrap();
                tokio::spawn(async move {
                    let mut daemon = TcpStream::connect(address).await.unwrap();
                    // Either side may hang up.
                    let _closed = copy_bidirectional(&mut caller, &mut daemon).await;
                });
            }
        });
        Self { url, behind }
    }
}

/// One of the two.
struct Side {
    world: World,
    daemon: Daemon,
}

impl Side {
    async fn start(own: &Front, other: &Front) -> Self {
        let settings = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\ntrusted_hosts = [\"{}\"]\n\
             [a2a]\ntool_tiers = [\"owner\", \"peer\"]\n\
             [[a2a.agents]]\nname = \"other\"\nurl = \"{}\"\ntoken_file = \"TOKEN\"\n",
            own.url.trim_start_matches("http://"),
            other.url
        );
        let world = World::with_settings("").await;
        let settings = settings.replace("TOKEN", &world.path().join("token").display().to_string());
        std::fs::write(world.config_file(), settings).unwrap();
        let daemon = world.daemon().await;
        let address = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
        own.behind.set(address.trim().parse().unwrap()).unwrap();
        Self { world, daemon }
    }

    /// The other one is known here, and has what it is known by.
    async fn knows(&self, other: &Self) {
        let made = self.world.run(&["peers", "add", "other"]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        let mut file = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(other.world.path().join("token"))
            .unwrap();
        file.write_all(made.stdout.as_bytes()).unwrap();
    }

    /// Why messages of the other one were not worked on.
    async fn stopped(&self) -> Vec<String> {
        let dead = self.world.json(&["dead", "list", "--json"]).await;
        let letters = dead["dead"].as_array().unwrap().iter();
        letters.map(|letter| letter.to_string()).collect()
    }

    async fn send(&self, text: &str) -> Ended {
        self.world.run(&["send", text]).await
    }
}

async fn pair() -> (Side, Side) {
    let (front_a, front_b) = (Front::open().await, Front::open().await);
    let a = Side::start(&front_a, &front_b).await;
    let b = Side::start(&front_b, &front_a).await;
    a.knows(&b).await;
    b.knows(&a).await;
    (a, b)
}

/// Each asks the other the very same, for ever. The eighth question is not taken: its asker hears why, and from there
/// everybody has an answer.
#[tokio::test]
async fn p13_mutual_asks_stop_at_hop_limit() {
    let (mut a, mut b) = pair().await;
    let sent = a.send("relay:other").await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let stopped = a.stopped().await;
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert!(
        stopped[0].contains("8 agents answered each other"),
        "{stopped:?}"
    );
    assert!(b.stopped().await.is_empty());
    let refused = "another agent answered";
    let told = b.daemon.log.wait_for(refused).await;
    assert!(told.contains("rejected"), "{told}");
    assert_eq!(
        a.daemon
            .log
            .text()
            .matches("codex asks another agent")
            .count(),
        4
    );
    assert_eq!(
        b.daemon
            .log
            .text()
            .matches("codex asks another agent")
            .count(),
        4
    );
    // Its model saw the guard's own words.
    let heard = b.world.model.requests();
    let guard =
        |seen: &bridge_sim::Seen| seen.outputs.iter().any(|said| said.contains("loop guard"));
    assert!(heard.iter().any(guard), "{heard:?}");
    a.daemon.log.wait_times(refused, 4).await;
    for side in [a, b] {
        assert_eq!(side.daemon.stop().await, Some(0));
    }
}

/// Who counts no hops waits for how often it is heard: every question of a new message begins a chain anew.
#[tokio::test]
async fn p13_repeated_asks_wait_at_pair_budget() {
    let (a, b) = pair().await;
    let ask = |n: usize| {
        let arguments: Value = json!({"agent": "other", "text": format!("echo:thanks {n}")});
        format!("tool:ask_agent:{arguments}")
    };
    for tens in 0..3 {
        let asks: Vec<String> = (0..10).map(|n| ask(10 * tens + n)).collect();
        let sent = a.send(&format!("{} ;; echo:fine", asks.join(" ;; "))).await;
        assert_eq!(
            (sent.code, sent.stdout.trim()),
            (Some(0), "fine"),
            "{sent:?}"
        );
    }
    assert!(b.stopped().await.is_empty());
    assert_eq!(b.world.times_asked("echo:thanks"), 30);
    // The one too many waits, and whoever asked it is not kept for the ten minutes.
    let mut asking = a.world.start(&["send", &ask(30)]).await;
    let id = asking.on_disk().await;
    let held = async {
        loop {
            let list = b.world.json(&["status", "--json"]).await;
            if list["counts"]["received"] == 1 {
                return;
            }
        }
    };
    within("a message that waits", held).await;
    assert!(b.stopped().await.is_empty());
    assert_eq!(b.world.times_asked("echo:thanks"), 30);
    a.world.run(&["interrupt", &id]).await.must(0, &[]);
    for side in [a, b] {
        assert_eq!(side.daemon.stop().await, Some(0));
    }
}
