//! What kind of failure an edge met: the one question every edge error answers for the core.
//!
//! "It may have happened" is a value of its own. What each class does is decided in `step/turn` for turns and in
//! `step/reply.rs` for replies, not here.

use super::Timestamp;

/// The class of a failure at an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// It did not happen and may work later.
    Transient,
    /// Somebody's limit was reached; it burns no attempt.
    Capacity {
        /// When the other side said it is worth trying again.
        until: Option<Timestamp>,
    },
    /// An operator must mend something (login, configuration).
    Config,
    /// It will never work for this message.
    Permanent,
    /// It may have happened: look before trying again.
    Ambiguous,
    /// An invariant of ours broke.
    Bug,
}

impl Class {
    /// The word that is stored and shown.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Capacity { .. } => "capacity",
            Self::Config => "config",
            Self::Permanent => "permanent",
            Self::Ambiguous => "ambiguous",
            Self::Bug => "bug",
        }
    }
}

/// A failure with its class and a reason that a person can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it means for the message.
    pub class: Class,
    /// What happened and what to do, as a sentence without secrets.
    pub reason: String,
}

impl Failure {
    /// A failure with its reason cut to the stored length.
    pub fn new(class: Class, reason: impl AsRef<str>) -> Self {
        Self {
            class,
            reason: crate::limits::clip(reason.as_ref(), crate::limits::REASON_MAX_CHARS),
        }
    }
}
