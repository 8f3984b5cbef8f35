//! The daemon over TCP: the HTTP API with its events, and A2A with and without a stream, by one client that keeps its
//! connections. How events are read is in `stage::socket`.

use super::way::Sample;
use crate::stage::daemon::Daemon;
use crate::stage::socket::Events;
use crate::stage::{PATIENCE, Place};
use anyhow::{Context, bail, ensure};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use std::time::Instant;
use tokio::time::timeout;

/// The conversation of the API's messages.
const CONVERSATION: &str = "api";

#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    base: String,
    owner: String,
    peer: String,
    /// Makes ids of messages.
    sent: u64,
}

/// What an event of a stream says.
enum Told {
    Nothing,
    /// The answer begins.
    Text,
    /// It is over; this is all of it.
    End(Value),
}

/// The token that this command makes.
async fn token(daemon: &Daemon, place: &Place, args: &[&str]) -> anyhow::Result<String> {
    let made = daemon.command(place).args(args).output();
    let made = timeout(PATIENCE, made).await;
    let made = made.with_context(|| format!("{args:?} does not end"))??;
    let said = String::from_utf8(made.stdout)?;
    let mut words = said.split_whitespace();
    let token = words.find(|word| word.starts_with("cbt_"));
    let token = token.with_context(|| {
        let error = String::from_utf8_lossy(&made.stderr);
        format!("{args:?}: {}, no token in {said:?}: {error}", made.status)
    })?;
    Ok(token.to_owned())
}

impl Http {
    pub(crate) async fn start(daemon: &Daemon, place: &Place) -> anyhow::Result<Self> {
        let path = daemon.state().join("listen");
        let listen =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self {
            // The limit of a request counts until the last byte of its answer, also for events.
            client: Client::builder().timeout(PATIENCE).build()?,
            base: format!("http://{}", listen.trim()),
            owner: token(daemon, place, &["token", "add", "my-laptop", "--owner"]).await?,
            peer: token(daemon, place, &["peers", "add", "bench"]).await?,
            sent: 0,
        })
    }

    /// A message of the API: stored, then followed by its events.
    pub(crate) async fn api(&mut self, text: &str, answer: &str) -> anyhow::Result<Sample> {
        self.sent += 1;
        let began = Instant::now();
        let stored = self
            .client
            .post(format!("{}/v1/messages", self.base))
            .bearer_auth(&self.owner)
            .header("Idempotency-Key", format!("bench-{}", self.sent))
            .json(&json!({"text": text, "conversation": CONVERSATION}));
        let stored: Value = good(stored).await?.json().await?;
        let id = stored.get("message_id").and_then(Value::as_str);
        let id = id.with_context(|| format!("a message without an id: {stored}"))?;
        let events = self
            .client
            .get(format!("{}/v1/messages/{id}/events", self.base))
            .bearer_auth(&self.owner);
        let told = follow(good(events).await?, began, |event, data| match event {
            "text" => Told::Text,
            "end" => Told::End(data),
            _ => Told::Nothing,
        });
        let (sample, end) = told.await?;
        ensure!(
            has(&end, answer),
            "the API's events ended with {end}, without {answer:?}"
        );
        Ok(sample)
    }

    /// A message of a peer that waits for the answer.
    pub(crate) async fn a2a(
        &mut self,
        context: &str,
        text: &str,
        answer: &str,
    ) -> anyhow::Result<Sample> {
        let began = Instant::now();
        let call = self.rpc("SendMessage", context, text);
        let said: Value = good(call).await?.json().await?;
        let took = began.elapsed();
        ensure!(has(&said, answer), "SendMessage said {said}");
        Ok(Sample::whole(took))
    }

    /// The same as a stream.
    pub(crate) async fn a2a_stream(
        &mut self,
        context: &str,
        text: &str,
        answer: &str,
    ) -> anyhow::Result<Sample> {
        let began = Instant::now();
        let call = self.rpc("SendStreamingMessage", context, text);
        let mut whole = String::new();
        let told = follow(good(call).await?, began, |_, mut data| {
            let Some(result) = data.get_mut("result").map(Value::take) else {
                return Told::End(data);
            };
            let state = result.pointer("/statusUpdate/status/state");
            if state.and_then(Value::as_str) == Some("TASK_STATE_COMPLETED") {
                return Told::End(Value::String(std::mem::take(&mut whole)));
            }
            // A task that is told late has the beginning of its answer in itself.
            let (artifact, append) = match result.get("artifactUpdate") {
                Some(update) => (update.get("artifact"), update.get("append")),
                None => (result.pointer("/task/artifacts/0"), None),
            };
            let text = artifact.and_then(|artifact| artifact.pointer("/parts/0/text"));
            let Some(text) = text.and_then(Value::as_str) else {
                return Told::Nothing;
            };
            if append != Some(&Value::Bool(true)) {
                whole.clear();
            }
            whole.push_str(text);
            Told::Text
        });
        let (sample, end) = told.await?;
        ensure!(has(&end, answer), "the stream of A2A ended with {end}");
        Ok(sample)
    }

    fn rpc(&mut self, method: &str, context: &str, text: &str) -> RequestBuilder {
        self.sent += 1;
        let message = json!({
            "role": "ROLE_USER",
            "messageId": format!("bench-{}", self.sent),
            "contextId": context,
            "parts": [{"text": text}],
        });
        let params = json!({"message": message});
        self.client
            .post(format!("{}/a2a", self.base))
            .bearer_auth(&self.peer)
            .header("A2A-Version", "1.0")
            .json(&json!({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}))
    }
}

async fn good(request: RequestBuilder) -> anyhow::Result<Response> {
    let answer = request.send().await?;
    let status = answer.status();
    if status.is_success() {
        Ok(answer)
    } else {
        bail!("the daemon said {status}: {}", answer.text().await?)
    }
}

/// Whether this text stands anywhere in it as a value.
fn has(value: &Value, text: &str) -> bool {
    match value {
        Value::String(said) => said == text,
        Value::Array(all) => all.iter().any(|one| has(one, text)),
        Value::Object(all) => all.values().any(|one| has(one, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reads server-sent events until one is the end.
async fn follow(
    stream: Response,
    began: Instant,
    mut told: impl FnMut(&str, Value) -> Told,
) -> anyhow::Result<(Sample, Value)> {
    let (mut events, mut first_token) = (Events::of(stream), None);
    while let Some(event) = events.next().await? {
        let data = match event.data.as_str() {
            "" => Value::Null,
            data => serde_json::from_str(data)?,
        };
        match told(&event.name, data) {
            Told::Nothing => {}
            Told::Text => {
                first_token.get_or_insert_with(|| began.elapsed());
            }
            Told::End(end) => {
                let whole = began.elapsed();
                return Ok((Sample { whole, first_token }, end));
            }
        }
    }
    bail!("a stream of events ended early")
}
