//! News of a task over `api.sock`: its stream of events, read for nothing but that something happened.
//!
//! A daemon that goes, or has no such stream, has no news: whoever waits looks now and then, and that finds the next one.

use super::house::House;
use crate::client::SseReader;
use bridge_front::News;
use reqwest::Response;
use std::sync::Arc;
use tokio::sync::watch;

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

    /// Waits for an event; nothing where there is no stream, or no more of it. A stream begins with how the task is, so
    /// that its opening is told as well.
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
            // The next call tries again.
            self.stream = None;
            std::future::pending().await
        }
    }
}

/// An open stream of events. It is read all the time, so that whatever comes during one look causes one more: a stream
/// begins with everything that the task did so far.
#[derive(Debug)]
struct Events(watch::Receiver<()>);

impl Events {
    fn of(response: Response) -> Self {
        let (tell, told) = watch::channel(());
        tokio::spawn(async move {
            tokio::select! {
                () = read(response, &tell) => {}
                () = tell.closed() => {}
            }
        });
        Self(told)
    }

    /// Something happened since the last call. Nothing when the stream is over.
    async fn changed(&mut self) -> Option<()> {
        self.0.changed().await.ok()
    }
}

/// Reads to the end, and tells of everything but what Codex is writing.
async fn read(mut response: Response, tell: &watch::Sender<()>) {
    let mut reader = SseReader::default();
    while let Ok(Some(bytes)) = response.chunk().await {
        let Some(events) = reader.feed(&bytes) else {
            return;
        };
        let mut names = events.iter().map(|event| event.name.as_str());
        if names.any(|name| !matches!(name, "text" | "diff")) {
            tell.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ApiClient;
    use bridge_daemon::state::StateDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

    /// An event as the daemon sends it: each in a piece of its own.
    fn event(name: &str) -> String {
        let event = format!("event: {name}\ndata: {{}}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    }

    /// A stream of events, and the daemon's end of it.
    async fn open() -> (Events, UnixStream) {
        let directory = tempfile::Builder::new().prefix("cb-").tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("api.sock")).unwrap();
        let client = ApiClient::new(StateDir::existing(directory.path())).unwrap();
        let daemon = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut call = Vec::new();
            while !call.ends_with(b"\r\n\r\n") {
                call.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(HEAD.as_bytes()).await.unwrap();
            stream
        };
        let (response, stream) =
            tokio::join!(client.stream("/v1/tasks/codex-1/events", None), daemon);
        (Events::of(response.unwrap()), stream)
    }

    #[tokio::test]
    async fn state_event_signals_change_text_does_not() {
        let (mut events, mut daemon) = open().await;
        daemon.write_all(event("text").as_bytes()).await.unwrap();
        daemon.write_all(event("state").as_bytes()).await.unwrap();
        assert_eq!(events.changed().await, Some(()));
        daemon.write_all(event("text").as_bytes()).await.unwrap();
        drop(daemon);
        assert_eq!(events.changed().await, None, "no more than words came");
    }

    #[tokio::test]
    async fn coalesces_events_during_a_read() {
        let (mut events, mut daemon) = open().await;
        let all = event("state").repeat(1_000);
        daemon.write_all(all.as_bytes()).await.unwrap();
        drop(daemon);
        assert_eq!(events.changed().await, Some(()));
        // The look: as long as it takes until all is read.
        while events.0.has_changed().is_ok() {
            tokio::task::yield_now().await;
        }
        let mut changes = 0;
        while events.changed().await.is_some() {
            changes += 1;
        }
        assert!(changes <= 1, "{changes}");
    }

    #[tokio::test]
    async fn the_stream_ends_with_the_wait() {
        let (events, mut daemon) = open().await;
        drop(events);
        assert_eq!(daemon.read(&mut [0]).await.unwrap(), 0);
    }
}
