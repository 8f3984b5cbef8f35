//! Copies every readable row of a damaged database into a new one.
//!
//! A table is walked from both ends; what lies between is found by halving ranges of row numbers, or by asking for
//! the keys that other rows name. What the rows mean is `mend`'s business.

use super::TableReport;
use crate::key::AuditPublicKey;
use crate::sql::{audit, sums};
use crate::sqlite::migrate::MIGRATIONS;
use crate::sqlite::open::read_only;
use rusqlite::types::Value;
use rusqlite::{Connection, Error, ErrorCode, Row, params_from_iter};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

mod graft;
mod identity;

use graft::Graft;
pub(super) use identity::Identity;

/// Questions asked to find the rows between two damaged places of one table; each is a few microseconds.
const PROBES_MAX: u32 = 1_000_000;

/// Row numbers that are looked for behind the last one that could be read, when the end of a table is damaged.
const BEYOND_END: i64 = 10_000;

/// Added to sequence numbers of task events where the last one is unknown: more than can have been published.
pub(super) const SEQUENCE_LEAP: i64 = 1 << 40;

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrigin {
    /// The damaged ledger: what it says is the newest.
    Ledger,
    /// A backup: what it says may have changed since.
    Backup,
}

/// A database that rows are read from.
pub(super) struct SalvageSource {
    conn: Connection,
    origin: RowOrigin,
    /// Its schema's version, if it can be read.
    pub(super) version: Option<usize>,
    /// Holds the copy that is read instead of a file whose header is destroyed.
    _copy: Option<graft::GraftedCopy>,
}

impl SalvageSource {
    /// Opens what can be opened; a file that SQLite refuses is read through a copy with parts of a new ledger.
    pub(super) fn open(path: &Path, origin: RowOrigin) -> Option<Self> {
        if let Some(conn) = readable(path) {
            let version = conn
                .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
                .ok()
                .and_then(|version| usize::try_from(version).ok());
            return Some(Self {
                conn,
                origin,
                version: version.filter(|version| *version > 0),
                _copy: None,
            });
        }
        let versions = (1..=MIGRATIONS.len()).rev();
        let grafts = [Graft::Header, Graft::Contents];
        let mut tries = grafts
            .into_iter()
            .flat_map(|graft| versions.clone().map(move |version| (graft, version)));
        tries.find_map(|(graft, version)| {
            let copy = graft::GraftedCopy::of(path, graft, version)?;
            Some(Self {
                conn: readable(copy.path())?,
                origin,
                version: Some(version),
                _copy: Some(copy),
            })
        })
    }
}

impl SalvageSource {
    /// Whose key signed its record, if that can be read.
    pub(super) fn signer(&self) -> Option<AuditPublicKey> {
        audit::named_signer((&self.conn).into()).ok().flatten()
    }
}

/// `writable_schema` makes SQLite go on where the file is shorter than it says, or a table's definition is damaged.
fn readable(path: &Path) -> Option<Connection> {
    let conn = read_only(path).ok()?;
    conn.pragma_update(None, "writable_schema", true).ok()?;
    let tables = conn.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'message'",
        [],
        |row| row.get::<_, i64>(0),
    );
    tables.is_ok_and(|tables| tables > 0).then_some(conn)
}

/// A table of the new ledger.
#[derive(Clone, Debug)]
struct SalvagedTable {
    name: String,
    columns: Vec<String>,
    keys: Vec<String>,
    /// Its key is the row's number.
    numbered: bool,
}

/// What a recovery has so far.
pub(super) struct Salvage<'n> {
    new: &'n Connection,
    tables: Vec<SalvagedTable>,
    counts: BTreeMap<String, TableReport>,
    stale: BTreeSet<String>,
    epoch: i64,
}

/// What was read beside the rows that are in the new ledger.
pub(super) struct SalvagedRows {
    pub(super) counts: BTreeMap<String, TableReport>,
    /// Messages whose newest row was lost and came from a backup.
    pub(super) stale: BTreeSet<String>,
    /// Messages that indexes of the damaged ledger name.
    pub(super) identities: Vec<Identity>,
    /// The highest epoch that was seen.
    pub(super) epoch: i64,
}

impl<'n> Salvage<'n> {
    pub(super) fn into(new: &'n Connection) -> Result<Self, Error> {
        Ok(Self {
            new,
            tables: tables(new)?,
            counts: BTreeMap::new(),
            stale: BTreeSet::new(),
            epoch: 0,
        })
    }

