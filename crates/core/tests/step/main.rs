//! Transitions over rows in memory.

#[cfg(test)]
use bridge_core::value;

#[cfg(test)]
mod alerts;
#[cfg(test)]
mod approval;
#[cfg(test)]
mod fail;
#[cfg(test)]
#[path = "../../src/fixture.rs"]
mod fixture;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod name;
#[cfg(test)]
mod reconcile;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod steer;
