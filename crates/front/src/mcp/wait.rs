//! Waiting for a task: looks at it until it ends or asks, and tells whoever listens what it does meanwhile.
//!
//! A wait only looks. When it is over or called off, the task goes on.

use crate::{Act, Caller, Control, ControlError};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Shorter than the minute after which common clients give a tool call up.
pub(super) const DEFAULT: Duration = Duration::from_secs(50);
/// Longest wait in one call.
pub(super) const MAX: Duration = Duration::from_secs(600);

/// The first pause between two looks; each is half again as long as the one before.
const LOOK_FIRST: Duration = Duration::from_millis(200);
/// The longest pause between two looks.
const LOOK_LAST: Duration = Duration::from_secs(2);
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
    let deadline = Instant::now() + patience;
    let mut pause = LOOK_FIRST;
    loop {
        let status = Act::Status {
            task_id: task_id.to_owned(),
        };
        let envelope = control.act(caller, status).await?;
        if is_settled(&envelope) {
            return Ok(Waited::Settled(envelope));
        }
        progress.tell(&envelope).await;
        let now = Instant::now();
        if now >= deadline {
            return Ok(Waited::StillWorks(envelope));
        }
        tokio::select! {
            () = tokio::time::sleep_until(deadline.min(now + pause)) => {}
            () = context.ct.cancelled() => return Ok(Waited::StillWorks(envelope)),
        }
        pause = (pause * 3 / 2).min(LOOK_LAST);
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

    /// Tells what is new, or after a while that it still works.
    async fn tell(&mut self, envelope: &Value) {
        let Some((peer, token)) = &self.to else {
            return;
        };
        let now = Instant::now();
        let line = line(envelope);
        let is_news = match &self.last {
            None => true,
            Some((at, said)) => *said != line || now.duration_since(*at) >= SIGN_OF_LIFE,
        };
        if !is_news {
            return;
        }
        let seconds = now.duration_since(self.begun).as_secs_f64();
        let news = ProgressNotificationParam::new(token.clone(), seconds).with_message(&line);
        // A client that is gone is noticed by its connection.
        let _unheard = peer.notify_progress(news).await;
        self.last = Some((now, line));
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
