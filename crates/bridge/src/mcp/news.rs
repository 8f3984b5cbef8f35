//! News of a task over `api.sock`: its stream of events, read for nothing but that something happened.
//!
//! A daemon that goes, or has no such stream, has no news: whoever waits looks now and then, and that finds the next one.

use super::house::House;
use crate::client::SseReader;
use bridge_front::News;
use futures_util::FutureExt;
use reqwest::Response;
use std::sync::Arc;

/// Pieces of a stream that are taken at once: a stream begins with all that the task did so far, and one look is enough
/// for all of that.
const AT_ONCE_MAX: usize = 4_096;

/// News of one task. The stream lives as long as this.
#[derive(Debug)]
pub(super) struct ApiNews {
    house: Arc<House>,
    /// Absent where the id can't be one.
    path: Option<String>,
    stream: Option<Events>,
}

impl ApiNews {
    pub(super) fn new(house: Arc<House>, path: Option<String>) -> Self {
        Self {
            house,
            path,
            stream: None,
        }
    }

    /// Waits for an event; nothing where there is no stream, or no more of it.
    async fn heard(&mut self) -> Option<()> {
        let path = self.path.as_deref()?;
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let client = self.house.found().await?;
                let response = client.stream(path, None).await.ok()?;
                none.insert(Events::of(response))
            }
        };
        stream.changed().await?;
        tracing::debug!(path, "the daemon has news");
        Some(())
    }
}

impl News for ApiNews {
    async fn changed(&mut self) {
        if self.heard().await.is_none() {
            // The next call tries again. A daemon that went is given time to come back before one is started here.
            self.stream = None;
            std::future::pending().await
        }
    }
}

/// An open stream of events.
#[derive(Debug)]
struct Events {
    response: Response,
    reader: SseReader,
}

impl Events {
    fn of(response: Response) -> Self {
        Self {
            response,
            reader: SseReader::default(),
        }
    }

    /// Something happened, and all that is here of it is read. Nothing when the stream is over.
    async fn changed(&mut self) -> Option<()> {
        while !self.piece().await? {}
        for _ in 0..AT_ONCE_MAX {
            match self.piece().now_or_never() {
                Some(Some(_)) => {}
                // The end is told by the next call.
                Some(None) | None => break,
            }
        }
        Some(())
    }

    /// Reads the next bytes; whether they tell more than what Codex is writing.
    async fn piece(&mut self) -> Option<bool> {
        let bytes = self.response.chunk().await.ok()??;
        let events = self.reader.feed(&bytes)?;
        let tells = |name: &str| !matches!(name, "text" | "diff");
        Some(events.iter().any(|event| tells(&event.name)))
    }
}
