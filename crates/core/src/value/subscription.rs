//! Subscriptions: whom to tell of the events of a task, and how far that is.

use super::{TaskId, Timestamp};
use std::fmt;

/// One subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The task.
    pub task_id: TaskId,
    /// Its name within the task: an owner's push configuration has its own, a notification [`Subscription::END`].
    pub subscription_id: String,
    /// Who gets which events.
    pub target: SubscriptionTarget,
    /// How far it is.
    pub state: SubscriptionState,
    /// The last event that was delivered; `None` before the first.
    pub mark: Option<String>,
    /// Tries of the present event.
    pub tries: u32,
    /// When the first of them began.
    pub first_try_at: Option<Timestamp>,
    /// Why the newest try failed.
    pub error: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Subscription {
    /// The id of the notification of a task's end.
    pub const END: &'static str = "end";
    /// The target of a notification that waits here until somebody asks for it.
    pub const LOCAL: &'static str = "local";

    /// The notification of a started task's end. Nobody is notified without a target: such a row records that a person was
    /// shown the end, which happens once.
    #[must_use]
    pub fn of_end(task_id: TaskId, target: Option<String>, created_at: Timestamp) -> Self {
        Self {
            task_id,
            subscription_id: Self::END.to_owned(),
            state: match target {
                Some(_) => SubscriptionState::Waiting { not_before: None },
                None => SubscriptionState::Closed { at: created_at },
            },
            target: match target {
                Some(target) => SubscriptionTarget::Notify(target),
                None => SubscriptionTarget::Nobody,
            },
            mark: None,
            tries: 0,
            first_try_at: None,
            error: None,
            created_at,
        }
    }

    /// Whether nobody is sent anything: whoever asks for it is notified, once.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.notify().map(str::trim) == Some(Self::LOCAL)
    }

    /// Where A2A push notifications go, if it is one of them.
    #[must_use]
    pub fn push(&self) -> Option<&PushTarget> {
        match &self.target {
            SubscriptionTarget::Push(push) => Some(push),
            SubscriptionTarget::Nobody | SubscriptionTarget::Notify(_) => None,
        }
    }

    /// The target of a notification, if it is one.
    #[must_use]
    pub fn notify(&self) -> Option<&str> {
        match &self.target {
            SubscriptionTarget::Notify(target) => Some(target),
            SubscriptionTarget::Nobody | SubscriptionTarget::Push(_) => None,
        }
    }
}

/// Receiver of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionTarget {
    /// Nobody.
    Nobody,
    /// The row itself, a webhook, a command or a workspace, by name: gets the end of the task.
    Notify(String),
    /// A receiver of A2A push notifications: gets every event.
    Push(PushTarget),
}

/// Where an A2A push notification goes.
#[derive(Clone, PartialEq, Eq)]
pub struct PushTarget {
    /// The receiver's address.
    pub url: String,
    /// Sent along, so that the receiver knows us.
    pub token: Option<String>,
    /// Scheme and credentials of the Authorization header.
    pub authorization: Option<(String, String)>,
    /// Address and credentials are in the ledger and can't be decrypted, so nothing may be sent.
    pub unreadable: bool,
    /// The protocol version it was asked for in.
    pub version: String,
}

impl fmt::Debug for PushTarget {
    /// Without address and credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushTarget")
            .field("unreadable", &self.unreadable)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// How far a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionState {
    /// It waits for an event, or for the next try.
    Waiting {
        /// Not before this.
        not_before: Option<Timestamp>,
    },
    /// A send was begun; its outcome is not known.
    Sending,
    /// The end was delivered; nothing more comes.
    Closed {
        /// When.
        at: Timestamp,
    },
    /// It was given up.
    Dead {
        /// When.
        at: Timestamp,
    },
}

impl SubscriptionState {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Sending => "sending",
            Self::Closed { .. } => "closed",
            Self::Dead { .. } => "dead",
        }
    }

    /// Whether something may still be delivered.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Sending)
    }

    /// Whether everything was delivered.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}
