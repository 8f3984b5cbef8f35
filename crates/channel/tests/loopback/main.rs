//! The loopback channel against the recording platform: what every failure is taken for, and that nothing shown is
//! lost or taken twice.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod sink;
mod source;
mod stage;
