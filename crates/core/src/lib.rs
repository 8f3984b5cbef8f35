//! The heart of codex-bridge, pure: what things are called, what is decided about a message's life,
//! and the ports that the edges implement.
//!
//! Nothing here knows Codex's JSON, a platform or SQL, and nothing here acts: `now`, ids and randomness
//! are arguments, effects are returned as values. Read in this order: [`value`] (the nouns), [`step`]
//! (transitions by phase), [`port`] (what the edges provide), [`why`] (explanations for people).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod alerts;
pub mod budget;
pub mod channels;
pub mod deadline;
pub mod find;
#[cfg(test)]
mod fixture;
pub mod limits;
pub mod outcome;
pub mod phase;
pub mod port;
pub mod prompt;
pub mod quota;
pub mod requester;
pub mod retry;
pub mod rules;
pub mod secrets;
pub mod show;
pub mod step;
pub mod storage;
pub mod task;
pub mod task_events;
pub mod trace;
pub mod value;
pub mod why;
