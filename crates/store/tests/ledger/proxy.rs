//! A proxy between a ledger and its server that cuts a connection at its COMMIT, before the server has it or after, or
//! drops what goes over its connections without a word, as a network does.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::thread;
use tempfile::TempDir;

/// The name that drivers look for in a directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// Where the next COMMIT goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cut {
    Nowhere = 0,
    /// The server never has it.
    Before = 1,
    /// The server has it, and its answer goes nowhere.
    After = 2,
}

/// What the connections share.
struct Plan {
    next: AtomicU8,
    cuts: AtomicU32,
    connections: AtomicU32,
    /// Of these first ones nothing arrives any more.
    silent: AtomicU32,
}

impl Plan {
    fn is_silent(&self, number: u32) -> bool {
        number <= self.silent.load(Ordering::SeqCst)
    }
}

/// The proxy; connections through it end with it.
pub(crate) struct Proxy {
    directory: TempDir,
    plan: Arc<Plan>,
}

impl Proxy {
    /// In front of the server whose socket is in this directory.
    pub(crate) fn before(server: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let plan = Arc::new(Plan {
            next: AtomicU8::new(Cut::Nowhere as u8),
            cuts: AtomicU32::new(0),
            connections: AtomicU32::new(0),
            silent: AtomicU32::new(0),
        });
        let (server, shared) = (server.join(SOCKET), Arc::clone(&plan));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (server, plan) = (server.clone(), Arc::clone(&shared));
                thread::spawn(move || carry(client.unwrap(), &server, &plan));
            }
        });
        Self { directory, plan }
    }

    pub(crate) fn url_of(&self, database: &str) -> String {
        let directory: PathBuf = self.directory.path().to_owned();
        format!("postgres://bridge@/{database}?host={}", directory.display())
    }

    /// Cuts at the next COMMIT, once.
    pub(crate) fn cut(&self, cut: Cut) {
        self.plan.next.store(cut as u8, Ordering::SeqCst);
    }

    /// All connections that there are stay open, and bring nothing any more.
    pub(crate) fn silence(&self) {
        let all = self.plan.connections.load(Ordering::SeqCst);
        self.plan.silent.store(all, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.plan.cuts.load(Ordering::SeqCst)
    }
}

fn carry(client: UnixStream, server: &Path, plan: &Arc<Plan>) {
    let Ok(server) = UnixStream::connect(server) else {
        return;
    };
    let number = plan.connections.fetch_add(1, Ordering::SeqCst) + 1;
    let (answers, back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let shared = Arc::clone(plan);
    thread::spawn(move || {
        let _ = bring(answers, &back, number, &shared);
        let _ = back.shutdown(Shutdown::Both);
    });
    let _ = forward(client, &server, number, plan);
    let _ = server.shutdown(Shutdown::Both);
}

/// What the server says.
fn bring(
    mut answers: UnixStream,
    mut back: &UnixStream,
    number: u32,
    plan: &Plan,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let length = answers.read(&mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        if !plan.is_silent(number) {
            back.write_all(&bytes[..length])?;
        }
    }
}

/// Message by message, so that it is seen what each is. The first one has no kind.
fn forward(
    mut client: UnixStream,
    mut server: &UnixStream,
    number: u32,
    plan: &Plan,
) -> std::io::Result<()> {
    let mut kind = None;
    loop {
        let mut message = Vec::new();
        if kind.is_some() {
            message.push(0);
            client.read_exact(&mut message)?;
            kind = message.first().copied();
        }
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        message.extend(length);
        let rest = usize::try_from(u32::from_be_bytes(length)).unwrap() - length.len();
        let at = message.len();
        message.resize(at + rest, 0);
        client.read_exact(&mut message[at..])?;
        if kind == Some(b'Q') && message.ends_with(b"COMMIT\0") {
            let next = plan.next.swap(Cut::Nowhere as u8, Ordering::SeqCst);
            if next != Cut::Nowhere as u8 {
                plan.cuts.fetch_add(1, Ordering::SeqCst);
                // Nothing that the server says from now on is passed on.
                client.shutdown(Shutdown::Both)?;
            }
            if next == Cut::Before as u8 {
                return Ok(());
            }
        }
        if !plan.is_silent(number) {
            server.write_all(&message)?;
        }
        kind.get_or_insert(0);
    }
}
