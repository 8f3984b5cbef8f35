//! The card for callers that we know.

use super::Call;
use crate::Desk;
use crate::a2a::card;
use serde_json::Value;

pub(super) fn extended<D: Desk>(call: &Call<D>) -> Value {
    card::extended(&call.context.desk.a2a(), &call.base, &call.caller)
}
