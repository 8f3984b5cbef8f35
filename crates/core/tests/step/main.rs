//! Transitions over rows in memory.

#[cfg(test)]
use bridge_core::value;

#[cfg(test)]
#[allow(dead_code, reason = "the library's own tests use all of it")]
#[path = "../../src/fixture.rs"]
mod fixture;
#[cfg(test)]
mod name;
#[cfg(test)]
mod rows;
