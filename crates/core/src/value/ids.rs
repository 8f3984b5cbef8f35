//! Newtypes for every identifier, so that two ids can't be mixed up and no bare `String` travels as one.
//!
//! Ids are made at the edges (they need randomness) and only carried here; the exceptions are derived from
//! other ids: a turn's client id, a reply's key, and what stands for the names that `codex exec` gives late or never.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an id that an edge made or read.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as text, for storing, sending and showing.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text_id! {
    /// One daemon of a fleet; the same for all its openings of the ledger.
    NodeId;
    /// A channel: one connected platform account, or `local`.
    ChannelId;
    /// The ordering unit on a channel; bound to one Codex thread.
    ConversationId;
    /// One inbound message, ours (UUIDv7).
    MessageId;
    /// The platform's own id of a message: the key that makes a row shown twice one message.
    ExternalId;
    /// Codex's thread; survives processes.
    ThreadId;
    /// Codex's turn; unique only together with its thread.
    TurnId;
    /// Codex's item inside a turn, also the call id of a tool.
    ItemId;
    /// One life of one Codex process.
    IncarnationId;
    /// One boot of this machine: Codex does not fsync, so a reboot changes what its history proves.
    BootId;
    /// Known to the outside for one approval request of Codex; unguessable.
    RequestId;
    /// A task; `codex-` and twelve digits for one that was started here, a UUIDv7 for one of another agent.
    TaskId;
    /// What we send as `clientUserMessageId`: Codex gives it back after a crash.
    ClientId;
    /// Somebody who is alerted: a browser, or a target of the configuration.
    ReceiverId;
    /// Identity of one outbound piece, the same for every try.
    ReplyKey;
    /// One loan of a conversation to a Codex terminal (UUIDv7, made by whoever asks for it).
    LoanId;
}

impl ClientId {
    /// The client id of one attempt. Codex does not dedupe on it: it is an oracle, not a lock.
    #[must_use]
    pub fn of(message_id: &MessageId, attempt: u32) -> Self {
        Self(format!("{message_id}.{attempt}"))
    }

    /// The message whose attempt it names, if it has the form of ours.
    #[must_use]
    pub fn message_id(&self) -> Option<MessageId> {
        let (message_id, attempt) = self.0.rsplit_once('.')?;
        attempt.parse::<u32>().ok()?;
        Some(MessageId::new(message_id))
    }
}

/// What begins the ids that stand for names of a run of `codex exec`. Codex's own ids are UUIDs and never begin so.
const RUN_PREFIX: &str = "exec-";
/// Stands in a row in the place of a thread that retention took.
const PRUNED: &str = "pruned";

impl IncarnationId {
    /// The life of the process that runs one attempt over `codex exec`: a process for every turn.
    #[must_use]
    pub fn of_run(client_id: &ClientId) -> Self {
        Self(format!("{RUN_PREFIX}{client_id}"))
    }

    /// Whether it is a run of `codex exec`, which takes no client id: the end of its turn is found in another way.
    #[must_use]
    pub fn is_run(&self) -> bool {
        self.0.starts_with(RUN_PREFIX)
    }
}

impl TurnId {
    /// Stands for the turn of a run: `codex exec` does not tell its id.
    #[must_use]
    pub fn of_run(client_id: &ClientId) -> Self {
        Self(format!("{RUN_PREFIX}{client_id}"))
    }

    /// Whether it is such a stand-in.
    #[must_use]
    pub fn is_run(&self) -> bool {
        self.0.starts_with(RUN_PREFIX)
    }
}

impl ThreadId {
    /// Stands for the thread of a run until Codex names it, so that the intent can be on disk before the run begins.
    #[must_use]
    pub fn unnamed(unique: &str) -> Self {
        Self(format!("{RUN_PREFIX}{unique}"))
    }

    /// Whether Codex has not named it yet.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        self.0.starts_with(RUN_PREFIX)
    }

    /// Stands for a thread that retention took from its conversation, until Codex has deleted it.
    #[must_use]
    pub fn pruned(&self) -> Self {
        Self(format!("{PRUNED}-{self}"))
    }

    /// Stands for it from then on, until the conversation has a new one.
    #[must_use]
    pub fn deleted() -> Self {
        Self(PRUNED.to_owned())
    }

    /// Whether it is one of these stand-ins.
    #[must_use]
    pub fn is_pruned(&self) -> bool {
        self.0 == PRUNED || self.of_pruned().is_some()
    }

    /// The thread that Codex has yet to delete, if this stands for one.
    #[must_use]
    pub fn of_pruned(&self) -> Option<Self> {
        let thread = self.0.strip_prefix(PRUNED)?.strip_prefix('-')?;
        Some(Self(thread.to_owned()))
    }
}

impl ReplyKey {
    /// The key of one reply: from the message's identity, never from its text, because two replies "ok"
    /// are two replies.
    #[must_use]
    pub fn of(message_id: &MessageId, ordinal: u32) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"reply");
        hash.update(message_id.as_str());
        hash.update(ordinal.to_be_bytes());
        Self(HEXLOWER.encode(&hash.finalize()[..16]))
    }
}

impl ReceiverId {
    /// The id of a browser's endpoint or a configured target, which may hold a secret and can't be found out from it.
    #[must_use]
    pub fn of(kind: &str, place: &str) -> Self {
        let hash = Sha256::digest(place.as_bytes());
        Self(format!("{kind}-{}", HEXLOWER.encode(&hash[..12])))
    }
}

/// Position of a message in its conversation, given at receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub i64);

/// A round of service: each sender has one waiting message per round, so that nobody waits behind somebody
/// else's heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round(pub i64);

impl Round {
    /// The round after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The daemon's boot number on its state directory; every write is fenced by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_keys_come_from_identity() {
        let one = MessageId::new("m1");
        assert_eq!(ReplyKey::of(&one, 0), ReplyKey::of(&one, 0));
        assert_ne!(ReplyKey::of(&one, 0), ReplyKey::of(&one, 1));
        assert_ne!(
            ReplyKey::of(&one, 0),
            ReplyKey::of(&MessageId::new("m2"), 0)
        );
        assert_eq!(ReplyKey::of(&one, 0).as_str().len(), 32);
    }
}
