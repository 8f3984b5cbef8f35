//! The keeper's socket: a daemon is attached while it holds a connection. A line on it renews the lease or asks for the
//! end.

use super::KeeperEvent;
use super::lease::{BootInstant, Lease};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest line a client may send.
const LINE_MAX: u64 = 64;
/// Connections at the same time; a daemon needs one.
const CLIENTS_MAX: usize = 8;

/// How long a keeper may take to answer a renewal; one that is frozen never does.
const RENEW_DEADLINE: Duration = Duration::from_secs(2);

/// What the keeper answers to a renewal: Codex may live until then,
const RENEWED: &str = "renewed";
/// or it may not: the lease is over, or the keeper was started without one.
const REFUSED: &str = "refused";

/// What a line asks for.
enum Line {
    /// Codex may live until then.
    Renew(BootInstant),
    /// Codex is to end; it may drain for so long.
    Stop(Duration),
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (word, millis) = line.trim().split_once(' ')?;
        let millis = millis.parse().ok()?;
        match word {
            "lease" => Some(Self::Renew(BootInstant::from_millis(millis))),
            "stop" => Some(Self::Stop(Duration::from_millis(millis))),
            _ => None,
        }
    }
}

pub(super) fn listen(
    path: &Path,
    lease: Option<&Arc<Lease>>,
    events: SyncSender<KeeperEvent>,
) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let slots = Arc::new(());
    let lease = lease.cloned();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if Arc::strong_count(&slots) > CLIENTS_MAX {
                continue;
            }
            let slot = Arc::clone(&slots);
            let events = events.clone();
            let lease = lease.clone();
            std::thread::spawn(move || {
                serve(&client, lease.as_deref(), &events);
                drop(slot);
            });
        }
    });
    Ok(())
}

fn serve(client: &UnixStream, lease: Option<&Lease>, events: &SyncSender<KeeperEvent>) {
    if events.send(KeeperEvent::Joined).is_err() {
        return;
    }
    let mut lines = BufReader::new(client);
    loop {
        let mut line = String::new();
        let read = lines.by_ref().take(LINE_MAX).read_line(&mut line);
        match read.ok().and_then(|_| Line::parse(&line)) {
            Some(Line::Renew(until)) => {
                let renewed = lease.is_some_and(|lease| lease.renew(until));
                let word = if renewed { RENEWED } else { REFUSED };
                let mut client = client;
                // A daemon that is gone is noticed by the next read.
                let _gone = client.write_all(format!("{word}\n").as_bytes());
            }
            Some(Line::Stop(grace)) => {
                let _closed = events.send(KeeperEvent::Stop(grace));
                // The connection ends with the keeper: that is how the client knows that all is gone.
                loop {
                    std::thread::park();
                }
            }
            // The loop is gone only when the keeper ends anyway.
            None => return drop(events.send(KeeperEvent::Left)),
        }
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
    /// Lets Codex live until then. An error means that it ends when the lease that it had is over.
    pub async fn renew(&mut self, until: BootInstant) -> io::Result<()> {
        let answer = async {
            let line = format!("lease {}\n", until.as_millis());
            self.stream.write_all(line.as_bytes()).await?;
            let mut answer = [0_u8; RENEWED.len() + 1];
            self.stream.read_exact(&mut answer).await?;
            Ok::<_, io::Error>(answer)
        };
        let answer = tokio::time::timeout(RENEW_DEADLINE, answer).await??;
        if answer.starts_with(RENEWED.as_bytes()) {
            return Ok(());
        }
        Err(io::Error::other(
            "the keeper has no lease, or it is over already",
        ))
    }

    /// Waits until the keeper is gone.
    pub(crate) async fn gone(&mut self) {
        let mut rest = [0_u8; 16];
        while self.stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }

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
