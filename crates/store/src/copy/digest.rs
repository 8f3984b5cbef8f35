//! The digest of a table: the same for the same rows on either engine.
//!
//! SHA-256 over the names of table and columns, then over every value of every row in the order of the key: one byte for
//! the kind of the value, its length in eight bytes, and its bytes. Numbers are eight bytes, the highest first.

use super::tables::CopyTable;
use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use rusqlite::types::Value;

/// What a table amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableSum {
    pub(crate) rows: u64,
    /// In hexadecimal digits.
    pub(crate) digest: String,
}

/// Sums a table up, row by row.
pub(crate) struct TableDigest {
    context: Context,
    rows: u64,
}

impl TableDigest {
    pub(crate) fn of(table: &CopyTable) -> Self {
        let mut digest = Self {
            context: Context::new(&SHA256),
            rows: 0,
        };
        digest.put(b'T', table.name.as_bytes());
        for column in &table.columns {
            digest.put(b'C', column.as_bytes());
        }
        digest
    }

    pub(crate) fn row(&mut self, values: &[Value]) {
        self.rows = self.rows.saturating_add(1);
        for value in values {
            match value {
                Value::Null => self.put(b'n', &[]),
                Value::Integer(number) => self.put(b'i', &number.to_be_bytes()),
                Value::Real(number) => self.put(b'r', &number.to_bits().to_be_bytes()),
                Value::Text(text) => self.put(b't', text.as_bytes()),
                Value::Blob(bytes) => self.put(b'b', bytes),
            }
        }
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.context.update(&[kind]);
        self.context.update(&length.to_be_bytes());
        self.context.update(bytes);
    }

    pub(crate) fn finish(self) -> TableSum {
        TableSum {
            rows: self.rows,
            digest: HEXLOWER.encode(self.context.finish().as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::tables::tables;

    #[test]
    fn digest_tells_rows_apart() {
        let tables = tables().unwrap();
        let of = |rows: &[&[Value]]| {
            let mut digest = TableDigest::of(&tables[0]);
            rows.iter().for_each(|row| digest.row(row));
            digest.finish().digest
        };
        let text = |text: &str| Value::Text(text.to_owned());
        let rows: [&[&[Value]]; 8] = [
            &[],
            &[&[Value::Null]],
            &[&[text("")]],
            &[&[text("ab"), text("c")]],
            &[&[text("a"), text("bc")]],
            &[&[Value::Integer(1)]],
            &[&[text("1")]],
            &[&[Value::Blob(b"1".to_vec())]],
        ];
        let sums: std::collections::BTreeSet<_> = rows.iter().map(|rows| of(rows)).collect();
        assert_eq!(sums.len(), rows.len());
        let other = TableDigest::of(&tables[1]).finish().digest;
        assert_ne!(of(&[]), other);
    }
}
