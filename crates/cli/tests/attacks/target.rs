//! What is attacked: a daemon on loopback, and how strangers reach it byte by byte.

use crate::fake::Fake;
use crate::world::{World, within};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const SETTINGS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

/// A daemon with a port.
pub(crate) struct Target {
    pub(crate) fake: Fake,
    pub(crate) client: Client,
    /// Address and port.
    pub(crate) at: String,
}

impl Target {
    pub(crate) async fn start(settings: &str) -> Self {
        let fake = Fake::start(&format!("{SETTINGS}{settings}"), "").await;
        let listen = std::fs::read_to_string(fake.world.state_dir().join("listen")).unwrap();
        Self {
            fake,
            // A connection each: the daemon closes those of refused bodies, and a call on one just then gets no answer.
            client: Client::builder()
                .tls_certs_only([])
                .pool_max_idle_per_host(0)
                .build()
                .unwrap(),
            at: listen.trim().to_owned(),
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.fake.world
    }

    /// A new token with these scopes.
    pub(crate) async fn token(&self, name: &str, scopes: &[&str]) -> String {
        let mut args = vec!["token", "add", name];
        for scope in scopes {
            args.extend(["--scope", scope]);
        }
        let made = self.world().run(&args).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        made.stdout.trim().to_owned()
    }

    pub(crate) fn call(&self, method: &str, path: &str, token: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("http://{}{path}", self.at);
        self.client.request(method, url).bearer_auth(token)
    }

    pub(crate) async fn json(&self, call: RequestBuilder) -> (StatusCode, Value) {
        let response = within("an answer", call.send()).await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    /// Sends bytes on a connection of their own; gives all that comes back until the daemon closes it.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.at).await.unwrap();
        // It may close before it has heard all.
        let _closed = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _reset = within("the end of an answer", stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The statuses of all answers in a text.
    pub(crate) fn statuses(answer: &str) -> Vec<u16> {
        let lines = answer.split("HTTP/1.").skip(1);
        lines
            .filter_map(|line| line.get(2..5)?.parse().ok())
            .collect()
    }

    /// No handler panicked, and the daemon answers.
    pub(crate) async fn is_well(&self) {
        let token = self.token("figures", &["read"]).await;
        let call = self.call("GET", "/metrics", &token).send();
        let figures = within("figures", call).await.unwrap().text().await.unwrap();
        assert!(
            figures.contains("codex_bridge_http_panics_total 0"),
            "{figures}"
        );
        let log = self.fake.daemon.log.text();
        assert!(!log.contains("panicked"), "{log}");
    }

    /// Open descriptors of the daemon.
    pub(crate) fn descriptors(&self) -> usize {
        let place = format!("/proc/{}/fd", self.fake.daemon.pid());
        std::fs::read_dir(place).unwrap().count()
    }
}
