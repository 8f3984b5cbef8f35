//! The Molecule platform in a box, as an HTTP client sees it: what the recordings do not hold, and every fault.
//! Every wait here is for an event of the platform itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod august;
mod faults;
mod feed;
mod guards;
mod late;
mod presence;
mod rig;
mod sending;
mod stream;
