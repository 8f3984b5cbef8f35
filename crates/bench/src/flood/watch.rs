//! Somebody who watches a message over server-sent events and reads everything as it comes.

use crate::stage::socket::{Events, Socket};
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::time::Instant;
use tokio::task::JoinHandle;

/// What a reader was told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// How often the text that is being written was shown.
    pub(super) texts: u64,
    /// Bytes of everything that was told.
    pub(super) bytes: u64,
    /// The longest time between two texts, in ms: for so long a person saw nothing new.
    pub(super) longest_gap_ms: f64,
}

#[derive(Debug)]
pub(super) struct Reader {
    reading: JoinHandle<anyhow::Result<(Seen, Value)>>,
}

impl Reader {
    /// Returns when the daemon has told it the first thing.
    pub(super) async fn start(socket: &Socket, message_id: &str) -> anyhow::Result<Self> {
        let mut events = socket.watch(message_id).await?;
        events.next().await?.context("nothing is told")?;
        let reading = tokio::spawn(read(events));
        Ok(Self { reading })
    }

    /// Waits until the message ends, and looks whether its answer is this one.
    pub(super) async fn end(self, whole: &str) -> anyhow::Result<Seen> {
        let (seen, end) = self.reading.await.context("the reader was cut")??;
        let text = end.pointer("/answer/text").and_then(Value::as_str);
        let is_whole = text.is_some_and(|text| text.trim_end() == whole);
        ensure!(is_whole, "a watched flood is not whole");
        ensure!(
            seen.texts > 0,
            "the text was not shown while it was written"
        );
        Ok(seen)
    }
}

async fn read(mut events: Events) -> anyhow::Result<(Seen, Value)> {
    let mut seen = Seen::default();
    let mut last: Option<Instant> = None;
    while let Some(event) = events.next().await? {
        match event.name.as_str() {
            "text" => {
                let now = Instant::now();
                let gap = last.map_or(0.0, |last| now.duration_since(last).as_secs_f64() * 1_000.0);
                seen.longest_gap_ms = seen.longest_gap_ms.max(gap);
                seen.texts += 1;
                last = Some(now);
            }
            "end" => {
                seen.bytes = events.bytes;
                return Ok((seen, serde_json::from_str(&event.data)?));
            }
            _ => {}
        }
    }
    bail!("the events ended before the message")
}
