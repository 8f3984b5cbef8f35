//! The lines that a process writes, as they come. What a line means belongs to whoever waits for it.

use anyhow::bail;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Lines that are kept; what comes after them is dropped.
const LINES_MAX: usize = 200_000;
/// How many of them are shown where something went wrong.
const TAIL: usize = 12;
/// How long the last words of a process that has ended may take to be read.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    said: Arc<Mutex<Said>>,
    more: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Said {
    lines: Vec<String>,
    /// The stream has ended, so nothing more will come.
    ended: bool,
}

impl Log {
    /// Reads until the stream ends.
    pub(crate) fn listen(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        Self::follow(from, |_| {})
    }

    /// The same, and whoever watches the bench sees every line.
    pub(crate) fn repeat(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        Self::follow(from, |line| eprintln!("{line}"))
    }

    fn follow(
        from: impl AsyncRead + Unpin + Send + 'static,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let log = Self::default();
        let writer = log.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                heard(&line);
                let mut said = writer.said();
                if said.lines.len() < LINES_MAX {
                    said.lines.push(line);
                }
                drop(said);
                writer.more.notify_waiters();
            }
            writer.said().ended = true;
            writer.more.notify_waiters();
        });
        log
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many lines there are: what comes later is behind this.
    pub(crate) fn len(&self) -> usize {
        self.said().lines.len()
    }

    /// The lines from this one on.
    pub(crate) fn from(&self, place: usize) -> Vec<String> {
        self.said().lines.get(place..).unwrap_or_default().to_vec()
    }

    /// The first line from `place` on that `wanted` takes something from. Fails at once when the process has closed
    /// its stream without it.
    pub(crate) async fn wait<T>(
        &self,
        place: usize,
        what: &str,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let find = |said: &Said| {
            let lines = said.lines.get(place..).unwrap_or_default();
            lines.iter().find_map(|line| wanted(line))
        };
        let found = timeout(super::PATIENCE, self.search(find)).await;
        match found {
            Ok(Some(found)) => Ok(found),
            Ok(None) => bail!(
                "the log ended without {what}; it ends with {:?}",
                self.tail()
            ),
            Err(_elapsed) => bail!(
                "waited in vain for {what}; the log ends with {:?}",
                self.tail()
            ),
        }
    }

    /// Looks again with every line; nothing when there will be no more.
    async fn search<T>(&self, find: impl Fn(&Said) -> Option<T>) -> Option<T> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            let (found, ended) = {
                let said = self.said();
                (find(&said), said.ended)
            };
            if found.is_some() || ended {
                return found;
            }
            more.await;
        }
    }

    /// The last lines of a process that has ended.
    pub(crate) async fn last_words(&self) -> Vec<String> {
        let ended = |said: &Said| said.ended.then_some(());
        // Somebody below it may still hold the stream; what came is enough then.
        let _open = timeout(LAST_WORDS_PATIENCE, self.search(ended)).await;
        self.tail()
    }

    pub(crate) fn tail(&self) -> Vec<String> {
        self.from(self.len().saturating_sub(TAIL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_with_the_stream() {
        let log = Log::listen(&b"one\ntwo\n"[..]);
        let two = |line: &str| (line == "two").then_some(());
        log.wait(0, "two", two).await.unwrap();
        let three = |line: &str| (line == "three").then_some(());
        let error = log.wait(0, "three", three).await.unwrap_err();
        assert!(error.to_string().contains("ended without three"), "{error}");
        assert_eq!(log.last_words().await, ["one", "two"]);
    }
}
