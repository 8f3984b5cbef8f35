//! The two transports to a Codex process, each as texts in and texts out: its unix socket (websocket frames) and
//! its pipes (one JSON per line).
//!
//! What was read waits in a [`Backlog`], bounded by number and by size: a few huge texts must not take the memory that
//! many small ones may. A full backlog makes the reader wait, and then Codex, which loses nothing.

use bridge_codex::frame::{FrameError, LineReader, MAX_LINE_BYTES};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message, protocol::WebSocketConfig};

/// Bytes asked for at once from a pipe.
const READ_BYTES: usize = 64 * 1024;
/// Room in a backlog is counted in pieces of this size.
const PIECE_BYTES: usize = 1024;

/// Why texts stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("the connection to codex broke: {0}")]
    Io(#[from] io::Error),
    #[error("the connection to codex broke: {0}")]
    Socket(#[from] Box<tungstenite::Error>),
    #[error("codex sent something unreadable: {0}")]
    Frame(#[from] FrameError),
}

impl From<tungstenite::Error> for TransportError {
    fn from(error: tungstenite::Error) -> Self {
        Self::Socket(Box::new(error))
    }
}

/// Texts from Codex.
pub(crate) enum TransportReader {
    Socket(SplitStream<WebSocketStream<UnixStream>>),
    Stdio(Box<Pipe>),
}

/// Texts to Codex.
pub(crate) enum TransportWriter {
    Socket(SplitSink<WebSocketStream<UnixStream>, Message>),
    Stdio(ChildStdin),
}

/// Codex's stdout, cut into lines.
pub(crate) struct Pipe {
    stdout: ChildStdout,
    lines: LineReader,
    ready: VecDeque<Result<String, FrameError>>,
    buffer: Vec<u8>,
}

/// Connects to the socket of a running Codex.
pub(crate) async fn connect(
    socket: &Path,
) -> Result<(TransportReader, TransportWriter), TransportError> {
    let stream = UnixStream::connect(socket).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_LINE_BYTES))
        .max_frame_size(Some(MAX_LINE_BYTES));
    let (socket, _response) =
        tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config))
            .await?;
    let (writer, reader) = socket.split();
    Ok((
        TransportReader::Socket(reader),
        TransportWriter::Socket(writer),
    ))
}

/// Takes the pipes of a Codex that was just started.
pub(crate) fn pipes(stdin: ChildStdin, stdout: ChildStdout) -> (TransportReader, TransportWriter) {
    (
        TransportReader::Stdio(Box::new(Pipe::of(stdout))),
        TransportWriter::Stdio(stdin),
    )
}

impl TransportReader {
    /// The next text; `None` when Codex closed the connection. A line that can't be read is an error of its
    /// own only where the stream can't go on after it.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, TransportError> {
        match self {
            Self::Socket(stream) => next_frame(stream).await,
            Self::Stdio(pipe) => pipe.next().await,
        }
    }
}

async fn next_frame(
    stream: &mut SplitStream<WebSocketStream<UnixStream>>,
) -> Result<Option<String>, TransportError> {
    while let Some(frame) = stream.next().await {
        match frame? {
            Message::Text(text) => return Ok(Some(text.as_str().to_owned())),
            Message::Close(_) => return Ok(None),
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
    Ok(None)
}

impl Pipe {
    pub(crate) fn of(stdout: ChildStdout) -> Self {
        Self {
            stdout,
            lines: LineReader::default(),
            ready: VecDeque::new(),
            buffer: vec![0; READ_BYTES],
        }
    }

    /// The next line; dropping the wait loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, TransportError> {
        loop {
            match self.ready.pop_front() {
                Some(Ok(text)) => return Ok(Some(text)),
                Some(Err(error @ FrameError::Oversize { .. })) => return Err(error.into()),
                Some(Err(error)) => tracing::warn!(%error, "a line of codex was dropped"),
                None => {
                    let read = self.stdout.read(&mut self.buffer).await?;
                    let Some(bytes) = self.buffer.get(..read).filter(|bytes| !bytes.is_empty())
                    else {
                        return Ok(None);
                    };
                    self.ready.extend(self.lines.feed(bytes));
                }
            }
        }
    }
}

impl TransportWriter {
    /// Writes one text.
    pub(crate) async fn send(&mut self, text: String) -> Result<(), TransportError> {
        match self {
            Self::Socket(sink) => sink.send(Message::text(text)).await?,
            Self::Stdio(stdin) => {
                let mut line = text;
                line.push('\n');
                stdin.write_all(line.as_bytes()).await?;
                stdin.flush().await?;
            }
        }
        Ok(())
    }
}

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
