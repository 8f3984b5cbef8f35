//! The two ways to a Codex process, each as texts in and texts out: its unix socket (websocket frames) and
//! its pipes (one JSON per line). What a text means belongs to `codex`; when to connect belongs to `launch`.

use bridge_codex::frame::{FrameError, LineReader, MAX_LINE_BYTES};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{ChildStdin, ChildStdout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message, protocol::WebSocketConfig};

/// Bytes asked for at once from a pipe.
const READ_BYTES: usize = 64 * 1024;

/// Why texts stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("the connection to codex broke: {0}")]
    Io(#[from] io::Error),
    #[error("the connection to codex broke: {0}")]
    Socket(#[from] Box<tungstenite::Error>),
    #[error("codex sent something unreadable: {0}")]
    TurnContext(#[from] FrameError),
}

impl From<tungstenite::Error> for TransportError {
    fn from(error: tungstenite::Error) -> Self {
        Self::Socket(Box::new(error))
    }
}

/// Texts from Codex.
pub(crate) enum Reader {
    Socket(SplitStream<WebSocketStream<UnixStream>>),
    Stdio(Box<Pipe>),
}

/// Texts to Codex.
pub(crate) enum Writer {
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
pub(crate) async fn connect(socket: &Path) -> Result<(Reader, Writer), TransportError> {
    let stream = UnixStream::connect(socket).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_LINE_BYTES))
        .max_frame_size(Some(MAX_LINE_BYTES));
    let (socket, _response) =
        tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config))
            .await?;
    let (writer, reader) = socket.split();
    Ok((Reader::Socket(reader), Writer::Socket(writer)))
}

/// Takes the pipes of a Codex that was just started.
pub(crate) fn pipes(stdin: ChildStdin, stdout: ChildStdout) -> (Reader, Writer) {
    (
        Reader::Stdio(Box::new(Pipe::of(stdout))),
        Writer::Stdio(stdin),
    )
}

impl Reader {
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

impl Writer {
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
