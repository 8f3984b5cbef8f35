//! The card for callers that we know.

use super::Call;
use crate::BridgeService;
use crate::a2a::card;
use serde_json::Value;

pub(super) fn extended<D: BridgeService>(call: &Call<D>) -> Value {
    card::extended(&call.context.service.a2a(), &call.base, &call.caller)
}
