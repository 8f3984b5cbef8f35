//! Which message a row carries, so that one message is taken in once however many rows carry it.
//!
//! A platform stores a message in two rows until its workspace registered for the first time, and its oldest edition
//! stores it once per try of its sender. The rows differ in their ids and have the same `messageId` of the same sender.

use crate::inbox::Arrival;
use crate::molecule::wire::{Row, field};
use bridge_core::value::ExternalId;
use serde::Deserialize;
use uuid::Uuid;

/// Namespace of the ids of messages; changing it would take in again what is shown again after an upgrade.
const MESSAGES: Uuid = Uuid::from_u128(0x2f6d_0c1b_7a94_4e53_9b1c_63d8_e5f0_a7c2);

#[derive(Deserialize)]
struct RowBody {
    params: RowParams,
}

#[derive(Deserialize)]
struct RowParams {
    message: RowMessage,
}

#[derive(Deserialize)]
struct RowMessage {
    #[serde(rename = "messageId")]
    message_id: String,
}

/// Names an arrival by its sender and `messageId` instead of by its row. The row's id stays known as the former id:
/// versions that knew no other stored messages under it.
pub(crate) fn assign(arrival: &mut Arrival, row: &Row) {
    // Nobody's rows have no sender in whose name an id could be unique.
    if arrival.sender.is_empty() {
        return;
    }
    let Some(message_id) = message_id(row) else {
        return;
    };
    let external_id = external_id(&arrival.sender, &message_id);
    arrival.extras.former_id = Some(std::mem::replace(&mut arrival.external_id, external_id));
}

pub(crate) fn message_id(row: &Row) -> Option<String> {
    let body: RowBody = field(row.request_body.as_deref()).ok().flatten()?;
    let id = body.params.message.message_id;
    (!id.trim().is_empty()).then_some(id)
}

/// A digest, so that the length is bounded whatever a sender chooses. The sender is part of it: nobody's message is
/// taken for somebody else's because it has the same id.
fn external_id(sender: &str, message_id: &str) -> ExternalId {
    // The length keeps `ab` + `c` and `a` + `bc` apart.
    let name = format!("{}:{sender}{message_id}", sender.len());
    let digest = Uuid::new_v5(&MESSAGES, name.as_bytes());
    ExternalId::new(format!("message:{}", digest.hyphenated()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d2_ids_belong_to_their_sender() {
        let ids = [
            external_id("canvas", "1"),
            external_id("canvas", "2"),
            external_id("peer", "1"),
            external_id("canvas1", ""),
            external_id("1", "canvas"),
            external_id("canvas", &"1".repeat(100_000)),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert!(ids.iter().all(|id| id.as_str().len() == 44));
        assert_eq!(external_id("canvas", "1"), ids[0]);
    }

    #[test]
    fn d2_odd_message_ids_are_none() {
        for body in [
            serde_json::json!(null),
            serde_json::json!([]),
            serde_json::json!({"params": []}),
            serde_json::json!({"params": {"messageId": "1"}}),
            serde_json::json!({"params": {"message": {"messageId": 7}}}),
            serde_json::json!({"params": {"message": {"messageId": null}}}),
            serde_json::json!({"params": {"message": {"messageId": " "}}}),
        ] {
            let raw = serde_json::json!({"id": "r1", "request_body": body}).to_string();
            let raw = serde_json::value::RawValue::from_string(raw).unwrap();
            assert_eq!(message_id(&Row::split(&raw)), None, "{body}");
        }
    }
}
