//! Other agents over A2A: the channel that their messages come in by, and how we call them and tell them.

mod arrive;
pub mod client;
pub mod push;

pub use arrive::{Inbound, arrive, conversation_key, external_id, key_id};

/// The channel's id in the ledger.
pub const CHANNEL: &str = bridge_core::channels::A2A;
