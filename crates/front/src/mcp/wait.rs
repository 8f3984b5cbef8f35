//! Waiting for a task: looks at it when there is news until it ends or asks, and tells whoever listens what it does
//! meanwhile. A wait only looks. When it is over or called off, the task goes on.

use crate::{Act, Caller, Control, ControlError, News};
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

/// How often the task is looked at without news: news may be lost, and an older daemon has none.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looks that news may cause one right after another, so that the last news of a turn is not held back by those before.
const LOOKS_AT_ONCE: u32 = 10;
/// One more look may be caused in each of these: a task that changes all the time is not looked at all the time.
const LOOK_CREDIT: Duration = Duration::from_millis(50);
/// The shortest time between two lines of progress; what was held back is told as it is then.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// A client that hears nothing for this long may think that we hang.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
/// Longest line of progress.
const LINE_MAX_CHARS: usize = 300;

/// How long somebody wants to wait, within bounds.
pub(super) fn patience(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds)).min(MAX)
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Waited {
    /// The task ended or asks; its envelope.
    Settled(Value),
    /// The time is over and the task still works; its envelope.
    StillWorks(Value),
}

/// Looks at the task until it settles, the patience is used up, or the caller calls it off.
pub(super) async fn wait<C: Control>(
    control: &C,
    caller: &Caller,
    task_id: &str,
    patience: Duration,
    context: &RequestContext<RoleServer>,
) -> Result<Waited, ControlError> {
    let mut progress = Progress::of(context);
    let deadline = after(Instant::now(), patience);
    let mut news = control.news(task_id);
    let mut looks = Looks::new(Instant::now());
    loop {
        looks.one_more(Instant::now());
        let status = Act::Status {
            task_id: task_id.to_owned(),
        };
        let envelope = control.act(caller, status).await?;
        if is_settled(&envelope) {
            return Ok(Waited::Settled(envelope));
        }
        let again = progress.tell(&envelope).await;
        if Instant::now() >= deadline {
            return Ok(Waited::StillWorks(envelope));
        }
        let told = async {
            news.changed().await;
            sleep_until(looks.next()).await;
        };
        tokio::select! {
            () = told => {}
            () = sleep_until(deadline.min(again)) => {}
            () = context.ct.cancelled() => return Ok(Waited::StillWorks(envelope)),
        }
    }
}

/// How often one wait looks.
struct Looks {
    /// When all looks so far are paid for by the time that has passed.
    paid: Instant,
}

impl Looks {
    fn new(now: Instant) -> Self {
        Self { paid: now }
    }

    fn one_more(&mut self, now: Instant) {
        self.paid = after(self.paid.max(now), LOOK_CREDIT);
    }

    /// When news may cause the next one; in the past where it may at once.
    fn next(&self) -> Instant {
        let ahead = LOOK_CREDIT.saturating_mul(LOOKS_AT_ONCE - 1);
        self.paid.checked_sub(ahead).unwrap_or(self.paid)
    }
}

/// Everything but work that goes on by itself; a word that we do not know is not waited for.
fn is_settled(envelope: &Value) -> bool {
    let status = envelope.pointer("/task/status").and_then(Value::as_str);
    !matches!(status, Some("queued" | "starting" | "working" | "unclear"))
}

/// Progress notifications of one call, where its caller asked for them.
struct Progress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    begun: Instant,
    last: Option<(Instant, String)>,
}

impl Progress {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            to: token.map(|token| (context.peer.clone(), token)),
            begun: Instant::now(),
            last: None,
        }
    }

    /// Tells what is new, or after a while that it still works; says when to look again, whatever the news.
    async fn tell(&mut self, envelope: &Value) -> Instant {
        let now = Instant::now();
        let again = after(now, LOOK_EVERY);
        let Some((peer, token)) = &self.to else {
            return again;
        };
        let line = line(envelope);
        match &self.last {
            None => {}
            Some((at, said)) if *said == line && now < after(*at, SIGN_OF_LIFE) => return again,
            Some((at, _)) if now < after(*at, TELL_EVERY) => return after(*at, TELL_EVERY),
            Some(_) => {}
        }
        let seconds = now.duration_since(self.begun).as_secs_f64();
        let news = ProgressNotificationParam::new(token.clone(), seconds).with_message(&line);
        // A client that is gone is noticed by its connection.
        let _unheard = peer.notify_progress(news).await;
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
