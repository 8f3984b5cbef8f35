//! The ledger's tests: one contract that every store passes, the stores compared with each other, and what
//! only SQLite promises.
//!
//! A new store adds a [`fixture::Fixture`] and one line to the `contract!` below.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod given;
#[cfg(test)]
mod soundness;
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod view;
