//! The lines that a process writes, as they come. What a line means belongs to whoever waits for it.

use anyhow::Context;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Lines that are kept; older ones are dropped.
const LINES_MAX: usize = 200_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    more: Arc<Notify>,
}

impl Log {
    /// Reads until the stream ends.
    pub(crate) fn listen(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let log = Self::default();
        let writer = log.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut kept = writer.lines.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < LINES_MAX {
                    kept.push(line);
                }
                drop(kept);
                writer.more.notify_waiters();
            }
        });
        log
    }

    /// How many lines there are: what comes later is behind this.
    pub(crate) fn len(&self) -> usize {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// The lines from this one on.
    pub(crate) fn from(&self, place: usize) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get(place..).unwrap_or_default().to_vec()
    }

    /// The first line from `place` on that `wanted` takes something from.
    pub(crate) async fn wait<T>(
        &self,
        place: usize,
        what: &str,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let search = async {
            loop {
                let more = self.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if let Some(found) = self.from(place).iter().find_map(|line| wanted(line)) {
                    return found;
                }
                more.await;
            }
        };
        let found = timeout(super::PATIENCE, search).await;
        found.with_context(|| {
            format!(
                "waited in vain for {what}; the log ends with {:?}",
                self.tail()
            )
        })
    }

    fn tail(&self) -> Vec<String> {
        self.from(self.len().saturating_sub(5))
    }
}
