//! What others call: the HTTP API, today on `api.sock` for the local owner.
//!
//! Fronts read the ledger and hand what comes in to the [`Desk`]; they never decide about a message and never
//! talk to Codex. JSON forms live here and nowhere else.

pub mod api;
mod desk;
mod hub;
mod view;

pub use desk::{Desk, Health, NewMessage, SubmitError, Submitted};
pub use hub::{Hub, Live, Subscription};
pub use view::{
    AnswerView, EventView, FailureView, HealthView, HoldView, LedgerView, MessageList, MessageView,
    Problem, RequestView, StatusView, SubmitRequest, SubmitResponse, TextView, WhyView,
};
