//! Tasks as a channel: their texts come in through the control surfaces, and their answers are read there, so there is
//! nothing to send. Each task is a conversation of its own.

use crate::inbox::{Arrival, Refusal, check_text};
use bridge_core::step::{Extras, Verdict};
use bridge_core::value::{ChannelId, ExternalId, SenderKind, TaskId, Tier};

/// The channel's id in the ledger.
pub const CHANNEL: &str = bridge_core::channels::TASK;

/// Checks a text for a task: its prompt, or more of it.
pub fn arrive(
    task_id: &TaskId,
    text: String,
    external_id: ExternalId,
    sender: String,
) -> Result<Arrival, Refusal> {
    check_text(&text)?;
    Ok(Arrival {
        channel: ChannelId::new(CHANNEL),
        conversation: task_id.to_string(),
        external_id,
        // The caller that starts a task waits for its answer.
        kind: SenderKind::Person,
        sender,
        tier: Tier::Tool,
        body: text,
        verdict: Verdict::Fit,
        extras: Extras::default(),
    })
}
