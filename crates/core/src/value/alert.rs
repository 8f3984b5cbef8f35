//! Alerts: who receives open questions, failures and ends of tasks, and how far each alert is.

use super::{ConversationId, ReceiverId, Timestamp};
use std::fmt;

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertKind {
    /// Codex asks something, and somebody must decide.
    Question,
    /// A message that a person must look at: dead, or parked.
    Failure,
    /// A task that was started here has ended.
    Task,
}

words!(AlertKind { Question => "question", Failure => "failure", Task => "task" });

/// How much of it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertDetail {
    /// Its kind and our own ids: nothing that Codex or a sender wrote.
    Hint,
    /// The first line of it, too.
    Headline,
}

words!(AlertDetail { Hint => "hint", Headline => "headline" });

/// Somebody who is alerted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    pub receiver_id: ReceiverId,
    /// The browser; `None` for a target of the configuration, which says where it is.
    pub device: Option<PushDevice>,
    pub about: Vec<AlertKind>,
    pub detail: AlertDetail,
    /// Why the newest alert was not taken.
    pub error: Option<String>,
    /// Nothing from before is sent.
    pub created_at: Timestamp,
}

/// A browser that takes Web Push, for as long as its session lives.
#[derive(Clone, PartialEq, Eq)]
pub struct PushDevice {
    /// The name of the console's session.
    pub session: String,
    /// The push service's address. Whoever knows it can send there.
    pub endpoint: String,
    /// The browser's public key, in base64url.
    pub p256dh: String,
    /// The secret shared with the browser, in base64url.
    pub auth: String,
    /// Address and keys are in the ledger and can't be decrypted, so nothing may be sent.
    pub unreadable: bool,
}

impl fmt::Debug for PushDevice {
    /// Without address and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushDevice")
            .field("session", &self.session)
            .field("unreadable", &self.unreadable)
            .finish_non_exhaustive()
    }
}

/// The key pair by which push services know this bridge (VAPID): PKCS #8 in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct PushKey(pub String);

impl fmt::Debug for PushKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushKey")
    }
}

/// Which question, message or task; with its receiver the key of an alert.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlertSubject {
    pub kind: AlertKind,
    /// The id of the request, message or task.
    pub id: String,
}

/// One alert of one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    pub receiver_id: ReceiverId,
    pub subject: AlertSubject,
    /// The node that has this conversation sends.
    pub conversation_id: ConversationId,
    /// Which event of the subject: [`Alert::ASKED`], [`Alert::SETTLED`], or a name of this failure or end.
    pub mark: String,
    pub state: AlertState,
    /// It was, or is being, sent as one of many in one summary.
    pub summed: bool,
    pub tries: u32,
    /// When the first of them began.
    pub first_try_at: Option<Timestamp>,
    /// When the newest of them began.
    pub tried_at: Option<Timestamp>,
    /// When it was noticed.
    pub created_at: Timestamp,
}

impl Alert {
    /// The mark of a question that waits.
    pub const ASKED: &'static str = "asked";
    /// The mark of a question that was settled: what was shown of it disappears.
    pub const SETTLED: &'static str = "settled";

    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.mark == Self::SETTLED
    }
}

/// How far an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertState {
    /// It is to be sent.
    Waiting {
        /// Not before this.
        not_before: Option<Timestamp>,
    },
    /// A send was begun; its outcome is not known.
    Sending,
    /// It was sent, and is taken back once its question is settled.
    Shown,
    /// Nothing more is sent of this mark.
    Over,
}

state_names!(
    /// A state without its data.
    AlertStateName of AlertState {
        Waiting => "waiting",
        Sending => "sending",
        Shown => "shown",
        Over => "over",
    }
);
