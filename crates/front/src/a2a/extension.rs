//! Our extensions of A2A: URIs and metadata keys. None is required of a client.

use a2a::AgentExtension;

/// Idempotent sending. The key is in the message's metadata under this name, or in the header `Idempotency-Key`.
pub(crate) const IDEMPOTENCY: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#idempotency";
/// An open question of Codex is a data part whose metadata names this.
pub(crate) const QUESTIONS: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#questions";
/// Number of agents that answered each other before this message.
pub(crate) const HOPS: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#hops";
/// A subscriber that asks for this and names its last event gets the events after it instead of a snapshot.
pub(crate) const RESUME: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#resume";

/// Metadata key of the hop count; the same on every channel between agents.
pub(crate) const HOPS_KEY: &str = "codex_bridge_hops";
/// Metadata key of an event's sequence number.
pub(crate) const SEQUENCE_KEY: &str = "codex-bridge/sequence";
/// Metadata key of the extension that a data part follows.
pub(crate) const EXTENSION_KEY: &str = "codex-bridge/extension";

/// The extensions as the card declares them.
pub(crate) fn declared() -> Vec<AgentExtension> {
    [
        (
            IDEMPOTENCY,
            "A message with the same key again is the same message: the header Idempotency-Key, or this URI in its metadata.",
        ),
        (
            QUESTIONS,
            "What Codex asks is a data part of the task's status: requestId, headline, questions.",
        ),
        (
            HOPS,
            "codex_bridge_hops in a message's metadata says how many agents answered each other before it.",
        ),
        (
            RESUME,
            "SubscribeToTask with the header Last-Event-ID begins behind that event instead of with the task, also when the task is just over.",
        ),
    ]
    .into_iter()
    .map(|(uri, description)| AgentExtension {
        uri: uri.to_owned(),
        description: Some(description.to_owned()),
        required: Some(false),
        params: None,
    })
    .collect()
}
