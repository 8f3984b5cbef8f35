//! The platform's stream of events, used to look at the feed at once instead of at the next poll.
//!
//! Events have no id and are lost without a word, so nothing depends on them: what they say is only that it is worth
//! looking.

use crate::http::{HttpError, root_cause};
use crate::molecule::Molecule;
use crate::molecule::client::CALL_DEADLINE;
use crate::poll::Backoff;
use bridge_core::port::TRACE;
use reqwest::StatusCode;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest line that is read; a longer one means that something was said, and that is all we need.
const LINE_MAX_BYTES: usize = 64 << 10;
/// A stream that says nothing for this long is opened again: it may be dead without a word.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// A stream that lived this long is no failure when it ends.
const LIVED: Duration = Duration::from_secs(60);
/// Pause when the platform has no stream.
const NO_STREAM_PAUSE: Duration = Duration::from_secs(600);

/// What an event says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlatformEvent {
    r#type: String,
    data: EventData,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventData {
    method: Option<String>,
}

impl Molecule {
    /// Listens for ever; each event that may be a message rings the bell.
    pub(crate) async fn listen(&self) {
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let error = self.hear().await;
            if began.elapsed() >= LIVED {
                backoff.reset();
            }
            let pause = match error.status() {
                Some(StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => NO_STREAM_PAUSE,
                Some(_) | None => backoff.next(),
            };
            let reason = error.to_string().escape_debug().to_string();
            tracing::debug!(
                channel = %self.channel(),
                reason,
                pause_ms = pause.as_millis(),
                "the stream of events ended; polling goes on"
            );
            tokio::time::sleep(pause).await;
        }
    }

    /// One stream, until it ends.
    async fn hear(&self) -> HttpError {
        let opened = timeout(CALL_DEADLINE, self.0.client.events()).await;
        let mut stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return error,
            Err(_) => return HttpError::Broken("it did not open in time".to_owned()),
        };
        // Something may have come while nobody listened.
        self.0.bell.notify_one();
        let mut lines = Lines::default();
        loop {
            match timeout(SILENCE_MAX, stream.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    if lines.push(&chunk) {
                        tracing::debug!(target: TRACE, at = "woken", channel = %self.channel());
                        self.0.bell.notify_one();
                    }
                }
                Ok(Ok(None)) => return HttpError::Broken("it ended".to_owned()),
                Ok(Err(error)) => return HttpError::Broken(root_cause(&error)),
                Err(_) => return HttpError::Broken("it was silent for too long".to_owned()),
            }
        }
    }
}

/// Lines of a stream, of which only the short ones are kept.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
    overlong: bool,
}

impl Lines {
    /// Takes what came; `true` when it may be news.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> bool {
        let mut news = false;
        for byte in chunk {
            match byte {
                b'\n' => {
                    news |= !self.overlong && is_news(&self.line);
                    self.line.clear();
                    self.overlong = false;
                }
                _ if self.overlong => {}
                _ if self.line.len() == LINE_MAX_BYTES => {
                    self.overlong = true;
                    news = true;
                }
                byte => self.line.push(*byte),
            }
        }
        news
    }
}

/// Whether a line may speak of a message. Our own bubbles come back as events too, and are none.
fn is_news(line: &[u8]) -> bool {
    let Some(data) = line.strip_prefix(b"data:") else {
        return false;
    };
    let Ok(event) = serde_json::from_slice::<PlatformEvent>(data.trim_ascii()) else {
        return true;
    };
    match (event.r#type.as_str(), event.data.method.as_deref()) {
        ("AGENT_MESSAGE", _) => false,
        ("ACTIVITY_LOGGED", Some(method)) => method.starts_with("message/"),
        (_, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] =
        b"data: {\"type\":\"ACTIVITY_LOGGED\",\"data\":{\"method\":\"message/send\"}}\n\n";

    #[test]
    fn message_wakes_once_despite_chunking() {
        for size in [1, 2, 7, 1_000] {
            let mut lines = Lines::default();
            let news = MESSAGE
                .chunks(size)
                .filter(|chunk| lines.push(chunk))
                .count();
            assert_eq!(news, 1, "{size}");
        }
    }

    #[test]
    fn pings_and_own_bubbles_wake_nothing() {
        for line in [
            ": ping",
            "",
            "event: x",
            r#"data: {"type":"AGENT_MESSAGE","data":{"message":"hi"}}"#,
            r#"data: {"type":"ACTIVITY_LOGGED","data":{"method":"notify"}}"#,
        ] {
            assert!(!is_news(line.as_bytes()), "{line}");
        }
        for line in [
            "data: nonsense",
            r#"data: {"type":"USER_MESSAGE"}"#,
            r#"data: {"type":7}"#,
        ] {
            assert!(is_news(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn endless_line_wakes_once_and_is_bounded() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 40 << 10];
        let news = (0..100).filter(|_| lines.push(&chunk)).count();
        assert_eq!((news, lines.line.len()), (1, LINE_MAX_BYTES));
        assert!(!lines.push(b"\n: ping\n"));
        assert!(lines.push(MESSAGE));
    }
}
