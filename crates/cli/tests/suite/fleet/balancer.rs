//! What stands before a fleet: asks each node whether it is ready, and sends calls to those that are. Clients send one
//! message after the other through it, and no call of theirs may fail.

use super::Fleet;
use crate::world::within;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often a node is asked whether it is ready.
const LOOK_EVERY: Duration = Duration::from_millis(50);

type Ready = BTreeMap<String, String>;

/// Who is ready, and where.
#[derive(Clone)]
pub(super) struct Balancer {
    http: Client,
    token: Arc<str>,
    ready: watch::Receiver<Ready>,
}

impl Balancer {
    /// Looks at these nodes until it is dropped.
    pub(super) fn before(fleet: &Fleet, names: &[&'static str], token: String) -> Self {
        // A connection for each call: none is left over from a process that has ended.
        let http = Client::builder()
            .tls_certs_only([])
            .pool_max_idle_per_host(0);
        let http = http.build().unwrap();
        let (seen, ready) = watch::channel(Ready::new());
        let places: Vec<(String, PathBuf)> = names
            .iter()
            .map(|name| {
                let file = fleet.world.path().join(format!("{name}-state/listen"));
                ((*name).to_owned(), file)
            })
            .collect();
        let asking = http.clone();
        tokio::spawn(async move {
            let mut look = tokio::time::interval(LOOK_EVERY);
            while !seen.is_closed() {
                look.tick().await;
                let mut ready = Ready::new();
                for (name, file) in &places {
                    if let Some(base) = base_of_ready(&asking, file).await {
                        ready.insert(name.clone(), base);
                    }
                }
                seen.send_if_modified(|known| {
                    let changed = *known != ready;
                    *known = ready;
                    changed
                });
            }
        });
        Self {
            http,
            token: token.into(),
            ready,
        }
    }

    /// Waits until a node is ready, or is not any more.
    pub(super) async fn until(&self, name: &str, is_ready: bool) {
        let mut ready = self.ready.clone();
        let seen = ready.wait_for(|ready| ready.contains_key(name) == is_ready);
        within("a node's readiness", seen).await.unwrap();
    }

    fn call(&self, turn: usize, to_path: impl Fn(&str) -> RequestBuilder) -> RequestBuilder {
        let ready = self.ready.borrow();
        // Some node is always ready.
        let base = ready.values().nth(turn % ready.len().max(1));
        to_path(base.unwrap()).bearer_auth(&self.token)
    }

    /// Sends a message; its id. Any answer but "created" fails the test, and so does a broken connection.
    pub(super) async fn post(&self, turn: usize, conversation: &str, text: &str) -> String {
        let call = self.call(turn, |base| self.http.post(format!("{base}/v1/messages")));
        let call = call
            .header("Idempotency-Key", format!("{conversation}/{text}"))
            .json(&json!({"conversation": conversation, "text": text}));
        let response = within("an answer", call.send()).await.unwrap();
        let (status, body) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, StatusCode::CREATED, "{text}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["message_id"].as_str().unwrap().to_owned()
    }

    /// Follows a message to its end, at another node where the first one leaves; the message then.
    pub(super) async fn finished(&self, mut turn: usize, id: &str) -> Value {
        loop {
            let path = format!("/v1/messages/{id}/events");
            let call = self.call(turn, |base| self.http.get(format!("{base}{path}")));
            let response = within("a stream", call.send()).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            // A node that leaves ends its streams in order.
            let news = within("the end of a stream", response.text()).await;
            if news.unwrap().contains("event: end") {
                break;
            }
            turn += 1;
        }
        let path = format!("/v1/messages/{id}");
        let call = self.call(turn, |base| self.http.get(format!("{base}{path}")));
        let response = within("an answer", call.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    /// Sends a message and follows it to its answer.
    pub(super) async fn ask(&self, turn: usize, conversation: &str, text: &str) -> String {
        let id = self.post(turn, conversation, text).await;
        let shown = self.finished(turn, &id).await;
        let answer = &shown["answer"]["text"];
        answer
            .as_str()
            .unwrap_or_else(|| panic!("{shown:#}"))
            .to_owned()
    }
}

/// Where a node serves, if it is there and says that it is ready.
async fn base_of_ready(http: &Client, file: &PathBuf) -> Option<String> {
    let address = std::fs::read_to_string(file).ok()?;
    let base = format!("http://{}", address.trim());
    let answer = http.get(format!("{base}/readyz")).send().await.ok()?;
    (answer.status() == StatusCode::OK).then_some(base)
}

/// A client that asks in its own conversation, one message after the other.
pub(super) struct Load {
    running: tokio::task::JoinHandle<usize>,
    stop: watch::Sender<bool>,
    answered: watch::Receiver<usize>,
}

impl Load {
    pub(super) fn start(balancer: Balancer, conversation: &'static str) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (count, answered) = watch::channel(0);
        let running = tokio::spawn(async move {
            let mut turn = 0;
            while !*stopped.borrow() {
                let text = format!("{conversation}-{turn}");
                let answer = balancer
                    .ask(turn, conversation, &format!("echo:{text}"))
                    .await;
                assert_eq!(answer, text);
                turn += 1;
                count.send_replace(turn);
            }
            turn
        });
        Self {
            running,
            stop,
            answered,
        }
    }

    /// Waits until it got so many more answers.
    pub(super) async fn gets(&mut self, more: usize) {
        let enough = *self.answered.borrow() + more;
        let got = self.answered.wait_for(|answered| *answered >= enough);
        within("answers under load", got).await.unwrap();
    }

    /// Ends it; how many messages it sent. All of them were answered, and no call failed.
    pub(super) async fn end(self) -> usize {
        self.stop.send_replace(true);
        within("the last answer", self.running).await.unwrap()
    }
}
