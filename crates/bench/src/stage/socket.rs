//! The daemon's API over its private socket: take a message in, and watch what becomes of it.

use super::PATIENCE;
use super::daemon::Daemon;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::time::timeout;

#[derive(Clone, Debug)]
pub(crate) struct Socket {
    client: reqwest::Client,
}

impl Socket {
    pub(crate) fn of(daemon: &Daemon) -> anyhow::Result<Self> {
        let socket = daemon.state().join("api.sock");
        let client = reqwest::Client::builder().unix_socket(socket).build()?;
        Ok(Self { client })
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
        Ok(Events {
            response,
            unread: Vec::new(),
            bytes: 0,
        })
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

/// Server-sent events as they come.
#[derive(Debug)]
pub(crate) struct Events {
    response: reqwest::Response,
    unread: Vec<u8>,
    /// All that came so far.
    pub(crate) bytes: u64,
}

impl Events {
    /// The next one; nothing when there will be no more.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(end) = end_of_event(&self.unread) {
                let rest = self.unread.split_off(end);
                let event = std::mem::replace(&mut self.unread, rest);
                return Ok(Some(read(&String::from_utf8_lossy(&event))));
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await;
            let Some(chunk) = chunk.context("no event comes")?? else {
                return Ok(None);
            };
            self.bytes += u64::try_from(chunk.len()).unwrap_or_default();
            self.unread.extend_from_slice(&chunk);
        }
    }
}

fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(2).position(|pair| pair == b"\n\n")?;
    Some(at + 2)
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
    fn events_are_cut_at_empty_lines() {
        let bytes = b"event: text\ndata: {\"a\": 1}\n\nevent: end\n";
        let end = end_of_event(bytes).unwrap();
        let event = read(std::str::from_utf8(&bytes[..end]).unwrap());
        assert_eq!(
            (event.name.as_str(), event.data.as_str()),
            ("text", "{\"a\": 1}")
        );
        assert_eq!(end_of_event(&bytes[end..]), None);
    }
}
