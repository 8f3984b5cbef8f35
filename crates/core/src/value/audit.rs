//! Who did what by hand: an append-only record of the acts of people, chained so that a change of it shows.
//!
//! The sums hold no secret: they show an edit by somebody who did not rebuild all that follows. Somebody who did is found
//! out by the signature over [`AuditEnds::statement`], which the store makes with the ledger's key.

use super::Timestamp;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One act of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// Who, by the front's own authenticated field.
    pub actor: String,
    /// What was done, one word.
    pub what: String,
    /// To what: an id.
    pub subject: String,
    /// The rest, one line.
    pub detail: String,
}

impl AuditEntry {
    /// The sum of this entry as row `row`, behind an entry with the sum `before`; `""` where there is none.
    #[must_use]
    pub fn sum(&self, before: &str, row: i64) -> String {
        let mut hash = Sha256::new();
        let (row, at) = (row.to_string(), self.at.0.to_string());
        let fields = [
            before,
            &row,
            &at,
            &self.actor,
            &self.what,
            &self.subject,
            &self.detail,
        ];
        for field in fields {
            // With its length, so that no text can move from one field to the next.
            hash.update(format!("{}:{field}", field.len()));
        }
        HEXLOWER.encode(&hash.finalize())
    }
}

/// One row of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLink {
    /// Its number.
    pub row: i64,
    /// What it says.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// Its sum; rows of older versions have none.
    pub sum: Option<String>,
}

/// What is kept beside the record about its two ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEnds {
    /// The sum of the newest row that retention removed.
    pub removed: Option<String>,
    /// The sum of the newest row.
    pub newest: Option<String>,
    /// Rows up to this number were there before the ledger's key signed for the first time. The row behind them is
    /// summed over what all of them say.
    pub base: i64,
}

impl AuditEnds {
    /// What the ledger's key signs. Only the newest statement is kept, so that cutting rows off the end takes an older
    /// copy of the ledger.
    #[must_use]
    pub fn statement(&self) -> String {
        let base = self.base.to_string();
        let removed = self.removed.as_deref().unwrap_or_default();
        let newest = self.newest.as_deref().unwrap_or_default();
        let mut statement = "codex-bridge audit 1\n".to_owned();
        for field in [base.as_str(), removed, newest] {
            statement.push_str(&format!("{}:{field}", field.len()));
        }
        statement
    }

    /// What the next row is summed with.
    #[must_use]
    pub fn last(&self) -> Option<&str> {
        self.newest.as_deref().or(self.removed.as_deref())
    }
}

/// The first entry under a ledger's key: what was there before it is not vouched for, and that is expected.
pub const KEY_BEGAN: &str = "key-began";

/// The first entry after a record was found that the ledger's key had not signed, although the key was there.
pub const RECORD_UNSIGNED: &str = "record-unsigned";

/// Goes along the record and holds each row against the one before.
#[derive(Clone, Debug)]
pub struct AuditCheck {
    ends: AuditEnds,
    before: Option<String>,
    chained: u64,
    unchained: u64,
    unsigned: Option<i64>,
}

/// What a whole record amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditFound {
    /// Rows whose sums are right.
    pub chained: u64,
    /// Older rows: those of older versions, which have no sums, and those from before the ledger's key.
    pub unchained: u64,
}

impl AuditCheck {
    /// Begins at the oldest row that is kept.
    #[must_use]
    pub fn new(ends: AuditEnds) -> Self {
        let before = ends.removed.clone();
        Self::behind(before, ends)
    }

    /// Begins at the row behind the sum `before`: for a part of the record.
    #[must_use]
    pub fn behind(before: Option<String>, ends: AuditEnds) -> Self {
        Self {
            before,
            ends,
            chained: 0,
            unchained: 0,
            unsigned: None,
        }
    }

    /// What the next row is summed with.
    #[must_use]
    pub fn last(&self) -> Option<&str> {
        self.before.as_deref()
    }

    /// Looks at the next row; or says what was done to the record.
    pub fn next(&mut self, link: &AuditLink) -> Result<(), String> {
        let row = link.row;
        if row <= self.ends.base {
            let before = self.before.as_deref().unwrap_or_default();
            self.before = Some(link.entry.sum(before, row));
            self.unchained += 1;
            return Ok(());
        }
        if row == self.ends.base + 1 && link.entry.what == RECORD_UNSIGNED {
            self.unsigned = Some(row);
        }
        let Some(sum) = &link.sum else {
            if self.before.is_some() {
                return Err(format!("row {row} has lost its sum"));
            }
            self.unchained += 1;
            return Ok(());
        };
        let before = self.before.as_deref().unwrap_or_default();
        if link.entry.sum(before, row) != *sum {
            return Err(format!(
                "row {row} does not follow from the row before it: one of them was edited, or rows between them were removed"
            ));
        }
        self.before = Some(sum.clone());
        self.chained += 1;
        Ok(())
    }