    /// Whether nothing was read although something is there.
    pub(super) fn has_nothing(&self) -> bool {
        let rows = |count: &TableReport| count.kept + count.from_backup;
        let holes = self.counts.values().any(|count| count.holes);
        holes && self.counts.values().map(rows).sum::<u64>() == 0
    }

    /// Brings over all tables of one source.
    pub(super) fn take(&mut self, source: &SalvageSource) -> Result<(), Error> {
        let epoch = "SELECT epoch FROM instance";
        let epoch = source.conn.query_row(epoch, [], |row| row.get(0));
        self.epoch = self.epoch.max(epoch.unwrap_or(0));
        for table in self.tables.clone() {
            let mut taking = TableSalvage {
                salvage: self,
                source,
                insert: insert_into(&table),
                table: &table,
                count: TableReport::default(),
            };
            taking.table()?;
            let count = taking.count;
            let sum = self.counts.entry(table.name.clone()).or_default();
            sum.table.clone_from(&table.name);
            sum.kept += count.kept;
            sum.from_backup += count.from_backup;
            sum.dropped += count.dropped;
            sum.holes |= count.holes && source.origin == RowOrigin::Ledger;
        }
        Ok(())
    }

    pub(super) fn finish(self, sources: &[SalvageSource]) -> Result<SalvagedRows, Error> {
        let damaged = sources
            .iter()
            .find(|source| source.origin == RowOrigin::Ledger);
        Ok(SalvagedRows {
            counts: self.counts,
            stale: self.stale,
            identities: damaged.map_or_else(Vec::new, |source| identity::read(&source.conn)),
            epoch: self.epoch,
        })
    }
}

fn tables(new: &Connection) -> Result<Vec<SalvagedTable>, Error> {
    let mut found = new.prepare(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> 'instance' ORDER BY name",
    )?;
    let names: Vec<(String, bool)> = found
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut tables = Vec::new();
    for (name, without_row) in names {
        let query = "SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid";
        let mut columns = new.prepare(query)?;
        let columns: Vec<(String, i64)> = columns
            .query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut keys: Vec<_> = columns.iter().filter(|(_, key)| *key > 0).collect();
        keys.sort_by_key(|(_, key)| *key);
        tables.push(SalvagedTable {
            keys: keys.into_iter().map(|(name, _)| name.clone()).collect(),
            columns: columns.iter().map(|(name, _)| name.clone()).collect(),
            numbered: !without_row,
            name,
        });
    }
    // Those first that the others belong to: they are asked for the keys that these name.
    let parents = ["message", "conversation", "reply", "task"];
    tables.sort_by_key(|table| !parents.contains(&table.name.as_str()));
    Ok(tables)
}

fn insert_into(table: &SalvagedTable) -> String {
    let places = vec!["?"; table.columns.len()].join(", ");
    let (name, columns) = (&table.name, table.columns.join(", "));
    format!("INSERT INTO {name} ({columns}) VALUES ({places})")
}

/// One table of one source on its way.
struct TableSalvage<'s, 'n> {
    salvage: &'s mut Salvage<'n>,
    source: &'s SalvageSource,
    table: &'s SalvagedTable,
    insert: String,
    count: TableReport,
}

/// How far a walk came.
struct TableScan {
    last: Option<Vec<Value>>,
    whole: bool,
}

impl TableSalvage<'_, '_> {
    fn table(&mut self) -> Result<(), Error> {
        let up = self.walk(true)?;
        if up.whole {
            return Ok(());
        }
        self.count.holes = true;
        let down = self.walk(false)?;
        if self.table.numbered {
            self.halve(number(&up.last), number(&down.last))
        } else {
            self.ask_for_keys()
        }
    }

    fn select(&self, tail: &str) -> String {
        let (name, columns) = (&self.table.name, self.table.columns.join(", "));
        format!("SELECT {columns} FROM {name} NOT INDEXED {tail}")
    }

