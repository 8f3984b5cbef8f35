//! Bounds the open connections of a listener and chooses the one to close for a new one.
//!
//! Idle connections that never presented a valid token are closed first, of the address with most of them; then idle
//! connections of the caller with most. A connection with a request in progress is never closed for another.

use super::limits::{
    CONNECTION_QUIET, CONNECTIONS_PER_CALLER_DIVISOR, CONNECTIONS_UNKNOWN_DIVISOR,
};
use crate::lock;
use bridge_core::deadline::after;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Limits of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    pub(super) total: usize,
    /// Idle connections per address without a valid token.
    pub(super) unknown_per_address: usize,
    /// Per caller.
    pub(super) per_caller: usize,
    /// How long a new connection waits for room before it is refused; `None` waits without limit.
    pub(super) patience: Option<Duration>,
}

impl ConnectionLimits {
    /// Limits of a TCP listener. Behind a proxy all connections have its address, so only the total applies.
    pub(super) fn tcp(total: usize, proxied: bool, patience: Duration) -> Self {
        Self {
            total,
            unknown_per_address: if proxied {
                total
            } else {
                (total / CONNECTIONS_UNKNOWN_DIVISOR).max(1)
            },
            per_caller: (total / CONNECTIONS_PER_CALLER_DIVISOR).max(1),
            patience: Some(patience),
        }
    }

    /// Limits of the group's socket: nobody of the group keeps the others out.
    pub(super) fn group(total: usize, patience: Duration) -> Self {
        Self {
            total,
            unknown_per_address: total,
            per_caller: (total / CONNECTIONS_PER_CALLER_DIVISOR).max(1),
            patience: Some(patience),
        }
    }

    /// Limits of `api.sock`, which serves only the owner.
    pub(super) fn local(total: usize) -> Self {
        Self {
            total,
            unknown_per_address: total,
            per_caller: total,
            patience: None,
        }
    }
}

/// The open connections of one listener.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Arc<Mutex<HashMap<u64, ConnectionEntry>>>,
    next_id: Arc<AtomicU64>,
    /// Notified when a connection ends or becomes idle.
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct ConnectionEntry {
    address: Option<IpAddr>,
    /// Name of the last valid token.
    caller: Option<String>,
    /// Requests whose response is not written yet.
    busy: usize,
    /// When it was opened, or its last request ended.
    idle_since: Instant,
    /// Cancelled when this connection has to make room.
    closing: bool,
    close: CancellationToken,
}

impl ConnectionEntry {
    fn is_idle(&self) -> bool {
        self.busy == 0 && !self.closing
    }

    /// The group it counts for when a connection has to make room; unknown callers come first.
    fn holder(&self) -> (bool, String) {
        match (&self.caller, self.address) {
            (Some(caller), _) => (true, caller.clone()),
            (None, Some(address)) => (false, address.to_string()),
            (None, None) => (false, String::new()),
        }
    }
}

/// The connection that makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Now(u64),
    /// None is idle for long enough before this time.
    NotBefore(Instant),
    /// All have a request in progress.
    None,
}

/// There was no room in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// An open connection; uncounted when dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    id: u64,
    connections: Connections,
    close: CancellationToken,
}

