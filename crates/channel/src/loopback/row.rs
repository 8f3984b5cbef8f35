//! One row of the inbox, read by itself: a message, a dead letter, or nothing that could be either.

use super::wire::Row;
use super::{CHANNEL, Settings};
use crate::inbox::{Arrival, check_key, check_text};
use bridge_core::limits::clip;
use bridge_core::step::{Extras, Verdict};
use bridge_core::value::{ChannelId, ExternalId};
use serde_json::Value;

/// What stands between a row's id and its conversation in our external id.
const AT: char = '@';
/// How much of a row that is no message is kept with its dead letter.
const KEPT_MAX_CHARS: usize = 4_000;
/// The conversation of dead letters that name none.
const NOWHERE: &str = "(malformed)";

/// Where a message came from on the platform, and where its replies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    pub(super) row: &'a str,
    pub(super) conversation: &'a str,
}

impl<'a> Address<'a> {
    /// As it is kept in the ledger: a reply must find its way after any restart, by the message alone.
    fn external_id(self) -> ExternalId {
        ExternalId::new(format!("{}{AT}{}", self.row, self.conversation))
    }

    pub(super) fn of(id: &'a ExternalId) -> Option<Self> {
        let (row, conversation) = id.as_str().split_once(AT)?;
        Some(Self { row, conversation })
    }
}

/// Reads a row; or says why nothing can be kept of it.
pub(super) fn read(value: &Value, settings: &Settings) -> Result<Arrival, String> {
    let row: Row = match serde_json::from_value(value.clone()) {
        Ok(row) => row,
        Err(error) => return unfit(value, &format!("it can't be read ({error})"), settings),
    };
    check_id(&row.row)?;
    if let Err(refusal) = check_key(&row.conversation) {
        return unfit(value, &refusal.to_string(), settings);
    }
    let verdict = match check_text(&row.text) {
        Ok(()) => Verdict::Fit,
        Err(refusal) => Verdict::Unfit {
            reason: refusal.to_string(),
            tell: true,
        },
    };
    let body = match &verdict {
        Verdict::Fit => row.text,
        Verdict::Unfit { .. } => clip(&row.text.replace('\0', "\u{fffd}"), KEPT_MAX_CHARS),
    };
    let address = Address {
        row: &row.row,
        conversation: &row.conversation,
    };
    Ok(arrival(address, row.sender, body, verdict, settings))
}

/// A row that is no message becomes a dead letter, so that it is seen once and harms no other.
fn unfit(value: &Value, why: &str, settings: &Settings) -> Result<Arrival, String> {
    let row = value.get("row").and_then(Value::as_str).unwrap_or_default();
    check_id(row).map_err(|_| why.to_owned())?;
    let address = Address {
        row,
        conversation: NOWHERE,
    };
    let verdict = Verdict::Unfit {
        reason: format!("the platform showed a row that is no message: {why}"),
        // There is nobody to tell: the row names no place where an answer could go.
        tell: false,
    };
    let body = clip(&value.to_string(), KEPT_MAX_CHARS);
    Ok(arrival(address, String::new(), body, verdict, settings))
}

fn check_id(row: &str) -> Result<(), String> {
    match check_key(row) {
        Ok(()) if !row.contains(AT) => Ok(()),
        Ok(()) | Err(_) => Err(format!("{:?} can't be a row's id", clip(row, 40))),
    }
}

fn arrival(
    address: Address<'_>,
    sender: String,
    body: String,
    verdict: Verdict,
    settings: &Settings,
) -> Arrival {
    Arrival {
        channel: ChannelId::new(CHANNEL),
        conversation: address.conversation.to_owned(),
        external_id: address.external_id(),
        kind: settings.kind,
        sender,
        tier: settings.tier,
        body,
        verdict,
        extras: Extras::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::SinkClass;
    use bridge_core::value::{SenderKind, Tier};
    use serde_json::json;

    fn read(value: &Value) -> Result<Arrival, String> {
        let settings = Settings {
            url: String::new(),
            class: SinkClass::Idempotent,
            tier: Tier::Peer,
            kind: SenderKind::Agent,
        };
        super::read(value, &settings)
    }

    #[test]
    fn row_becomes_message_with_reply_address() {
        let row =
            json!({"row": "r7", "conversation": "a@b", "sender": "ann", "text": "hi", "new": 1});
        let arrival = read(&row).unwrap();
        assert_eq!(arrival.body, "hi");
        assert_eq!(
            (arrival.kind, arrival.tier),
            (SenderKind::Agent, Tier::Peer)
        );
        assert_eq!(arrival.verdict, Verdict::Fit);
        let address = Address::of(&arrival.external_id).unwrap();
        assert_eq!((address.row, address.conversation), ("r7", "a@b"));
    }

    #[test]
    fn invalid_row_becomes_dead_letter() {
        for (row, told) in [
            (
                json!({"row": "r1", "conversation": "a", "sender": "s", "text": " "}),
                true,
            ),
            (
                json!({"row": "r1", "conversation": "a", "sender": "s", "text": "a\0b"}),
                true,
            ),
            (
                json!({"row": "r1", "conversation": "a", "sender": "s", "text": 7}),
                false,
            ),
            (
                json!({"row": "r1", "conversation": "a\n", "sender": "s", "text": "hi"}),
                false,
            ),
            (json!({"row": "r1"}), false),
        ] {
            let arrival = read(&row).unwrap();
            let Verdict::Unfit { tell, .. } = arrival.verdict else {
                panic!("{row} is fit");
            };
            assert_eq!(tell, told, "{row}");
            assert!(!arrival.body.contains('\0'));
            assert_eq!(Address::of(&arrival.external_id).unwrap().row, "r1");
        }
    }

    #[test]
    fn row_without_valid_id_is_rejected() {
        for row in [
            json!(null),
            json!("nonsense"),
            json!({"row": 7}),
            json!({"row": ""}),
            json!({"row": "a@b", "conversation": "a", "sender": "s", "text": "hi"}),
        ] {
            assert!(read(&row).is_err(), "{row}");
        }
    }
}