    /// Reads in key order until the end or the first damage. Keys that do not grow mean that pages point in circles.
    fn walk(&mut self, up: bool) -> Result<TableScan, Error> {
        let direction = if up { "" } else { " DESC" };
        let order: Vec<_> = self
            .table
            .keys
            .iter()
            .map(|key| format!("{key}{direction}"))
            .collect();
        let query = self.select(&format!("ORDER BY {}", order.join(", ")));
        let expected = if up {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        let mut walk = TableScan {
            last: None,
            whole: false,
        };
        let source = self.source;
        let Ok(mut statement) = source.conn.prepare(&query) else {
            return Ok(walk);
        };
        let Ok(mut rows) = statement.query([]) else {
            return Ok(walk);
        };
        loop {
            let values = match rows.next() {
                Ok(Some(row)) => self.values(row),
                Ok(None) => {
                    walk.whole = true;
                    return Ok(walk);
                }
                Err(_) => return Ok(walk),
            };
            let Some(values) = values else {
                self.count.dropped += 1;
                continue;
            };
            let key = self.key(&values);
            if walk
                .last
                .as_ref()
                .is_some_and(|last| compare(&key, last) != Some(expected))
            {
                return Ok(walk);
            }
            walk.last = Some(key);
            self.put(values)?;
        }
    }

    fn values(&self, row: &Row<'_>) -> Option<Vec<Value>> {
        (0..self.table.columns.len())
            .map(|at| row.get(at).ok())
            .collect()
    }

    fn key(&self, values: &[Value]) -> Vec<Value> {
        let place = |key: &String| self.table.columns.iter().position(|column| column == key);
        let keys = self.table.keys.iter().filter_map(place);
        keys.filter_map(|at| values.get(at).cloned()).collect()
    }

    /// Reads what lies between two numbers by halving the ranges that can't be read.
    fn halve(&mut self, first: Option<i64>, last: Option<i64>) -> Result<(), Error> {
        let low = first.map_or(1, |first| first.saturating_add(1));
        let high = match last {
            Some(last) => last.saturating_sub(1),
            None => low.max(self.highest_named()).saturating_add(BEYOND_END),
        };
        let query = self.select("WHERE row BETWEEN ?1 AND ?2 ORDER BY row");
        let mut ranges = vec![(low, high)];
        let mut probes = 0;
        while let Some((low, high)) = ranges.pop() {
            if low > high || probes == PROBES_MAX {
                continue;
            }
            probes += 1;
            if !self.read(&query, &[Value::Integer(low), Value::Integer(high)])? && low < high {
                let middle = low.saturating_add(high.saturating_sub(low) / 2);
                ranges.push((middle + 1, high));
                ranges.push((low, middle));
            }
        }
        Ok(())
    }

    /// The highest row number that the new ledger knows from tables that count alike.
    fn highest_named(&self) -> i64 {
        let others = ["message", "message_text", "reply", "reply_text"];
        let highest = |table: &&str| {
            let query = format!("SELECT max(row) FROM {table}");
            let found = self.salvage.new.query_row(&query, [], |row| row.get(0));
            found.ok().flatten()
        };
        others.iter().filter_map(highest).max().unwrap_or(0)
    }

    /// Asks for the rows of every message or conversation that is known.
    fn ask_for_keys(&mut self) -> Result<(), Error> {
        let Some(key) = self.table.keys.first() else {
            return Ok(());
        };
        let named = match key.as_str() {
            "message_id" => "SELECT message_id FROM message",
            "conversation_id" => "SELECT DISTINCT conversation_id FROM message",
            "task_id" => "SELECT task_id FROM task",
            _ => return Ok(()),
        };
        let mut ids = self.salvage.new.prepare(named)?;
        let ids: Vec<Value> = ids
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let query = self.select(&format!("WHERE {key} = ?1"));
        for id in ids {
            self.read(&query, &[id])?;
        }
        Ok(())
    }

    /// Reads what a question gives; whether it could be read to its end.
    fn read(&mut self, query: &str, params: &[Value]) -> Result<bool, Error> {
        let source = self.source;
        let Ok(mut statement) = source.conn.prepare_cached(query) else {
            return Ok(false);
        };
        let Ok(mut rows) = statement.query(params_from_iter(params)) else {
            return Ok(false);
        };
        loop {
            match rows.next() {
                Ok(Some(row)) => match self.values(row) {
                    Some(values) => self.put(values)?,
                    None => self.count.dropped += 1,
                },
                Ok(None) => return Ok(true),
                Err(_) => return Ok(false),
            }
        }
    }

    /// Puts one row into the new ledger, whose constraints decide whether it can be one. A row that is there already
    /// was read before, or is newer.
    fn put(&mut self, mut values: Vec<Value>) -> Result<(), Error> {
        let origin = self.source.origin;
        if origin == RowOrigin::Backup && self.table.name == "turn" {
            self.set(&mut values, "touched", Value::Integer(1));
            // It is not what was stored any more, and we say so ourselves.
            self.set(&mut values, "row_sum", Value::Null);
        }
        if origin == RowOrigin::Backup && self.table.name == "task" {
            self.leap(&mut values);
        }
        if !self.is_as_stored(&values) {
            self.count.dropped += 1;
            self.count.holes = true;
            return Ok(());
        }
        if origin == RowOrigin::Backup && !self.belongs(&values) {
            return Ok(());
        }
        let mut insert = self.salvage.new.prepare_cached(&self.insert)?;
        match insert.execute(params_from_iter(&values)) {
            Ok(_) => {}
            Err(error) if is_taken(&error) => return Ok(()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                self.count.dropped += u64::from(origin == RowOrigin::Ledger);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        match origin {
            RowOrigin::Ledger => self.count.kept += 1,
            RowOrigin::Backup => self.count.from_backup += 1,
        }
        if origin == RowOrigin::Backup && self.table.name == "message" {
            let id = self
                .table
                .columns
                .iter()
                .position(|column| column == "message_id");
            if let Some(Value::Text(id)) = id.and_then(|at| values.get(at)) {
                self.salvage.stale.insert(id.clone());
            }
        }
        Ok(())
    }

    /// Whether a text has the sum that was stored with it.
    fn is_as_stored(&self, values: &[Value]) -> bool {
        let value = |names: [&str; 3]| {
            let at = self
                .table
                .columns
                .iter()
                .position(|name| names.contains(&name.as_str()));
            at.and_then(|at| values.get(at))
        };
        let text = value(["body", "text", "original"]);
        match (text, value(["body_sum", "text_sum", "original_sum"])) {
            (Some(Value::Text(text)), Some(Value::Integer(sum))) => sums::holds(text, *sum),
            _ => true,
        }
    }

    /// Whether a text of a backup belongs to the row that has its number now: numbers are given again once all
    /// rows behind them were removed.
    fn belongs(&self, values: &[Value]) -> bool {
        let query = match self.table.name.as_str() {
            "message_text" => "SELECT message_id FROM message WHERE row = ?1",
            "reply_text" => "SELECT message_id || '.' || ordinal FROM reply WHERE row = ?1",
            _ => return true,
        };
        let owner = |conn: &Connection| -> Option<String> {
            conn.query_row(query, [number(&Some(self.key(values)))], |row| row.get(0))
                .ok()
        };
        let owned = owner(&self.source.conn);
        owned.is_some() && owned == owner(self.salvage.new)
    }

    /// News of a task was numbered after the backup was made, and no number is given twice.
    fn leap(&self, values: &mut [Value]) {
        let at = self
            .table
            .columns
            .iter()
            .position(|name| name == "sequence");
        if let Some(Value::Integer(sequence)) = at.and_then(|at| values.get_mut(at)) {
            *sequence = sequence.saturating_add(SEQUENCE_LEAP);
        }
    }

    fn set(&self, values: &mut [Value], column: &str, value: Value) {
        let at = self.table.columns.iter().position(|name| name == column);
        if let Some(slot) = at.and_then(|at| values.get_mut(at)) {
            *slot = value;
        }
    }
}

fn number(key: &Option<Vec<Value>>) -> Option<i64> {
    match key.as_deref() {
        Some([Value::Integer(number)]) => Some(*number),
        Some(_) | None => None,
    }
}

/// The same row is there already.
fn is_taken(error: &Error) -> bool {
    use rusqlite::ffi;
    error.sqlite_error().is_some_and(|error| {
        [
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
            ffi::SQLITE_CONSTRAINT_ROWID,
        ]
        .contains(&error.extended_code)
    })
}

/// Compares keys as SQLite does; none for values that no key of ours has.
fn compare(one: &[Value], other: &[Value]) -> Option<Ordering> {
    for (one, other) in one.iter().zip(other) {
        let order = match (one, other) {
            (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
            (Value::Text(one), Value::Text(other)) => one.as_bytes().cmp(other.as_bytes()),
            _ => return None,
        };
        if order != Ordering::Equal {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}
