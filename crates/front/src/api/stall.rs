//! A stream with a write deadline: a client that reads nothing must not hold a connection forever.

use bridge_core::deadline::after;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream with a deadline for writes that make no progress.
#[derive(Debug)]
pub(super) struct Patient<Io> {
    io: Io,
    patience: Duration,
    /// Armed while a write is pending.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Armed until the first byte is read.
    silent: Option<Pin<Box<Sleep>>>,
}

impl<Io> Patient<Io> {
    pub(super) fn new(io: Io, patience: Duration) -> Self {
        Self {
            io,
            patience,
            waiting: None,
            silent: None,
        }
    }

    /// Adds a deadline for the first byte.
    pub(super) fn with_first_byte(self, deadline: Option<Duration>) -> Self {
        Self {
            silent: deadline.map(|deadline| Box::pin(tokio::time::sleep(deadline))),
            ..self
        }
    }

    /// Fails a pending write at its deadline.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let until = after(Instant::now(), self.patience);
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the other end takes nothing",
        )))
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Patient<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        match (&read, &mut self.silent) {
            (Poll::Ready(_), _) => self.silent = None,
            (Poll::Pending, Some(silent)) => {
                ready!(silent.as_mut().poll(context));
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the other end said nothing",
                )));
            }
            (Poll::Pending, None) => {}
        }
        read
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Patient<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn threat_22_disconnects_stalled_readers_only() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Patient::new(near, Duration::from_secs(60));
        near.write_all(b"full").await.unwrap();
        let stuck = near.write_all(b"more").await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);

        let slow = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..8 {
                tokio::time::advance(Duration::from_secs(50)).await;
                far.read_exact(&mut byte).await.unwrap();
            }
            far
        });
        near.write_all(b"more").await.unwrap();
        drop(slow.await.unwrap());
    }
}
