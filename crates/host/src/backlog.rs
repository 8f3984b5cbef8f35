//! A queue between a reader and its consumer, bounded by number and by size: a few huge texts must not
//! eat what many small ones may. A full backlog makes the reader wait, and then Codex, which loses nothing.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Room is counted in pieces of this size.
const PIECE_BYTES: usize = 1024;

/// The reader's end.
pub(crate) struct Filler<T> {
    sender: mpsc::Sender<(T, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    pieces_max: u32,
}

/// The worker's end.
pub(crate) struct Backlog<T> {
    receiver: mpsc::Receiver<(T, OwnedSemaphorePermit)>,
}

/// A backlog of at most so many things and so many bytes; one thing may be larger, and is then alone in it.
pub(crate) fn backlog<T>(things_max: usize, bytes_max: usize) -> (Filler<T>, Backlog<T>) {
    let (sender, receiver) = mpsc::channel(things_max);
    let pieces_max = u32::try_from(bytes_max / PIECE_BYTES).unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(usize::try_from(pieces_max).unwrap_or(0)));
    let filler = Filler {
        sender,
        room,
        pieces_max,
    };
    (filler, Backlog { receiver })
}

impl<T> Filler<T> {
    /// Waits for room, then puts it in. False when nobody works on it any more.
    pub(crate) async fn put(&self, thing: T, bytes: usize) -> bool {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(pieces.min(self.pieces_max));
        let room = tokio::select! {
            room = room => room,
            () = self.sender.closed() => return false,
        };
        match room {
            Ok(room) => self.sender.send((thing, room)).await.is_ok(),
            Err(_closed) => false,
        }
    }
}

impl<T> Backlog<T> {
    /// The next thing; its room is free again.
    pub(crate) async fn next(&mut self) -> Option<T> {
        self.receiver.recv().await.map(|(thing, _room)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn waits(future: impl Future<Output = bool>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(future).poll(&mut context) == Poll::Pending
    }

    #[tokio::test]
    async fn backlog_limits_count_and_size() {
        let (filler, mut backlog) = backlog(3, 4 * PIECE_BYTES);
        for thing in 0..3 {
            assert!(filler.put(thing, 1).await);
        }
        assert!(waits(filler.put(3, 1)), "three at a time");
        while let Some(thing) = backlog.next().await {
            if thing == 2 {
                break;
            }
        }
        assert!(filler.put(4, 3 * PIECE_BYTES).await);
        assert!(
            waits(filler.put(5, 2 * PIECE_BYTES)),
            "four pieces at a time"
        );
        assert_eq!(backlog.next().await, Some(4));
        assert!(
            filler.put(6, 1_000 * PIECE_BYTES).await,
            "alone, a giant fits"
        );
        assert!(waits(filler.put(7, 1)));
        drop(backlog);
        assert!(!filler.put(8, 1).await);
    }
}
