//! One scripted turn: what it is given, how what it asks is decided, and what was seen of it.

use bridge_codex::schema::{Finding, Severity};
use bridge_codex::turn::{TurnFold, TurnNews, TurnOutcome};
use bridge_codex::wire::item::Item;
use bridge_codex::wire::server_request::RequestKind;
use bridge_codex::wire::thread::ThreadStatus;
use bridge_codex::wire::{Notification, RequestOutcome, ServerRequest, Turn};
use bridge_core::value::{ClientId, ThreadId, TurnId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The first of a turn is the message that it was given.
const ITEM_COMPLETED: &str = "item/completed";

/// What happens to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Accept,
    Decline,
}

/// A turn that is going to run.
#[derive(Clone, Debug)]
pub(crate) struct TurnPlan {
    pub(crate) thread: ThreadId,
    pub(crate) client_id: String,
    pub(crate) text: String,
    /// For the approvals that it asks, in their order; what is beyond them is declined.
    pub(crate) decisions: Vec<Decision>,
    pub(crate) interrupts: bool,
}

/// Something that Codex asked in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    pub(crate) method: String,
    /// Why this bridge can't read it.
    pub(crate) unknown: Option<String>,
}

/// What was seen of a turn.
#[derive(Debug)]
pub(crate) struct TurnRecord {
    pub(crate) turn_id: TurnId,
    /// Absent where its end was not told.
    pub(crate) outcome: Option<TurnOutcome>,
    pub(crate) notifications: BTreeMap<String, u64>,
    pub(crate) requests: Vec<RequestRecord>,
    /// Of its thread, in their order.
    pub(crate) statuses: Vec<String>,
    /// Completed items that are no messages of users, each with its status.
    pub(crate) items: Vec<String>,
    /// What Codex says of the thread when it is asked afterwards.
    pub(crate) status_after: ThreadStatus,
    pub(crate) took: Duration,
}

/// A turn that runs.
#[derive(Debug)]
pub(crate) struct Running {
    fold: TurnFold,
    thread: ThreadId,
    decisions: VecDeque<Decision>,
    begun: bool,
    outcome: Option<TurnOutcome>,
    notifications: BTreeMap<String, u64>,
    requests: Vec<RequestRecord>,
    statuses: Vec<String>,
    items: Vec<String>,
}

impl Running {
    pub(crate) fn begin(plan: TurnPlan) -> Self {
        let client_id = ClientId::new(plan.client_id);
        Self {
            fold: TurnFold::new(plan.thread.clone(), None, Some(client_id)),
            thread: plan.thread,
            decisions: plan.decisions.into(),
            begun: false,
            outcome: None,
            notifications: BTreeMap::new(),
            requests: Vec::new(),
            statuses: Vec::new(),
            items: Vec::new(),
        }
    }

    pub(crate) fn bind(&mut self, turn: TurnId) {
        let news = self.fold.bind(turn);
        self.begun |= news.is_some();
    }

    /// Whether it can be interrupted, and the history will have its message.
    pub(crate) fn runs(&self) -> bool {
        self.begun && self.notifications.contains_key(ITEM_COMPLETED)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    pub(crate) fn notified(&mut self, notification: &Notification) {
        if notification.thread_id() != Some(&self.thread) {
            return;
        }
        let count = self.notifications.entry(notification.method().to_owned());
        let count = count.or_default();
        *count = count.saturating_add(1);
        match notification {
            Notification::ThreadStatusChanged(changed) => {
                self.statuses.push(status_word(&changed.status));
            }
            Notification::ItemCompleted(notice) => self.items.extend(item_line(&notice.item)),
            Notification::TurnStarted(_) => self.begun = true,
            _ => {}
        }
        if let Some(TurnNews::Completed(outcome)) = self.fold.apply(notification) {
            self.outcome = Some(*outcome);
        }
    }

    pub(crate) fn answer(&mut self, request: &ServerRequest) -> RequestOutcome {
        let unknown = match &request.kind {
            RequestKind::Unknown { why } => Some(why.clone()),
            _ => None,
        };
        self.requests.push(RequestRecord {
            method: request.method.clone(),
            unknown,
        });
        match request.accept() {
            Ok(accepted) => match self.decisions.pop_front() {
                Some(Decision::Accept) => accepted,
                Some(Decision::Decline) | None => request.decline(),
            },
            Err(_unfit) => request.decline(),
        }
    }

    pub(crate) fn into_record(self, turn_id: TurnId, status_after: ThreadStatus) -> TurnRecord {
        TurnRecord {
            turn_id,
            outcome: self.outcome,
            notifications: self.notifications,
            requests: self.requests,
            statuses: self.statuses,
            items: self.items,
            status_after,
            took: Duration::ZERO,
        }
    }
}

impl TurnRecord {
    pub(crate) fn answer(&self) -> Option<&str> {
        self.outcome.as_ref()?.end.answer.as_deref()
    }

    /// What is wrong with any turn, whatever it was given.
    pub(crate) fn findings(&self, name: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut breaks = |what: String| {
            found.push(Finding {
                severity: Severity::Breaks,
                what,
            });
        };
        for request in &self.requests {
            if let Some(why) = &request.unknown {
                let method = &request.method;
                breaks(format!(
                    "{method}: an ordinary turn asks it, and this bridge can only decline it ({why})"
                ));
            }
        }
        if let Some(doubt) = self
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.doubt.as_ref())
        {
            breaks(format!(
                "{name}: the end of the turn can't be believed: {doubt}"
            ));
        }
        if self.status_after != ThreadStatus::Idle {
            let status = status_word(&self.status_after);
            breaks(format!("{name}: the thread is `{status}` after its turn"));
        }
        found
    }
}

/// A status as one word.
pub(crate) fn status_word(status: &ThreadStatus) -> String {
    match status {
        ThreadStatus::NotLoaded => "notLoaded".to_owned(),
        ThreadStatus::Idle => "idle".to_owned(),
        ThreadStatus::SystemError => "systemError".to_owned(),
        ThreadStatus::Active { flags } => {
            let flags: Vec<&str> = flags.iter().map(|flag| flag.as_str()).collect();
            match flags.as_slice() {
                [] => "active".to_owned(),
                flags => format!("active ({})", flags.join(", ")),
            }
        }
        ThreadStatus::Other(other) => other.clone(),
    }
}

/// The items of a turn that is read back, as [`TurnRecord::items`].
pub(crate) fn listed_items(turn: &Turn) -> Vec<String> {
    turn.items.iter().filter_map(item_line).collect()
}

fn item_line(item: &Item) -> Option<String> {
    Some(match item {
        Item::UserMessage(_) => return None,
        Item::CommandExecution(command) => format!("{} {}", item.kind(), command.status),
        Item::FileChange(change) => format!("{} {}", item.kind(), change.status),
        other => other.kind().to_owned(),
    })
}
