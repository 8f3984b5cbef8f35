//! The real Codex against the scripted model: every wire shape the model uses is one that
//! Codex accepts, and what Codex makes of it is pinned here.
//! Needs the Codex binary, see `bridge_sim::codex_for_tests`; needs no network.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod app_server;
mod exec;
mod home;
