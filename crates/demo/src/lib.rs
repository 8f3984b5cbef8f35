//! The commands `demo` and `drill`: the whole bridge on one machine, with a scripted model and a platform in a box.
//!
//! The simulators are in `bridge_sim`. The binary links this crate behind its feature `demo`.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod args;
mod client;
mod demo;
mod drill;

pub use args::{DemoArgs, DrillArgs, DrillSink, DrillTransport};
pub use client::DemoClient;
pub use demo::run as demo;
pub use drill::run as drill;
