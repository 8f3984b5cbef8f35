//! What a recovery did, for people and programs. Plain values; how they are shown is up to the command line.

use std::path::PathBuf;

/// How a recovery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing is wrong; nothing was done.
    Sound {
        /// How many messages the ledger holds.
        messages: u64,
    },
    /// An earlier recovery had been cut at its very end, which is done now.
    Finished {
        /// Where the damaged ledger is.
        damaged: Option<PathBuf>,
    },
    /// A new ledger is in place.
    Done(Box<Report>),
}

/// What was brought over, what was made safe and what is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Where the damaged ledger is; absent if there was none.
    pub damaged: Option<PathBuf>,
    /// What was wrong with it.
    pub findings: Vec<String>,
    /// Messages in the new ledger.
    pub messages: u64,
    /// Row by row, per table.
    pub tables: Vec<TableReport>,
    /// Messages that are dead letters now, because running them could have run something twice.
    pub buried: Vec<Notice>,
    /// Messages that are kept with something missing.
    pub incomplete: Vec<Notice>,
    /// Ids of messages that are known to have been there and are gone.
    pub lost: Vec<String>,
    /// Where the record of acts has holes.
    pub audit_cuts: Vec<String>,
}

/// The rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// Which.
    pub table: String,
    /// Rows that were brought over from the damaged ledger.
    pub kept: u64,
    /// Rows that only the backup had.
    pub from_backup: u64,
    /// Rows that could be read and do not fit: their message is lost, or their values can't be.
    pub dropped: u64,
    /// Whether parts of the table could not be read.
    pub holes: bool,
}

/// Something about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which.
    pub message_id: String,
    /// What.
    pub what: String,
}
