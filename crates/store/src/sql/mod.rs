//! The ledger's tables and statements, the same for both engines.
//!
//! One file per table; nothing outside of them knows a column. Statements are written in what both engines understand
//! (`postgres::dialect` says what is translated), and `engine` is the one place that tells the engines apart.

mod alert;
pub(crate) mod apply;
pub(crate) mod attached;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod bounded;
pub(crate) mod budget;
pub(crate) mod conversation;
mod engine;
mod fields;
pub(crate) mod figures;
mod file;
mod fleet;
mod fleet_rows;
pub(crate) mod incarnation;
pub(crate) mod job;
mod list_rows;
pub(crate) mod loan;
pub(crate) mod message;
pub(crate) mod place;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod reply;
mod request;
pub(crate) mod rows;
mod run;
pub(crate) mod schema;
pub(crate) mod seal;
pub(crate) mod search;
pub(crate) mod subscription;
pub(crate) mod sums;
pub(crate) mod task;
pub(crate) mod token;
mod turn;

pub(crate) use engine::{Binder, Conn, Params, Row, unfit};
pub(crate) use run::{
    control, count, failed, find, many, many_readable, number, one, reach, run, signed, skip, write,
};
pub(crate) use rusqlite::params;
