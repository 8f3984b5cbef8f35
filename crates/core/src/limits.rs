//! Every numeric bound of the system, named and explained in one place.
//!
//! A bound that an operator may change is a default here and a key of `codex-bridge.toml`; the rest are
//! laws. Limits that belong to the wire of one peer (frame sizes, deadlines per method) live with that peer.

/// Codex refuses longer input (`input_too_large`), so we refuse it at the door, where the sender hears it.
pub const MESSAGE_MAX_CHARS: usize = 1_048_576;

/// Room that the bridge's own words may take in a turn's text, beside the message that they quote.
pub const OWN_WORDS_MAX_CHARS: usize = REASON_MAX_CHARS + 1_000;

/// Longest key a sender may choose for a conversation.
pub const CONVERSATION_KEY_MAX_CHARS: usize = 200;

/// Attempts a message may spend before it is buried. A claim spends one, also when the daemon dies under it, so
/// that a message which kills the daemon is buried; waits for capacity or an operator, and turns that Codex never
/// took, give it back.
pub const ATTEMPTS_MAX: u32 = 3;

/// How often a turn that may have touched the world is continued before a person must look at it.
pub const CONTINUES_MAX: u32 = 2;

/// Turns that run at the same time unless the operator says otherwise.
pub const TURNS_IN_FLIGHT_DEFAULT: u32 = 16;

/// Messages accepted and not yet finished; beyond it the door pushes back instead of dropping.
pub const BACKLOG_MAX: u32 = 10_000;

/// First wait before a turn is tried again; doubles each time, with full jitter.
pub const TURN_BACKOFF_BASE_MS: i64 = 2_000;
/// Longest wait between two tries of a turn.
pub const TURN_BACKOFF_MAX_MS: i64 = 15 * 60_000;

/// First wait before a reply is sent again.
pub const REPLY_BACKOFF_BASE_MS: i64 = 1_000;
/// Longest wait between two sends of one reply.
pub const REPLY_BACKOFF_MAX_MS: i64 = 60_000;
/// A reply that could not be delivered for this long is given up and kept as a dead letter.
pub const REPLY_AGE_MAX_MS: i64 = 24 * 3_600_000;

/// How soon a message that waits for the operator (no login, broken config) is looked at again by default.
pub const CONFIG_PROBE_MS: i64 = 15_000;
/// A message that waited this long for an operator or for capacity becomes a dead letter.
pub const HELD_AGE_MAX_MS: i64 = 7 * 24 * 3_600_000;

/// A person at a terminal is kept waiting for capacity only if it is expected back within this time.
pub const WAIT_WORTHWHILE_MS: i64 = 2 * 60_000;

/// How soon a lost turn is looked at again when the look itself failed.
pub const RECONCILE_RETRY_MS: i64 = 2_000;

/// Item-level events kept per message; later ones are counted, not kept.
pub const EVENTS_PER_MESSAGE_MAX: u32 = 500;
/// Longest text of one item-level event.
pub const EVENT_TEXT_MAX_CHARS: usize = 500;

/// Longest reason stored with a failure.
pub const REASON_MAX_CHARS: usize = 2_000;

/// Longest payload of a question that is kept; Codex's own limit on a text.
pub const REQUEST_PAYLOAD_MAX_CHARS: usize = MESSAGE_MAX_CHARS;

/// Hard bound on rows that one read returns.
pub const PAGE_MAX: u32 = 500;

/// Cuts `text` to at most `max` characters, marking the cut.
#[must_use]
pub fn clip(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
