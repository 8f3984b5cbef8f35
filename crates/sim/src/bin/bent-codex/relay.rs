//! Moves the texts of one connection, both ways, through the rules.

use bridge_sim::bend::{Bender, Side};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Message, protocol::WebSocketConfig};

/// Longest text, as the bridge itself takes it.
const TEXT_MAX: usize = 64 * 1024 * 1024;

/// Texts of one side.
pub(super) enum Incoming {
    Socket(SplitStream<WebSocketStream<UnixStream>>),
    Lines(Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>),
}

/// Texts to one side.
pub(super) enum Writer {
    Socket(SplitSink<WebSocketStream<UnixStream>, Message>),
    Pipe(Box<dyn AsyncWrite + Send + Unpin>),
}

/// One side of a connection.
type End = (Incoming, Writer);

type RelayError = Box<dyn std::error::Error + Send + Sync>;

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(TEXT_MAX))
        .max_frame_size(Some(TEXT_MAX))
}

/// Takes a connection of the bridge.
pub(super) async fn accept(stream: UnixStream) -> Result<End, RelayError> {
    let socket = tokio_tungstenite::accept_async_with_config(stream, Some(config())).await?;
    Ok(end(socket))
}

/// Connects to the real Codex.
pub(super) async fn call(path: &Path) -> Result<End, RelayError> {
    let stream = UnixStream::connect(path).await?;
    let asked =
        tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config()));
    Ok(end(asked.await?.0))
}

fn end(socket: WebSocketStream<UnixStream>) -> End {
    let (writer, reader) = socket.split();
    (Incoming::Socket(reader), Writer::Socket(writer))
}

impl Incoming {
    pub(super) fn lines(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        Self::Lines(BufReader::new(reader).lines())
    }

    /// The next text; none when the side has gone.
    async fn next(&mut self) -> Option<String> {
        match self {
            Self::Lines(lines) => lines.next_line().await.ok().flatten(),
            Self::Socket(stream) => loop {
                match stream.next().await?.ok()? {
                    Message::Text(text) => return Some(text.as_str().to_owned()),
                    Message::Close(_) => return None,
                    _ => {}
                }
            },
        }
    }
}

impl Writer {
    pub(super) fn pipe(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::Pipe(Box::new(writer))
    }

    async fn send(&mut self, mut text: String) -> Result<(), RelayError> {
        match self {
            Self::Socket(sink) => sink.send(Message::text(text)).await?,
            Self::Pipe(pipe) => {
                text.push('\n');
                pipe.write_all(text.as_bytes()).await?;
                pipe.flush().await?;
            }
        }
        Ok(())
    }
}

/// Until one side goes; the other one is then let go as well.
pub(super) async fn run(mut bender: Bender, bridge: End, codex: End) {
    let (mut from_bridge, mut to_bridge) = bridge;
    let (mut from_codex, mut to_codex) = codex;
    loop {
        let (from, text) = tokio::select! {
            text = from_bridge.next() => (Side::Bridge, text),
            text = from_codex.next() => (Side::Codex, text),
        };
        let Some(text) = text else {
            return;
        };
        for (to, text) in bender.pass(from, text) {
            let sent = match to {
                Side::Bridge => to_bridge.send(text).await,
                Side::Codex => to_codex.send(text).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }
}
