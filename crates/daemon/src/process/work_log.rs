//! The daemon's log of its work: a line when a message is taken in, answered, held, given up or stopped, and when Codex
//! asks something and is answered.
//!
//! Entries come from committed changes, so a line never says what is not on disk. They hold ids, names and reasons of the
//! bridge, and nobody's text.

use crate::Daemon;
use bridge_core::find::short_id;
use bridge_core::limits::clip;
use bridge_core::port::{Agent, Change, Ledger, Read, RowsError, Sink};
use bridge_core::value::{
    Class, DecidedBy, Failure, Hold, Life, MessageId, MessageState, RequestDecision, RequestId,
    RequestVerdict, StateName, Timestamp, Usage,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tracing::field::{DisplayValue, display};

/// Entries that wait for the writer of the log. Beyond it they are counted and left out: no message waits for a line.
const QUEUE_MAX: usize = 1024;
/// Waiting messages whose reason is remembered, so that one reason makes one line.
const REASONS_MAX: usize = 1024;
/// Longest name of a conversation in a line.
const NAME_MAX_CHARS: usize = 60;
/// What is to be written, and the queue before the writer.
#[derive(Debug)]
pub(crate) struct WorkLog {
    entries: mpsc::Sender<Entry>,
    /// Taken by the writer.
    queue: Mutex<Option<mpsc::Receiver<Entry>>>,
    left_out: AtomicU64,
}

impl Default for WorkLog {
    fn default() -> Self {
        let (entries, queue) = mpsc::channel(QUEUE_MAX);
        Self {
            entries,
            queue: Mutex::new(Some(queue)),
            left_out: AtomicU64::new(0),
        }
    }
}

impl WorkLog {
    /// Notes what committed changes mean for people.
    pub(crate) fn note(&self, changes: &[Change]) {
        let is_logged = tracing::enabled!(tracing::Level::INFO);
        let entries = entries(changes).into_iter();
        entries
            .filter(|entry| is_logged || entry.what.is_measured())
            .for_each(|entry| self.push(entry));
    }

    /// Notes that Codex waits for a decision; after a restart of the daemon it asks again, under the same row.
    pub(crate) fn asks(&self, request_id: &RequestId) {
        self.push(Entry {
            about: About::Request(request_id.clone()),
            what: What::Asks,
        });
    }

    fn push(&self, entry: Entry) {
        if self.entries.try_send(entry).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One line to be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    about: About,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    Message(MessageId),
    Request(RequestId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    TakenIn,
    Answered {
        at: Timestamp,
        usage: Option<Usage>,
    },
    /// It waits for somebody or something, and costs no attempt.
    Waits {
        reason: String,
    },
    /// It failed and is tried again by itself.
    TriedAgain {
        at: Timestamp,
        until: Timestamp,
        reason: String,
    },
    LostSight {
        reason: Option<String>,
    },
    WaitsForYou {
        reason: String,
    },
    Failed {
        reason: String,
    },
    Stopped {
        reason: String,
    },
    /// A person sent it again.
    Retried,
    /// It lost its turn, and gets another one.
    QueuedAgain,
    Asks,
    Decided {
        at: Timestamp,
        decision: RequestDecision,
        by: String,
        via: String,
    },
}

impl What {
    /// Whether its duration is measured, which takes its rows, as a line does.
    fn is_measured(&self) -> bool {
        matches!(self, Self::Answered { .. } | Self::Decided { .. })
    }
}

/// What these changes mean for people, in their order.
fn entries(changes: &[Change]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |about, what| entries.push(Entry { about, what });
    for change in changes {
        match change {
            // One that was taken over finished elsewhere; the import says how many.
            Change::NewMessage(message) if !message.is_imported() => {
                add(About::Message(message.message_id.clone()), What::TakenIn);
            }
            Change::UpdateState {
                message_id,
                from,
                life,
            } => {
                if let Some(what) = moved(*from, life, usage_of(changes, message_id)) {
                    add(About::Message(message_id.clone()), what);
                }
            }
            Change::NewRequest(request) => {
                if let Some(verdict) = request.state.verdict() {
                    add(About::Request(request.request_id.clone()), decided(verdict));
                }
            }
            Change::Request { request_id, to, .. } => {
                if let Some(verdict) = to.verdict() {
                    add(About::Request(request_id.clone()), decided(verdict));
                }
            }
            _ => {}
        }
    }
    entries
}

/// The tokens of the turn that ended in the same transaction.
fn usage_of(changes: &[Change], of: &MessageId) -> Option<Usage> {
    changes.iter().find_map(|change| match change {
        Change::Turn(turn) if turn.message_id == *of => Some(turn.usage),
        _ => None,
    })
}

fn moved(from: StateName, life: &Life, usage: Option<Usage>) -> Option<What> {
    let at = life.updated_at;
    let what = match &life.state {
        MessageState::Received { hold: Some(hold) } => held(hold, at),
        MessageState::Received { hold: None } if is_over(from) => What::Retried,
        MessageState::Received { hold: None } if from.in_flight() => What::QueuedAgain,
        MessageState::Sending if is_over(from) => What::Retried,
        MessageState::Unclear { hold: Some(hold) } => What::Waits {
            reason: hold.failure.reason.clone(),
        },
        MessageState::Unclear { hold: None } => What::LostSight {
            reason: life.failure.as_ref().map(reason_of),
        },
        MessageState::Parked { reason, .. } => What::WaitsForYou {
            reason: reason.clone(),
        },
        MessageState::Answered => What::Answered { at, usage },
        MessageState::Dead { reason } => What::Failed {
            reason: reason.clone(),
        },
        MessageState::Cancelled { reason } => What::Stopped {
            reason: reason.clone(),
        },
        MessageState::Received { hold: None }
        | MessageState::Claimed
        | MessageState::Starting
        | MessageState::Running { .. }
        | MessageState::Steered { .. }
        | MessageState::Sending
        | MessageState::Done => return None,
    };
    Some(what)
}

/// Whether only a person moves a message on from here.
fn is_over(state: StateName) -> bool {
    state.finished() || state == StateName::Parked
}

fn reason_of(failure: &Failure) -> String {
    failure.reason.clone()
}

fn held(hold: &Hold, at: Timestamp) -> What {
    let reason = reason_of(&hold.failure);
    match hold.failure.class {
        Class::Config | Class::Capacity { .. } => What::Waits { reason },
        Class::Transient | Class::Permanent | Class::Ambiguous | Class::Bug => What::TriedAgain {
            at,
            until: hold.until,
            reason,
        },
    }
}

fn decided(verdict: &RequestVerdict) -> What {
    let by = match &verdict.by {
        DecidedBy::Bridge => DecidedBy::BRIDGE_NAME.to_owned(),
        DecidedBy::Caller(actor) => actor.to_string(),
    };
    What::Decided {
        at: verdict.at,
        decision: verdict.decision,
        by,
        via: verdict.via.clone(),
    }
}

/// The names of what an entry is about.
#[derive(Clone, Debug)]
struct Names {
    message_id: MessageId,
    conversation: String,
    channel: String,
    sender: String,
    received_at: Timestamp,
    attempt: u32,
    /// Code and kind of the approval request, and the command that accepts it.
    request: Option<(String, String, String)>,
    asked_at: Option<Timestamp>,
}

impl Names {
    fn read(rows: &dyn Read, about: &About) -> Result<Option<Self>, RowsError> {
        let (message_id, request, asked_at) = match about {
            About::Message(message_id) => (message_id.clone(), None, None),
            About::Request(request_id) => {
                let Some(request) = rows.request(request_id)? else {
                    return Ok(None);
                };
                let code = request_id.code().to_owned();
                let kind = request.kind.as_str().to_owned();
                let next = request.accept_command();
                let names = Some((code, kind, next));
                (request.message_id, names, Some(request.created_at))
            }
        };
        let Some(message) = rows.message(&message_id)? else {
            return Ok(None);
        };
        let conversation = rows.conversation(&message.conversation_id)?;
        let name = conversation.map(|found| clip(&found.external_key, NAME_MAX_CHARS));
        Ok(Some(Self {
            message_id,
            conversation: name.unwrap_or_default(),
            channel: message.channel.to_string(),
            sender: clip(&message.sender, NAME_MAX_CHARS),
            received_at: message.received_at,
            attempt: message.life.attempt,
            request,
            asked_at,
        }))
    }
}

/// Remembers why messages wait: a wait is looked at every few seconds, and logged once.
#[derive(Debug, Default)]
struct Reasons(HashMap<MessageId, String>);

impl Reasons {
    /// Whether this is not the reason of the message's last line.
    fn is_new(&mut self, message_id: &MessageId, what: &What) -> bool {
        let What::Waits { reason } = what else {
            if !matches!(what, What::QueuedAgain) {
                self.0.remove(message_id);
            }
            return true;
        };
        if self.0.len() >= REASONS_MAX {
            self.0.clear();
        }
        let before = self.0.insert(message_id.clone(), reason.clone());
        before.as_deref() != Some(reason)
    }
}

fn write(names: &Names, what: &What) {
    let short_id = short_id(&names.message_id);
    let (id, conversation) = (word(short_id), word(&names.conversation));
    match what {
        What::TakenIn => {
            let (channel, sender) = (word(&names.channel), word(&names.sender));
            tracing::info!(name: "message.received", id, conversation, channel, sender, "taken in");
        }
        What::Answered { at, usage } => {
            let took = display(Seconds(at.since_ms(names.received_at)));
            let tokens = usage
                .map(|usage| usage.input_tokens.saturating_add(usage.output_tokens))
                .filter(|tokens| *tokens > 0);
            let attempt = names.attempt;
            tracing::info!(name: "message.answered",
                id,
                conversation,
                seconds = took,
                tokens,
                attempt,
                "answered"
            );
        }
        What::Waits { reason } => {
            tracing::info!(name: "message.waits", id, conversation, reason, "waits")
        }
        What::TriedAgain { at, until, reason } => {
            let pause = display(Seconds(until.since_ms(*at)));
            let attempt = names.attempt;
            tracing::warn!(name: "message.retrying",
                id,
                conversation,
                attempt,
                seconds = pause,
                reason,
                "tried again soon"
            );
        }
        What::LostSight { reason } => {
            tracing::warn!(name: "message.lost",
                id,
                conversation,
                reason,
                "its turn is out of sight; Codex's history is read"
            );
        }
        What::WaitsForYou { reason } => {
            let next = format!("codex-bridge retry {short_id}");
            tracing::warn!(name: "message.parked", id, conversation, reason, next, "waits for you");
        }
        What::Failed { reason } => {
            let next = format!("codex-bridge retry {short_id}");
            tracing::warn!(name: "message.failed", id, conversation, reason, next, "failed");
        }
        What::Stopped { reason } => {
            tracing::info!(name: "message.stopped", id, conversation, reason, "was stopped")
        }
        What::Retried => tracing::info!(name: "message.redriven", id, conversation, "is retried"),
        What::QueuedAgain => {
            tracing::info!(name: "message.requeued", id, conversation, "queued again")
        }
        What::Asks | What::Decided { .. } => write_request(names, what),
    }
}

fn write_request(names: &Names, what: &What) {
    let (id, conversation) = (word(short_id(&names.message_id)), word(&names.conversation));
    let Some((request, kind, next)) = &names.request else {
        return;
    };
    let (request, kind) = (word(request), word(kind));
    let What::Decided {
        decision, by, via, ..
    } = what
    else {
        tracing::info!(name: "approval.asked",
            id,
            conversation,
            request,
            kind,
            next,
            "Codex asks, and waits for a decision"
        );
        return;
    };
    let (by, via) = (word(by), word(via));
    match decision {
        RequestDecision::Accept | RequestDecision::AcceptForSession => {
            tracing::info!(name: "approval.accepted", id, conversation, request, kind, by, via, "approved");
        }
        RequestDecision::Decline => {
            tracing::info!(name: "approval.declined", id, conversation, request, kind, by, via, "declined");
        }
        RequestDecision::Cancel => {
            tracing::info!(name: "approval.cancelled",
                id,
                conversation,
                request,
                kind,
                by,
                via,
                "declined, and its turn ends"
            );
        }
    }
}

/// A value without quotes where it needs none.
fn word(text: &str) -> DisplayValue<Word<'_>> {
    display(Word(text))
}

struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

/// Milliseconds as seconds with one decimal.
#[derive(Debug)]
struct Seconds(i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.max(0) / 100;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Writes the log of the work until the daemon goes, and what is queued then.
    pub(crate) async fn write_work_log(self: Arc<Self>) {
        let queue = self.work_log.queue.lock();
        let Some(mut queue) = queue.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let mut reasons = Reasons::default();
        loop {
            let entry = tokio::select! {
                biased;
                entry = queue.recv() => entry,
                () = self.halt.cancelled() => queue.try_recv().ok(),
            };
            let Some(entry) = entry else { return };
            self.write_entry(entry, &mut reasons).await;
            let left_out = self.work_log.left_out.swap(0, Ordering::Relaxed);
            if left_out > 0 {
                tracing::warn!(
                    lines = left_out,
                    "there was too much to log; lines about messages are left out"
                );
            }
        }
    }

    fn measure(&self, names: &Names, what: &What) {
        match (what, names.asked_at) {
            (What::Answered { at, .. }, _) => {
                self.measures.answered(at.since_ms(names.received_at));
            }
            (What::Decided { at, decision, .. }, Some(asked_at)) => {
                self.measures.decided(*decision, at.since_ms(asked_at));
            }
            _ => {}
        }
    }

    async fn write_entry(&self, entry: Entry, reasons: &mut Reasons) {
        let about = entry.about;
        match self
            .ledger
            .read(move |rows| Names::read(rows, &about))
            .await
        {
            Ok(Some(names)) => {
                self.measure(&names, &entry.what);
                if reasons.is_new(&names.message_id, &entry.what) {
                    write(&names, &entry.what);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a line about a message could not be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(state: MessageState) -> Life {
        Life {
            state,
            ..Life::new(Timestamp(5_000))
        }
    }

    fn hold(class: Class) -> MessageState {
        let failure = Failure::new(class, "why");
        let until = Timestamp(7_500);
        MessageState::Received {
            hold: Some(Hold { until, failure }),
        }
    }

    #[test]
    fn every_turn_for_people_has_a_line() {
        let reason = || "why".to_owned();
        let said = |from, state| moved(from, &life(state), None);
        let running = StateName::Running;
        assert_eq!(
            said(running, MessageState::Dead { reason: reason() }),
            Some(What::Failed { reason: reason() })
        );
        assert_eq!(
            said(running, hold(Class::Config)),
            Some(What::Waits { reason: reason() })
        );
        let (at, until) = (Timestamp(5_000), Timestamp(7_500));
        let again = What::TriedAgain {
            at,
            until,
            reason: reason(),
        };
        assert_eq!(said(running, hold(Class::Transient)), Some(again));
        let queued = MessageState::Received { hold: None };
        assert_eq!(said(StateName::Dead, queued.clone()), Some(What::Retried));
        assert_eq!(said(running, queued), Some(What::QueuedAgain));
        assert_eq!(said(StateName::Sending, MessageState::Done), None);
    }

    #[test]
    fn one_reason_makes_one_line() {
        let mut reasons = Reasons::default();
        let id = MessageId::new("m");
        let waits = |why: &str| What::Waits {
            reason: why.to_owned(),
        };
        assert!(reasons.is_new(&id, &waits("no login")));
        assert!(reasons.is_new(&id, &What::QueuedAgain));
        assert!(!reasons.is_new(&id, &waits("no login")));
        assert!(reasons.is_new(&id, &waits("no disk")));
        assert!(reasons.is_new(&id, &What::Retried));
        assert!(reasons.is_new(&id, &waits("no disk")));
    }

    #[test]
    fn values_are_quoted_where_needed() {
        assert_eq!(Word("@bot/main").to_string(), "@bot/main");
        assert_eq!(Word("local owner").to_string(), "\"local owner\"");
        assert_eq!(Word("").to_string(), "\"\"");
        assert_eq!(Seconds(3_250).to_string(), "3.2");
        assert_eq!(Seconds(-1).to_string(), "0.0");
    }
}
