//! Calling another agent over A2A: find its card, choose an interface that the card names, say something, and wait for
//! the end of what that began. Who may be called, and what is made of the answer, is the caller's business; serving A2A
//! is `bridge-front`'s.

mod agent;
mod answer;
mod call;
mod card;
mod dialect;
mod error;
mod event;
#[cfg(feature = "fuzz")]
pub mod fuzz;

pub use agent::{AgentClient, RemoteAgent, Trust, read_token};
pub use answer::AgentAnswer;
pub use call::{AgentQuestion, AnswerWait, CallProgress, RemoteCall};
pub use error::AgentCallError;
pub use event::{AgentFile, AgentTaskState, FileLocation};

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
