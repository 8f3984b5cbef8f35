//! Codex's own ids, as newtypes: a turn id can not be handed over where a thread id belongs.
//!
//! Our ids (messages, conversations) do not belong here.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

ids! {
    /// A Codex thread; survives processes.
    ThreadId
    /// A turn; unique only together with its thread.
    TurnId
    /// An item of a turn, also the call id of a tool.
    ItemId
    /// What we put into `clientUserMessageId`; Codex stores it and gives it back as `clientId`.
    /// Codex does not deduplicate by it.
    ClientId
}
