//! MCP from outside: the built binary over stdio and over HTTP, called by a client of the official SDK, by the MCP
//! Inspector and by the official conformance suite. What its tools do to tasks is proved elsewhere; here it is called.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod ancestor;
mod conformance;
mod daemon;
mod hermes;
mod http;
mod inspector;
mod kit;
mod rig;
mod wait;

#[path = "../suite/world.rs"]
#[allow(
    dead_code,
    reason = "the rig of the whole suite; not all of it is used here"
)]
mod world;
