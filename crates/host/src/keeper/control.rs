//! The keeper's socket: a daemon is attached while it holds a connection, and may ask for the end.

use super::KeeperEvent;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest line a client may send.
const LINE_MAX: u64 = 64;
/// Connections at the same time; a daemon needs one.
const CLIENTS_MAX: usize = 8;

pub(super) fn listen(path: &Path, events: SyncSender<KeeperEvent>) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let slots = std::sync::Arc::new(());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if std::sync::Arc::strong_count(&slots) > CLIENTS_MAX {
                continue;
            }
            let slot = std::sync::Arc::clone(&slots);
            let events = events.clone();
            std::thread::spawn(move || {
                serve(&client, &events);
                drop(slot);
            });
        }
    });
    Ok(())
}

fn serve(client: &UnixStream, events: &SyncSender<KeeperEvent>) {
    if events.send(KeeperEvent::Joined).is_err() {
        return;
    }
    let mut line = String::new();
    let read = BufReader::new(client.take(LINE_MAX)).read_line(&mut line);
    let stop = line
        .trim()
        .strip_prefix("stop ")
        .and_then(|grace| grace.parse().ok());
    match (read, stop) {
        (Ok(_), Some(grace_ms)) => {
            let _closed = events.send(KeeperEvent::Stop(Duration::from_millis(grace_ms)));
            // The connection ends with the keeper: that is how the client knows that all is gone.
            loop {
                std::thread::park();
            }
        }
        // The loop is gone only when the keeper ends anyway.
        (Ok(_) | Err(_), _) => drop(events.send(KeeperEvent::Left)),
    }
}

/// A daemon's hold on a keeper: while it lives, Codex is kept.
#[derive(Debug)]
pub struct KeeperAttachment {
    stream: tokio::net::UnixStream,
}

/// Attaches to the keeper of an incarnation.
pub async fn attach(directory: &Path) -> io::Result<KeeperAttachment> {
    let stream = tokio::net::UnixStream::connect(directory.join(super::KEEPER_SOCKET)).await?;
    Ok(KeeperAttachment { stream })
}

impl KeeperAttachment {
    /// Asks the keeper to end Codex within `grace`, and waits until the keeper is gone.
    pub async fn stop(mut self, grace: Duration) -> io::Result<()> {
        self.stream
            .write_all(format!("stop {}\n", grace.as_millis()).as_bytes())
            .await?;
        self.stream.shutdown().await?;
        let mut rest = [0_u8; 16];
        while self.stream.read(&mut rest).await? > 0 {}
        Ok(())
    }
}
