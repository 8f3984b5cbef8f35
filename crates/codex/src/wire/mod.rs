//! The messages of `codex app-server` that we use, with the names the real binary gives them.
//!
//! Readers are tolerant: unknown fields are ignored, unknown enum values are kept as `Other`, and
//! only a missing field that nothing works without fails a message. Writers are exact: Codex
//! ignores an unknown field without a word, so a wrong name would mean "asked for nothing".
//! No decisions here: what a turn amounts to belongs to [`crate::turn`].

mod accept;
pub mod account;
pub mod config;
pub mod effect;
pub mod error_info;
mod headline;
pub mod item;
pub mod method;
pub mod notification;
pub mod outcome;
pub mod request_text;
pub mod server_request;
pub mod thread;
pub mod turn;
pub mod values;

use serde::de::DeserializeOwned;

pub use item::Item;
pub use method::Method;
pub use notification::Notification;
pub use outcome::RequestOutcome;
pub use server_request::ServerRequest;
pub use thread::Thread;
pub use turn::Turn;

/// Is shown every type that reads a part of the protocol, together with its name there.
///
/// The check against the schema of an installed Codex walks our types through this, so a new type
/// cannot be forgotten: the same macro that makes Codex's name readable also shows the type.
pub trait ReaderVisitor {
    fn reader<T: DeserializeOwned>(&mut self, name: &'static str);
}
