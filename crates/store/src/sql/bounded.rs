//! A bounded queue from async callers to a thread: callers wait while it is full, nothing is dropped.
//!
//! The standard channel gives the thread its blocking ends; the semaphore lets callers wait without
//! blocking a worker of their runtime.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The thread at the other end is gone.
#[derive(Debug)]
pub(crate) struct Closed;

/// The callers' end.
pub(crate) struct BoundedSender<T> {
    sender: SyncSender<(T, OwnedSemaphorePermit)>,
    places: Arc<Semaphore>,
}

/// The thread's end. Dropping it wakes everybody who waits for a place.
pub(crate) struct BoundedReceiver<T> {
    receiver: Receiver<(T, OwnedSemaphorePermit)>,
    places: Arc<Semaphore>,
}

/// A queue with room for `places` items.
pub(crate) fn bounded<T>(places: usize) -> (BoundedSender<T>, BoundedReceiver<T>) {
    let (sender, receiver) = sync_channel(places);
    let places = Arc::new(Semaphore::new(places));
    let handle = BoundedSender {
        sender,
        places: Arc::clone(&places),
    };
    (handle, BoundedReceiver { receiver, places })
}

impl<T> fmt::Debug for BoundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedSender")
            .field("free", &self.places.available_permits())
            .finish_non_exhaustive()
    }
}

impl<T> BoundedSender<T> {
    /// Puts an item in, waiting for a place. An item whose future was dropped before is not in.
    pub(crate) async fn send(&self, item: T) -> Result<(), Closed> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| Closed)?;
        self.sender.try_send((item, place)).map_err(|_| Closed)
    }
}

impl<T> BoundedReceiver<T> {
    /// The next item; nothing when all callers are gone.
    pub(crate) fn recv(&self) -> Option<T> {
        self.receiver.recv().ok().map(|(item, _place)| item)
    }

    /// The next item within `patience`.
    pub(crate) fn recv_timeout(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let (item, _place) = self.receiver.recv_timeout(patience)?;
        Ok(item)
    }

    /// An item that waits already.
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let (item, _place) = self.receiver.try_recv()?;
        Ok(item)
    }
}

impl<T> Drop for BoundedReceiver<T> {
    fn drop(&mut self) {
        self.places.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn full_queue_waits_closed_queue_refuses() {
        let (sender, receiver) = bounded(1);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(sender.send(1)).poll(&mut context).is_ready());
        let mut second = pin!(sender.send(2));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(receiver.recv(), Some(1));
        assert!(second.as_mut().poll(&mut context).is_ready());
        let mut third = pin!(sender.send(3));
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(receiver);
        assert!(matches!(
            third.as_mut().poll(&mut context),
            Poll::Ready(Err(Closed))
        ));
    }
}
