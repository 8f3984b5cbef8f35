//! A server that runs beside its owner, and how it is ended. What it serves is its owner's business.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A server's task. Dropping it asks it to stop, without waiting.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Serving {
    /// Runs what `serve` makes of the token that ends it.
    pub(crate) fn start<F>(serve: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(stop.clone()));
        Self { stop, task }
    }

    /// Ends it; calls under way are cut after `grace`.
    pub(crate) async fn end(mut self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
