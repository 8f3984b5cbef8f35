//! The names of what we add to A2A: extension URIs and metadata keys. Nothing here is required of a client.

use a2a::AgentExtension;

/// Sending twice with the same key is sending once. The key is in the message's metadata under this name, or in the
/// header `Idempotency-Key`.
pub(crate) const IDEMPOTENCY: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#idempotency";
/// A question of Codex that a task waits for is a data part whose metadata names this.
pub(crate) const QUESTIONS: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#questions";
/// How many agents answered each other before this message.
pub(crate) const HOPS: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#hops";
/// Whoever asks for this and names the last event that it has is told what came behind it, and no snapshot.
pub(crate) const RESUME: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#resume";

/// Where the hop count is in a message's metadata; the same name on every channel between agents.
pub(crate) const HOPS_KEY: &str = "codex_bridge_hops";
/// Where a stream event has its number, in its metadata.
pub(crate) const SEQUENCE_KEY: &str = "codex-bridge/sequence";
/// Where a part of an answer names the extension that its data follows.
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
