//! Calling another agent over A2A: find its card, choose an interface that the card names, say something, and wait for
//! the end of what that began. Who may be called, and what is made of the answer, is the caller's business; serving A2A
//! is `bridge-front`'s.

mod ask;
mod card;
mod dialect;
mod fault;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod read;
mod sse;
mod tale;
mod wire;

pub use ask::{AgentQuestion, Ask, AskPatience, AskProgress};
pub use fault::AgentCallError;
pub use read::{File, FileLocation, State};
pub use tale::AskOutcome;
pub use wire::{AgentClient, Peer, Trust, token_in};

/// Sending twice with the same key is sending once, where the card says so.
pub const IDEMPOTENCY: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#idempotency";
/// A question of Codex that a task waits for is a data part.
const QUESTIONS: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#questions";
/// How many agents answered each other before a message.
const HOPS: &str = "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#hops";
/// Where that number is in a message's metadata; the same name on every channel between agents.
const HOPS_KEY: &str = "codex_bridge_hops";

#[cfg(test)]
mod tests;
