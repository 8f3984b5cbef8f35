//! The daemon's event streams: one event at a time, each with a cap.

use super::api::ClientError;
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use sse_stream::{Error, Sse, SseStream};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longest event that is read; the daemon's longest holds one message with its answer.
const EVENT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(super) name: String,
    pub(crate) data: String,
    /// The id to resume after; empty where the stream can't be resumed.
    pub(super) id: String,
}

/// The events of one response.
pub(crate) struct SseEvents {
    events: BoxStream<'static, Result<Sse, Error>>,
    /// Bytes read since the last whole event: the parser has no limit of its own.
    pending: Arc<AtomicUsize>,
}

impl SseEvents {
    pub(crate) fn new<E>(bytes: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let pending = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&pending);
        let bounded = bytes.map(move |chunk| {
            let chunk = chunk.map_err(io::Error::other)?;
            let before = counter.fetch_add(chunk.len(), Ordering::Relaxed);
            if before.saturating_add(chunk.len()) > EVENT_MAX_BYTES {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            Ok(chunk)
        });
        let events = SseStream::from_bytes_stream(bounded).boxed();
        Self { events, pending }
    }

    /// The next event; `None` when the daemon ended the stream or went away. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        match self.events.next().await {
            None => Ok(None),
            Some(Ok(Sse {
                event, data, id, ..
            })) => {
                self.pending.store(0, Ordering::Relaxed);
                Ok(Some(SseEvent {
                    name: event.unwrap_or_default(),
                    data: data.unwrap_or_default(),
                    id: id.unwrap_or_default(),
                }))
            }
            Some(Err(Error::Body(_)))
                if self.pending.load(Ordering::Relaxed) <= EVENT_MAX_BYTES =>
            {
                Ok(None)
            }
            Some(Err(error)) => Err(ClientError::Unreadable(format!(
                "the stream of events is broken: {error}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    #[tokio::test]
    async fn events_survive_any_cut_of_the_bytes() {
        let text = "event: item\nid: 1\ndata: {\"a\":1}\n\n: keep-alive\n\nevent: end\r\ndata: x\r\ndata: y\r\n\r\n";
        for size in 1..text.len() {
            let chunks = text
                .as_bytes()
                .chunks(size)
                .map(|chunk| io::Result::Ok(Bytes::from(chunk)));
            let mut events = SseEvents::new(stream::iter(chunks));
            for (name, data, id) in [("item", "{\"a\":1}", "1"), ("end", "x\ny", "")] {
                let event = SseEvent {
                    name: name.to_owned(),
                    data: data.to_owned(),
                    id: id.to_owned(),
                };
                assert_eq!(events.next().await.unwrap(), Some(event), "{size}");
            }
            assert_eq!(events.next().await.unwrap(), None, "{size}");
        }
    }

    #[tokio::test]
    async fn endless_event_is_refused() {
        let chunk = Bytes::from(vec![b'a'; 1024 * 1024]);
        let endless = stream::repeat(chunk).map(io::Result::Ok);
        assert!(SseEvents::new(endless).next().await.is_err());
    }
}
