//! The Molecule channel against the platform in a box: that every row comes in once whatever the feed does, that every
//! reply is seen once whatever becomes of its answer, and what is said of both meanwhile.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod feed;
mod files;
mod once;
mod order;
mod outage;
mod presence;
mod sink;
mod stage;
mod tls;
