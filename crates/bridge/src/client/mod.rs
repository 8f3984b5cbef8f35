//! The command line's side of `api.sock`: find the running daemon, ask it, follow a message through restarts.

mod api;
mod progress;
mod send;
mod show;
mod sse;

pub(crate) use api::ApiClient;
pub(crate) use progress::Progress;
pub(crate) use send::{Outcome, SendOptions, Sender, send};
pub(crate) use show::{show, status, why};
