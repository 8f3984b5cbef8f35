//! Waits for a task to end or to need a decision, and reports progress. The task goes on when a wait ends or is cancelled.

use crate::{Caller, Control, ControlAction, ControlError, TaskWatch};
use bridge_core::deadline::after;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Shorter than the minute after which common clients give a tool call up.
pub(super) const DEFAULT: Duration = Duration::from_secs(50);
/// Longest wait in one call.
pub(super) const MAX: Duration = Duration::from_secs(600);

/// Interval at which the task is read without a notification: notifications are lossy, and older daemons have none.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// Reads that notifications may cause in a burst, so that the last change of a turn is not delayed.
const READ_BURST: u32 = 10;
/// Interval that earns one more read: limits the reads of a task that changes all the time.
const READ_INTERVAL: Duration = Duration::from_millis(50);
/// Shortest time between two progress notifications; a suppressed one is sent later with the state of that time.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Progress is repeated after this time, so that the client does not assume a hang.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Longest progress line.
const LINE_MAX_CHARS: usize = 300;

/// The requested wait, bounded.
pub(super) fn patience(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds)).min(MAX)
}

/// Result of a wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Waited {
    /// The task ended or needs a decision; its envelope.
    Settled(Value),
    /// The task still works; its envelope.
    StillWorks(Value),
}

/// Waits until the task settles, `patience` is used up, or the call is cancelled.
pub(super) async fn wait<C: Control>(
    control: &C,
    caller: &Caller,
    task_id: &str,
    patience: Duration,
    context: &RequestContext<RoleServer>,
) -> Result<Waited, ControlError> {
    let mut progress = ProgressReporter::of(context);
    let deadline = after(Instant::now(), patience);
    let mut news = control.news(task_id);
    let mut reads = ReadBudget::new(Instant::now());
    loop {
        reads.spend(Instant::now());
        let status = ControlAction::Status {
            task_id: task_id.to_owned(),
        };
        let envelope = control.act(caller, status).await?;
        if is_settled(&envelope) {
            return Ok(Waited::Settled(envelope));
        }
        let again = progress.report(&envelope).await;
        if Instant::now() >= deadline {
            return Ok(Waited::StillWorks(envelope));
        }
        let notified = async {
            news.changed().await;
            sleep_until(reads.next()).await;
        };
        tokio::select! {
            () = notified => {}
            () = sleep_until(deadline.min(again)) => {}
            () = context.ct.cancelled() => return Ok(Waited::StillWorks(envelope)),
        }
    }
}

/// Limits the reads of one wait.
struct ReadBudget {
    /// Time at which all reads so far have been earned.
    paid: Instant,
}

impl ReadBudget {
    fn new(now: Instant) -> Self {
        Self { paid: now }
    }

    fn spend(&mut self, now: Instant) {
        self.paid = after(self.paid.max(now), READ_INTERVAL);
    }

    /// Earliest time of the next read; in the past if it may happen at once.
    fn next(&self) -> Instant {
        let ahead = READ_INTERVAL.saturating_mul(READ_BURST - 1);
        self.paid.checked_sub(ahead).unwrap_or(self.paid)
    }
}

/// Whether the task does not continue by itself. An unknown status counts as settled.
fn is_settled(envelope: &Value) -> bool {
    let status = envelope.pointer("/task/status").and_then(Value::as_str);
    !matches!(status, Some("queued" | "starting" | "working" | "unclear"))
}

/// Progress notifications of one call, if its caller asked for them.
struct ProgressReporter {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    begun: Instant,
    last: Option<(Instant, String)>,
}

impl ProgressReporter {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            to: token.map(|token| (context.peer.clone(), token)),
            begun: Instant::now(),
            last: None,
        }
    }

    /// Sends progress if it changed, or as keep-alive. Returns when to read the task again at the latest.
    async fn report(&mut self, envelope: &Value) -> Instant {
        let now = Instant::now();
        let again = after(now, POLL_EVERY);
        let Some((peer, token)) = &self.to else {
            return again;
        };
        let line = line(envelope);
        match &self.last {
            None => {}
            Some((at, said)) if *said == line && now < after(*at, KEEP_ALIVE) => return again,
            Some((at, _)) if now < after(*at, PROGRESS_INTERVAL) => {
                return after(*at, PROGRESS_INTERVAL);
            }
            Some(_) => {}
        }
        let seconds = now.duration_since(self.begun).as_secs_f64();
        let news = ProgressNotificationParam::new(token.clone(), seconds).with_message(&line);
        // A disconnected client is noticed by its connection.
        let _disconnected = peer.notify_progress(news).await;
        self.last = Some((now, line));
        again
    }
}

fn line(envelope: &Value) -> String {
    let text = |key: &str| {
        let found = envelope.pointer(key).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let (status, progress) = (text("/task/status"), text("/task/last_progress_summary"));
    let line = match progress {
        "" => status.to_owned(),
        progress => format!("{status}: {progress}"),
    };
    line.chars().take(LINE_MAX_CHARS).collect()
}
