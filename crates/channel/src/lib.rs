//! Platforms that messages come from and replies go to, one module each.
//!
//! A channel turns what its platform shows into [`bridge_core::step::Receive`] and takes replies through
//! [`bridge_core::port::Sink`]. It never decides what happens to a message, and channels never name each other.

pub mod local;
