//! A private copy of a database that SQLite refuses, with what SQLite needs first taken from a new ledger: the header,
//! or the whole table of contents.
//!
//! Our tables are made in one go, so their first pages lie at the same places in every ledger of a version that was
//! made new; whether they do in this one is checked. The copy is removed when it is dropped.

use crate::sqlite::files::{beside, claim_scratch, log_index_of, log_of, remove_if_there};
use crate::sqlite::migrate::{self, MIGRATIONS};
use crate::sqlite::open::read_only;
use rusqlite::Connection;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const HEADER: usize = 100;
/// What our own ledgers have.
const PAGE_SIZE: usize = 4_096;

/// How pages of tables and indexes begin.
const KINDS: [u8; 4] = [0x02, 0x05, 0x0a, 0x0d];

/// How much is taken from a new ledger.
#[derive(Clone, Copy, Debug)]
pub(super) enum Graft {
    /// The first 100 bytes.
    Header,
    /// All pages that say which tables there are.
    Contents,
}

pub(super) struct GraftedCopy {
    path: PathBuf,
}

impl GraftedCopy {
    /// A copy with parts of a new ledger of this version; none if it can't be made, or the parts do not fit.
    pub(super) fn of(damaged: &Path, graft: Graft, version: usize) -> Option<Self> {
        let copy = Self {
            path: beside(damaged, ".recovering-copy"),
        };
        let fresh = FreshLedger::of(version, &beside(damaged, ".recovering-fresh"))?;
        let mut bytes = fs::read(damaged).ok()?;
        let pages = match graft {
            Graft::Header => {
                let header = fresh.bytes.get(..HEADER)?;
                bytes.get_mut(..HEADER)?.copy_from_slice(header);
                bytes.len() / PAGE_SIZE
            }
            Graft::Contents => {
                fresh.put_contents(&mut bytes)?;
                bytes.len() / PAGE_SIZE
            }
        };
        let pages = u32::try_from(pages).ok()?.to_be_bytes();
        bytes.get_mut(28..32)?.copy_from_slice(&pages);
        claim_scratch(&copy.path).ok()?.write_all(&bytes).ok()?;
        if log_of(damaged).exists() {
            fs::copy(log_of(damaged), log_of(&copy.path)).ok()?;
        }
        Some(copy)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for GraftedCopy {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    for path in [path.to_owned(), log_of(path), log_index_of(path)] {
        // What stays is only in the way, and the next recovery takes its place.
        let _left = remove_if_there(&path);
    }
}

/// A new ledger, and where its table of contents lies.
struct FreshLedger {
    bytes: Vec<u8>,
    contents: Vec<usize>,
    /// First pages of tables and indexes, with the kinds of page that may be there.
    roots: Vec<(usize, [u8; 2])>,
}

impl FreshLedger {
    fn of(version: usize, scratch: &Path) -> Option<Self> {
        remove(scratch);
        let (migrations, _newer) = MIGRATIONS.split_at_checked(version)?;
        migrate::create(scratch, migrations, |_| Ok(())).ok()?;
        let fresh = Self::read(scratch);
        remove(scratch);
        fresh
    }

    fn read(path: &Path) -> Option<Self> {
        let conn = read_only(path).ok()?;
        Some(Self {
            bytes: fs::read(path).ok()?,
            contents: numbers(
                &conn,
                "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'",
            )?,
            roots: [
                (
                    "SELECT rootpage FROM sqlite_schema JOIN pragma_table_list USING (name) \
                     WHERE sqlite_schema.type = 'table' AND NOT wr",
                    [0x05, 0x0d],
                ),
                (
                    "SELECT rootpage FROM sqlite_schema LEFT JOIN pragma_table_list USING (name) \
                     WHERE rootpage > 0 AND (sqlite_schema.type = 'index' OR wr)",
                    [0x02, 0x0a],
                ),
            ]
            .into_iter()
            .filter_map(|(query, kinds)| Some((numbers(&conn, query)?, kinds)))
            .flat_map(|(pages, kinds)| pages.into_iter().map(move |page| (page, kinds)))
            .collect(),
        })
    }

    /// Replaces the table of contents, if the pages that it names look as they should.
    fn put_contents(&self, bytes: &mut Vec<u8>) -> Option<()> {
        let kind = |page: usize| bytes.get((page - 1) * PAGE_SIZE).copied();
        let fits = |(page, kinds): &&(usize, [u8; 2])| {
            kind(*page).is_some_and(|kind| kinds.contains(&kind))
        };
        let differs = |root: &&(usize, [u8; 2])| {
            !fits(root) && kind(root.0).is_some_and(|kind| KINDS.contains(&kind))
        };
        // A page that is destroyed says nothing; a whole page of another kind says that tables lie elsewhere.
        let fitting = self.roots.iter().filter(fits).count();
        let differing = self.roots.iter().filter(differs).count();
        if fitting < 8 * differing.max(1) {
            return None;
        }
        let whole = bytes
            .len()
            .max(self.bytes.len())
            .next_multiple_of(PAGE_SIZE);
        bytes.resize(whole, 0);
        for page in &self.contents {
            let range = (page - 1) * PAGE_SIZE..page * PAGE_SIZE;
            let from = self.bytes.get(range.clone())?;
            bytes.get_mut(range)?.copy_from_slice(from);
        }
        Some(())
    }
}

fn numbers(conn: &Connection, query: &str) -> Option<Vec<usize>> {
    let mut statement = conn.prepare(query).ok()?;
    let rows = statement.query_map([], |row| row.get::<_, i64>(0)).ok()?;
    rows.map(|number| usize::try_from(number.ok()?).ok())
        .collect()
}
