//! The daemon's API over its private socket: take a message in, and watch what becomes of it. The reader of its events
//! reads those over TCP too; what an event means belongs to whoever reads it.

use super::PATIENCE;
use super::daemon::Daemon;
use anyhow::{Context, bail};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct Socket {
    client: reqwest::Client,
}

impl Socket {
    pub(crate) fn of(daemon: &Daemon) -> anyhow::Result<Self> {
        let socket = daemon.state().join("api.sock");
        // The limit of a request counts until the last byte of its answer, also for events.
        let client = reqwest::Client::builder().timeout(PATIENCE);
        Ok(Self {
            client: client.unix_socket(socket).build()?,
        })
    }

    /// A message of the local owner; gives its id.
    pub(crate) async fn send(&self, key: &str, text: &str) -> anyhow::Result<String> {
        let request = self
            .client
            .post("http://localhost/v1/messages")
            .header("Idempotency-Key", key)
            .header("Content-Type", "application/json")
            .body(json!({"text": text, "conversation": key}).to_string());
        let taken = request.send().await?.error_for_status()?.text().await?;
        let taken: Value = serde_json::from_str(&taken)?;
        let id = taken.get("message_id").and_then(Value::as_str);
        Ok(id.context("a message without an id")?.to_owned())
    }

    /// What the daemon says of Codex's memory: a number of `health.codex_memory` in its status.
    pub(crate) async fn codex_memory(&self, name: &str) -> anyhow::Result<u64> {
        let request = self.client.get("http://localhost/v1/status");
        let status = request.send().await?.error_for_status()?.text().await?;
        let status: Value = serde_json::from_str(&status)?;
        let number = status.pointer(&format!("/health/codex_memory/{name}"));
        let number = number.and_then(Value::as_u64);
        number.with_context(|| format!("the status has no {name}"))
    }

    /// The message that came last.
    pub(crate) async fn newest(&self) -> anyhow::Result<String> {
        let request = self.client.get("http://localhost/v1/messages?limit=1");
        let list = request.send().await?.error_for_status()?.text().await?;
        let list: Value = serde_json::from_str(&list)?;
        let id = list
            .pointer("/messages/0/message_id")
            .and_then(Value::as_str);
        Ok(id.context("no message")?.to_owned())
    }

    /// What happens to a message, from now on.
    pub(crate) async fn watch(&self, message_id: &str) -> anyhow::Result<Events> {
        let address = format!("http://localhost/v1/messages/{message_id}/events");
        let response = self.client.get(address).send().await?.error_for_status()?;
        Ok(Events::of(response))
    }

    /// Waits for the end of a message and gives it, whole.
    pub(crate) async fn end_of(&self, message_id: &str) -> anyhow::Result<Value> {
        let mut events = self.watch(message_id).await?;
        while let Some(event) = events.next().await? {
            if event.name == "end" {
                return Ok(serde_json::from_str(&event.data)?);
            }
        }
        bail!("the events of {message_id} ended before it did")
    }
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Server-sent events as they come. How long one waits for all of them together is the limit of the client that asked.
#[derive(Debug)]
pub(crate) struct Events {
    response: reqwest::Response,
    unread: Unread,
    /// All that came so far.
    pub(crate) bytes: u64,
}

impl Events {
    pub(crate) fn of(response: reqwest::Response) -> Self {
        Self {
            response,
            unread: Unread::default(),
            bytes: 0,
        }
    }

    /// The next one; nothing when there will be no more.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(event) = self.unread.next() {
                return Ok(Some(event));
            }
            let chunk = self.response.chunk().await.context("no event comes")?;
            let Some(chunk) = chunk else {
                return Ok(None);
            };
            self.bytes += u64::try_from(chunk.len()).unwrap_or_default();
            self.unread.0.extend_from_slice(&chunk);
        }
    }
}

/// What came and was not read yet; a chunk may end anywhere, also within a character.
#[derive(Debug, Default)]
struct Unread(Vec<u8>);

impl Unread {
    /// The next event that is whole. What only keeps the stream alive is skipped.
    fn next(&mut self) -> Option<Event> {
        loop {
            let end = self.0.windows(2).position(|pair| pair == b"\n\n")? + 2;
            let rest = self.0.split_off(end);
            let whole = std::mem::replace(&mut self.0, rest);
            let event = read(&String::from_utf8_lossy(&whole));
            if event != Event::default() {
                return Some(event);
            }
        }
    }
}

fn read(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        match line.split_once(':') {
            Some(("event", name)) => event.name = name.trim_start().to_owned(),
            Some(("data", data)) => event.data.push_str(data.strip_prefix(' ').unwrap_or(data)),
            Some(_) | None => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_sse_events_across_chunks() {
        let bytes = "event: text\ndata: {\"a\": \"für\"}\n\n:\n\nevent: end\n".as_bytes();
        let mut unread = Unread::default();
        let mut events = Vec::new();
        for byte in bytes {
            unread.0.push(*byte);
            events.extend(unread.next());
        }
        let text = Event {
            name: "text".to_owned(),
            data: "{\"a\": \"für\"}".to_owned(),
        };
        assert_eq!(events, [text]);
        assert_eq!(unread.0, b"event: end\n");
    }
}
