//! Platforms that messages come from and replies go to, one module each.
//!
//! A channel turns what its platform shows into an [`Arrival`] for the [`Inbox`], and takes replies through
//! [`bridge_core::port::Sink`]. It never decides what happens to a message, and channels never name each other;
//! [`Channels`] sends each reply to its own.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod a2a;
mod fault;
pub mod files;
pub mod guard;
mod hook;
mod http;
mod inbox;
pub mod local;
pub mod molecule;
pub mod notify;
mod poll;
mod router;
pub mod task;

pub use inbox::{Activity, Arrival, Inbox, IntakeStatus, Page, PastReply, Refusal};
pub use router::Channels;