/// A request in progress; the connection is idle when its last one is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<OpenConnection>);

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            open: Arc::default(),
            next_id: Arc::default(),
            changed: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, ConnectionEntry>> {
        lock(&self.open)
    }

    /// Waits for room for a connection from this address; closes another one if necessary.
    pub(super) async fn admit(&self, address: Option<IpAddr>) -> Result<OpenConnection, Full> {
        let deadline = self
            .limits
            .patience
            .map(|patience| after(Instant::now(), patience));
        self.thin_out(address);
        loop {
            // Registered before the check, so that a change in between is not missed.
            let changed = self.changed.notified();
            let wake = {
                let mut open = self.lock();
                if open.len() < self.limits.total {
                    return Ok(self.enter(&mut open, address));
                }
                let is_making_room = open.values().any(|entry| entry.closing);
                match victim(&open, Instant::now()) {
                    _ if is_making_room => None,
                    Victim::Now(id) => {
                        close(&mut open, id);
                        None
                    }
                    Victim::NotBefore(at) => Some(at),
                    Victim::None => None,
                }
            };
            tokio::select! {
                () = changed => {}
                () = until(wake) => {}
                () = until(deadline) => return Err(Full),
            }
        }
    }

    /// Closes the longest idle connection without a token of an address that has too many.
    fn thin_out(&self, address: Option<IpAddr>) {
        let mut open = self.lock();
        let now = Instant::now();
        let unknown = |entry: &ConnectionEntry| entry.caller.is_none() && entry.address == address;
        let count = open
            .values()
            .filter(|entry| unknown(entry) && !entry.closing);
        if address.is_none() || count.count() < self.limits.unknown_per_address {
            return;
        }
        let quiet = open.iter().filter(|(_, entry)| {
            unknown(entry)
                && entry.is_idle()
                && now.duration_since(entry.idle_since) >= CONNECTION_QUIET
        });
        let oldest = quiet.min_by_key(|(_, entry)| entry.idle_since);
        if let Some(id) = oldest.map(|(id, _)| *id) {
            close(&mut open, id);
        }
    }

    fn enter(
        &self,
        open: &mut HashMap<u64, ConnectionEntry>,
        address: Option<IpAddr>,
    ) -> OpenConnection {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let close = CancellationToken::new();
        open.insert(
            id,
            ConnectionEntry {
                address,
                caller: None,
                busy: 0,
                idle_since: Instant::now(),
                closing: false,
                close: close.clone(),
            },
        );
        OpenConnection {
            id,
            connections: self.clone(),
            close,
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn close(open: &mut HashMap<u64, ConnectionEntry>, id: u64) {
    if let Some(entry) = open.get_mut(&id) {
        entry.closing = true;
        entry.close.cancel();
    }
}

/// Chooses the longest idle connection of the group with most idle ones.
fn victim(open: &HashMap<u64, ConnectionEntry>, now: Instant) -> Victim {
    let mut counts: HashMap<(bool, String), usize> = HashMap::new();
    for entry in open.values() {
        *counts.entry(entry.holder()).or_default() += 1;
    }
    let rank = |entry: &ConnectionEntry| {
        let holder = entry.holder();
        let count = counts.get(&holder).copied().unwrap_or_default();
        // Without a token first, then the largest group, then the longest idle.
        (holder.0, std::cmp::Reverse(count), entry.idle_since)
    };
    let idle = open.iter().filter(|(_, entry)| entry.is_idle());
    let Some((id, entry)) = idle.min_by_key(|(_, entry)| rank(entry)) else {
        return Victim::None;
    };
    match after(entry.idle_since, CONNECTION_QUIET) {
        ripe if ripe <= now => Victim::Now(*id),
        ripe => Victim::NotBefore(ripe),
    }
}

impl OpenConnection {
    /// Cancelled when this connection has to make room.
    pub(super) fn closing(&self) -> CancellationToken {
        self.close.clone()
    }

    /// Begins a request; `None` if the connection has been chosen to make room.
    pub(super) fn begin(self: &Arc<Self>) -> Option<UnderWay> {
        let mut open = self.connections.lock();
        let entry = open.get_mut(&self.id).filter(|entry| !entry.closing)?;
        entry.busy += 1;
        Some(UnderWay(Arc::clone(self)))
    }

    /// Notes the caller; returns whether it has too many connections now.
    pub(super) fn is_too_many_of(&self, caller: &str) -> bool {
        let mut open = self.connections.lock();
        if let Some(entry) = open.get_mut(&self.id) {
            entry.caller = Some(caller.to_owned());
        }
        let theirs = open
            .values()
            .filter(|entry| entry.caller.as_deref() == Some(caller));
        theirs.count() > self.connections.limits.per_caller
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.id);
        self.connections.changed.notify_one();
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let connection = &self.0;
        if let Some(entry) = connection.connections.lock().get_mut(&connection.id) {
            entry.busy = entry.busy.saturating_sub(1);
            entry.idle_since = Instant::now();
        }
        connection.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
