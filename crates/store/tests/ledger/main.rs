//! The ledger's tests: one contract that every store passes, the stores compared with each other, and what
//! only SQLite or only PostgreSQL promises.
//!
//! A new store adds a [`fixture::Fixture`] and one line to the `contract!` below.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod copied;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod given;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod soundness;
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod view;
