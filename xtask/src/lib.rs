//! Chores of this repository: set up what the tests need, run what CI runs, and hold
//! the tree to its own rules.
//!
//! Nothing that ships belongs here. `tidy` is a library so that its tests can run it
//! on made-up trees.

pub mod a2a;
pub mod bench;
pub mod ci;
pub mod cli;
pub mod dist;
pub mod kits;
pub mod matrix;
pub mod pictures;
mod report;
pub mod tidy;
pub mod tools;
