//! The calls of the platform that wait for an answer, and the secret that they are made with.

use crate::secret::Secret;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use bridge_core::value::ExternalId;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{oneshot, watch};

/// Calls of one workspace that wait at once.
const WAITING_MAX: usize = 256;
/// Secrets that are kept out of replies: the newest, which calls must carry, and some that it replaced.
const SECRETS_MAX: usize = 8;

type Calls = HashMap<ExternalId, Vec<(u64, oneshot::Sender<Value>)>>;

/// The calls of one workspace.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    /// Newest first.
    secrets: Mutex<VecDeque<Secret>>,
    waiting: Mutex<Calls>,
    numbers: AtomicU64,
    /// Grows with each commit of the feed.
    commits: watch::Sender<u64>,
}

/// A call that waits for the answer to one message. Dropped, it waits no more.
pub(super) struct Waiting<'a> {
    pushes: &'a Pushes,
    message: ExternalId,
    number: u64,
    answer: oneshot::Receiver<Value>,
}

impl Pushes {
    /// Notes the secret that the platform calls us with from now on; an earlier one is good no more.
    pub(crate) fn learn_secret(&self, secret: &str) {
        let mut secrets = lock(&self.secrets);
        let secret = Secret::new(secret);
        if secret.expose().is_empty() || secrets.front() == Some(&secret) {
            return;
        }
        secrets.push_front(secret);
        secrets.truncate(SECRETS_MAX);
    }

    /// Compares digests, in constant time: neither length nor content of the secret shows in how long it takes.
    pub(super) fn accepts(&self, presented: &str) -> bool {
        let secrets = lock(&self.secrets);
        let Some(secret) = secrets.front() else {
            return false;
        };
        let (own, theirs) = (
            Sha256::digest(secret.expose().as_bytes()),
            Sha256::digest(presented.as_bytes()),
        );
        verify_slices_are_equal(&own, &theirs).is_ok()
    }

    pub(crate) fn secrets(&self) -> Vec<Secret> {
        lock(&self.secrets).iter().cloned().collect()
    }

    /// A place for the answer to a message; none when too many wait.
    pub(super) fn wait_for(&self, message: &ExternalId) -> Option<Waiting<'_>> {
        let mut waiting = lock(&self.waiting);
        if waiting.values().map(Vec::len).sum::<usize>() >= WAITING_MAX {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let calls = waiting.entry(message.clone()).or_default();
        calls.push((number, sender));
        Some(Waiting {
            pushes: self,
            message: message.clone(),
            number,
            answer,
        })
    }

    pub(super) fn is_waited_for(&self, message: &ExternalId) -> bool {
        lock(&self.waiting).contains_key(message)
    }

    /// Gives an answer to every call that waits for it; `false` when nobody was there to take it.
    pub(super) fn hand(&self, message: &ExternalId, answer: &Value) -> bool {
        let calls = lock(&self.waiting).remove(message).unwrap_or_default();
        let mut taken = false;
        for (_, call) in calls {
            taken |= call.send(answer.clone()).is_ok();
        }
        taken
    }

    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// Says that rows may have come into the ledger.
    pub(crate) fn committed(&self) {
        self.commits
            .send_modify(|commits| *commits = commits.wrapping_add(1));
    }
}

impl Waiting<'_> {
    pub(super) fn message(&self) -> &ExternalId {
        &self.message
    }

    /// The answer; none when it will not come here.
    pub(super) async fn answer(&mut self) -> Option<Value> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.pushes.waiting);
        if let Some(calls) = waiting.get_mut(&self.message) {
            calls.retain(|(number, _)| *number != self.number);
            if calls.is_empty() {
                waiting.remove(&self.message);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
