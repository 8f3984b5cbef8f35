//! One workspace as the platform keeps it, and whether it counts as present.

use serde_json::{Value, json};

use super::dispatch::PushCall;
use super::ids::{WorkspaceId, fresh_token};
use super::options::Edition;
use super::outside::SocialChannel;
use super::rows::put;
use super::time::Micros;

/// How long a register that failed is held against the workspace.
const REGISTER_MEMORY: std::time::Duration = std::time::Duration::from_secs(300);
/// An error rate from which a workspace counts as degraded.
const DEGRADED_FROM: f64 = 0.5;

/// What a workspace is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nobody has been heard of for the presence window, or ever.
    AwaitingAgent,
    /// Heartbeats come.
    Online,
    /// Heartbeats come and say that something is wrong, or the last register failed.
    Degraded,
    /// Set aside by its owner; messages still queue.
    Paused,
    /// Resumed, and not heard of since.
    Provisioning,
    /// Deleted.
    Removed,
}

impl Status {
    /// As the platform spells it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::AwaitingAgent => "awaiting_agent",
            Self::Online => "online",
            Self::Degraded => "degraded",
            Self::Paused => "paused",
            Self::Provisioning => "provisioning",
            Self::Removed => "removed",
        }
    }
}

/// What a peer does with each message that comes to it over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoAnswer {
    /// What it writes back.
    pub text: String,
    /// Whether it sends the message's metadata back, as a well-behaved agent does.
    pub echo_metadata: bool,
    /// How many times it answers before it falls silent, so that a loop ends.
    pub at_most: u32,
}

/// One workspace.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) id: WorkspaceId,
    pub(super) name: String,
    pub(super) role: String,
    pub(super) tier: u64,
    pub(super) parent: Option<WorkspaceId>,
    pub(super) card: Option<Value>,
    pub(super) secret: String,
    pub(super) active_tasks: u64,
    pub(super) current_task: Option<String>,
    error_rate: f64,
    pub(super) sample_error: String,
    pub(super) uptime: u64,
    pub(super) last_heartbeat: Option<Micros>,
    pub(super) heartbeats: u64,
    pub(super) registrations: u64,
    pub(super) removed_at: Option<Micros>,
    pub(super) acked: u64,
    pub(super) talk_to_user: bool,
    pub(super) auto: Option<AutoAnswer>,
    pub(super) register_failed: Option<Micros>,
    pub(super) channels: Vec<SocialChannel>,
    /// Messages are pushed to it until it registers for the first time.
    pub(super) pushed_to: bool,
    /// Where its agent is called.
    pub(super) push_url: Option<String>,
    /// Calls that broke.
    pub(super) queue: Vec<PushCall>,
    status: Status,
}

impl Office {
    pub(super) fn new(name: &str, role: &str, tier: u64, parent: Option<WorkspaceId>) -> Self {
        Self {
            id: WorkspaceId::fresh(),
            name: name.to_owned(),
            role: role.to_owned(),
            tier,
            parent,
            card: None,
            secret: fresh_token(),
            active_tasks: 0,
            current_task: None,
            error_rate: 0.0,
            sample_error: String::new(),
            uptime: 0,
            last_heartbeat: None,
            heartbeats: 0,
            registrations: 0,
            removed_at: None,
            acked: 0,
            talk_to_user: true,
            auto: None,
            register_failed: None,
            channels: Vec::new(),
            pushed_to: false,
            push_url: None,
            queue: Vec::new(),
            status: Status::AwaitingAgent,
        }
    }

    /// Its status at this time, by the presence window.
    pub(super) fn status(&self, edition: Edition, now: Micros) -> Status {
        match self.status {
            Status::Online | Status::Degraded if self.is_silent(edition, now) => {
                Status::AwaitingAgent
            }
            status => status,
        }
    }

    /// As the platform writes numbers: without a fraction when there is none.
    pub(super) fn error_rate(&self) -> Value {
        match self.error_rate {
            0.0 => json!(0),
            rate => json!(rate),
        }
    }

    fn is_silent(&self, edition: Edition, now: Micros) -> bool {
        match self.last_heartbeat {
            Some(last) => last < now.before(edition.presence()),
            None => true,
        }
    }

    pub(super) fn pause(&mut self) {
        if self.status != Status::Removed {
            self.status = Status::Paused;
        }
    }

    pub(super) fn resume(&mut self) {
        if self.status == Status::Paused {
            self.status = Status::Provisioning;
        }
    }

    pub(super) fn remove(&mut self, now: Micros) {
        self.status = Status::Removed;
        self.removed_at.get_or_insert(now);
    }

    /// Somebody signed on.
    pub(super) fn registered(&mut self, edition: Edition, card: Value, now: Micros) {
        self.registrations += 1;
        self.register_failed = None;
        self.last_heartbeat = Some(now);
        self.card = Some(self.dressed(edition, card));
        self.show(Status::Online);
    }

    /// Somebody is there, with this to say.
    pub(super) fn beat(&mut self, edition: Edition, body: &Value, now: Micros) {
        let number = |key: &str| body.get(key).and_then(Value::as_u64).unwrap_or(0);
        self.heartbeats += 1;
        self.last_heartbeat = Some(now);
        self.active_tasks = number("active_tasks");
        self.uptime = number("uptime_seconds");
        self.error_rate = body
            .get("error_rate")
            .and_then(Value::as_f64)
            .unwrap_or(0.0);
        let error = body.get("sample_error").and_then(Value::as_str);
        self.sample_error = error.unwrap_or_default().to_owned();
        let task = body.get("current_task").and_then(Value::as_str);
        self.current_task = task.filter(|task| !task.is_empty()).map(str::to_owned);
        let remembered = match edition {
            Edition::Seed => false,
            Edition::New | Edition::August => self
                .register_failed
                .is_some_and(|failed| failed >= now.before(REGISTER_MEMORY)),
        };
        self.show(if remembered || self.error_rate >= DEGRADED_FROM {
            Status::Degraded
        } else {
            Status::Online
        });
    }

    /// A sign of life changes nothing for what was set aside or deleted.
    fn show(&mut self, status: Status) {
        match self.status {
            Status::Paused | Status::Removed => {}
            Status::AwaitingAgent | Status::Online | Status::Degraded | Status::Provisioning => {
                self.status = status;
            }
        }
    }

    fn dressed(&self, edition: Edition, mut card: Value) -> Value {
        if edition != Edition::Seed {
            let name = card.get("name").cloned().unwrap_or(Value::Null);
            if card.get("description").is_none() {
                put(&mut card, "description", name);
            }
            put(&mut card, "role", json!(self.role));
        }
        card
    }
}