    /// There are no more rows.
    pub fn end(self) -> Result<AuditFound, String> {
        if self.ends.last() != self.before.as_deref() {
            return Err("rows at the end were removed, or written by something else".to_owned());
        }
        if let Some(row) = self.unsigned {
            return Err(format!(
                "row {row} says that what is before it was not signed by this database's key when the daemon found it; rows from {row} on are sound"
            ));
        }
        Ok(AuditFound {
            chained: self.chained,
            unchained: self.unchained,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: &str) -> AuditEntry {
        AuditEntry {
            at: Timestamp(7),
            actor: "ann".to_owned(),
            what: what.to_owned(),
            subject: "m1".to_owned(),
            detail: String::new(),
        }
    }

    fn chain(whats: &[&str]) -> (AuditEnds, Vec<AuditLink>) {
        let mut links: Vec<AuditLink> = Vec::new();
        for (row, what) in (1..).zip(whats) {
            let before = links.last().and_then(|link| link.sum.clone());
            let entry = entry(what);
            let sum = Some(entry.sum(&before.unwrap_or_default(), row));
            links.push(AuditLink { row, entry, sum });
        }
        let newest = links.last().and_then(|link| link.sum.clone());
        let ends = AuditEnds {
            newest,
            ..AuditEnds::default()
        };
        (ends, links)
    }

    fn check(ends: &AuditEnds, links: &[AuditLink]) -> Result<AuditFound, String> {
        let mut check = AuditCheck::new(ends.clone());
        links.iter().try_for_each(|link| check.next(link))?;
        check.end()
    }

    #[test]
    fn threat_28_audit_sum_separates_fields() {
        let one = entry("a");
        let mut other = one.clone();
        other.actor = "an".to_owned();
        other.what = "na".to_owned();
        assert_ne!(one.sum("", 1), other.sum("", 1));
        assert_ne!(one.sum("", 1), one.sum("", 2));
        assert_ne!(one.sum("", 1), one.sum("x", 1));
    }

    #[test]
    fn threat_28_audit_detects_tampering() {
        let (ends, links) = chain(&["a", "b", "c", "d"]);
        let whole = AuditFound {
            chained: 4,
            unchained: 0,
        };
        assert_eq!(check(&ends, &links), Ok(whole));
        for at in 0..4 {
            let mut edited = links.clone();
            edited[at].entry.actor = "bob".to_owned();
            assert!(check(&ends, &edited).is_err(), "edited {at}");
            let mut removed = links.clone();
            removed.remove(at);
            assert!(check(&ends, &removed).is_err(), "removed {at}");
            let mut unsummed = links.clone();
            unsummed[at].sum = None;
            assert!(check(&ends, &unsummed).is_err(), "sum of {at}");
        }
        let mut swapped = links.clone();
        swapped.swap(1, 2);
        assert!(check(&ends, &swapped).is_err());
        assert!(check(&ends, &[]).is_err());
    }

    #[test]
    fn retention_keeps_audit_chain_valid() {
        let (mut ends, links) = chain(&["a", "b", "c"]);
        ends.removed.clone_from(&links[1].sum);
        assert_eq!(check(&ends, &links[2..]).map(|found| found.chained), Ok(1));
        assert!(check(&ends, &links[1..]).is_err());
        ends.removed.clone_from(&links[2].sum);
        assert_eq!(check(&ends, &[]).map(|found| found.chained), Ok(0));
    }

    #[test]
    fn legacy_rows_precede_audit_chain() {
        let old = AuditLink {
            row: 1,
            entry: entry("old"),
            sum: None,
        };
        let sum = entry("a").sum("", 2);
        let first = AuditLink {
            row: 2,
            entry: entry("a"),
            sum: Some(sum.clone()),
        };
        let ends = AuditEnds {
            newest: Some(sum),
            ..AuditEnds::default()
        };
        let mut links = vec![old.clone(), first];
        let found = check(&ends, &links).map(|found| (found.chained, found.unchained));
        assert_eq!(found, Ok((1, 1)));
        links.push(AuditLink { row: 3, ..old });
        assert!(check(&ends, &links).is_err());
    }

    #[test]
    fn f10_audit_base_binds_older_rows() {
        let (_, mut links) = chain(&["a", "b"]);
        links[0].sum = None;
        let mut behind = AuditCheck::new(AuditEnds {
            base: 2,
            ..AuditEnds::default()
        });
        links.iter().try_for_each(|link| behind.next(link)).unwrap();
        let first = entry(KEY_BEGAN);
        let sum = first.sum(behind.last().unwrap(), 3);
        links.push(AuditLink {
            row: 3,
            entry: first,
            sum: Some(sum.clone()),
        });
        let ends = AuditEnds {
            newest: Some(sum),
            base: 2,
            removed: None,
        };
        let found = check(&ends, &links).map(|found| (found.chained, found.unchained));
        assert_eq!(found, Ok((1, 2)));
        for at in 0..2 {
            let mut edited = links.clone();
            edited[at].entry.actor = "bob".to_owned();
            assert!(check(&ends, &edited).is_err(), "edited {at}");
        }
        assert!(check(&ends, &links[1..]).is_err());
    }

    #[test]
    fn f10_audit_statement_separates_its_fields() {
        let ends = |removed: &str, newest: &str, base| AuditEnds {
            removed: Some(removed.to_owned()),
            newest: Some(newest.to_owned()),
            base,
        };
        let one = ends("a", "bc", 0).statement();
        for other in [ends("ab", "c", 0), ends("a", "bc", 1), ends("", "abc", 0)] {
            assert_ne!(one, other.statement());
        }
    }
}
