//! Who talks to the fake: its pipes, or any number of websocket connections on a unix socket. Texts in, bytes out;
//! what they mean is `server`.

use futures_util::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;

/// Texts that may wait on either side; beyond it the writer waits, as Codex's does.
const WAITING_MAX: usize = 128;

/// What goes out to one peer.
pub(super) enum Out {
    Bytes(Vec<u8>),
    /// Tells when all before it is written.
    Mark(oneshot::Sender<()>),
}

/// What comes from outside.
pub(super) enum Event {
    Joined(u64, mpsc::Sender<Out>),
    Text(u64, String),
    Left(u64),
    /// Stdin was closed: the real one ends then.
    Over,
}

/// Everybody who is connected.
pub(super) struct Peers {
    pub(super) events: mpsc::Receiver<Event>,
    writers: BTreeMap<u64, mpsc::Sender<Out>>,
}

impl Peers {
    pub(super) fn listen(socket: Option<&Path>) -> Result<Self, String> {
        let (sender, events) = mpsc::channel(WAITING_MAX);
        match socket {
            Some(path) => {
                let listener = UnixListener::bind(path);
                let listener = listener.map_err(|error| format!("{}: {error}", path.display()))?;
                tokio::spawn(accept(listener, sender));
            }
            None => {
                std::thread::spawn(move || read_stdin(&sender));
            }
        }
        Ok(Self {
            events,
            writers: BTreeMap::new(),
        })
    }

    pub(super) fn join(&mut self, peer: u64, writer: mpsc::Sender<Out>) {
        self.writers.insert(peer, writer);
    }

    pub(super) fn leave(&mut self, peer: u64) {
        self.writers.remove(&peer);
    }

    /// To one of them. Who has left needs nothing.
    pub(super) async fn send(&self, peer: u64, bytes: Vec<u8>) {
        if let Some(writer) = self.writers.get(&peer) {
            let _left = writer.send(Out::Bytes(bytes)).await;
        }
    }

    /// To all of them.
    pub(super) async fn tell(&self, bytes: &[u8]) {
        for writer in self.writers.values() {
            let _left = writer.send(Out::Bytes(bytes.to_vec())).await;
        }
    }

    /// Waits until everything is written: what follows may be the end.
    pub(super) async fn flush(&self) {
        for writer in self.writers.values() {
            let (mark, written) = oneshot::channel();
            if writer.send(Out::Mark(mark)).await.is_ok() {
                let _left = written.await;
            }
        }
    }
}

fn read_stdin(events: &mpsc::Sender<Event>) {
    let (writer, mut outgoing) = mpsc::channel::<Out>(WAITING_MAX);
    std::thread::spawn(move || {
        while let Some(out) = outgoing.blocking_recv() {
            let mut stdout = std::io::stdout().lock();
            match out {
                Out::Bytes(bytes) => {
                    if stdout.write_all(&bytes).is_err() || stdout.flush().is_err() {
                        return;
                    }
                }
                Out::Mark(mark) => drop(mark.send(())),
            }
        }
    });
    if events.blocking_send(Event::Joined(0, writer)).is_err() {
        return;
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if events.blocking_send(Event::Text(0, line)).is_err() {
            return;
        }
    }
    let _gone = events.blocking_send(Event::Over);
}

async fn accept(listener: UnixListener, events: mpsc::Sender<Event>) {
    let mut peer = 0;
    while let Ok((stream, _)) = listener.accept().await {
        peer += 1;
        tokio::spawn(talk(peer, stream, events.clone()));
    }
}

async fn talk(peer: u64, stream: UnixStream, events: mpsc::Sender<Event>) {
    // The keeper only looks whether somebody listens: no handshake, no peer.
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    let (mut sink, mut texts) = socket.split();
    let (writer, mut outgoing) = mpsc::channel::<Out>(WAITING_MAX);
    tokio::spawn(async move {
        while let Some(out) = outgoing.recv().await {
            let frame = match out {
                Out::Bytes(bytes) => frame(bytes),
                Out::Mark(mark) => {
                    let _gone = mark.send(());
                    continue;
                }
            };
            if sink.send(frame).await.is_err() {
                return;
            }
        }
    });
    if events.send(Event::Joined(peer, writer)).await.is_err() {
        return;
    }
    while let Some(Ok(frame)) = texts.next().await {
        if let Message::Text(text) = frame {
            let text = text.as_str().to_owned();
            if events.send(Event::Text(peer, text)).await.is_err() {
                return;
            }
        }
    }
    let _gone = events.send(Event::Left(peer)).await;
}

fn frame(bytes: Vec<u8>) -> Message {
    match String::from_utf8(bytes) {
        Ok(text) => Message::text(text.trim_end_matches('\n').to_owned()),
        Err(odd) => Message::binary(odd.into_bytes()),
    }
}
