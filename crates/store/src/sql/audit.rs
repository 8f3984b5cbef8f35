//! The `audit` table: what people did by hand, append-only. Each row is summed with the one before, the ends of the
//! chain are kept in `instance`, and the ledger's key signs them in the transaction that moves them.
//!
//! A record that the key has not signed is never carried on in silence: the next entry says so, and is summed over all
//! that was found.

use super::fields::Fields;
use crate::key::{AuditPublicKey, KeyAge, LedgerKey};
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::AUDIT_SCAN_MAX;
use bridge_core::port::{AuditPage, AuditQuery, RowsError};
use bridge_core::value::{
    AuditCheck, AuditEnds, AuditEntry, AuditFound, AuditLink, KEY_BEGAN, MessageId,
    RECORD_UNSIGNED, Timestamp,
};
use std::collections::VecDeque;

const LINKS: &str = "SELECT row, sum, subject, at, actor, what, detail FROM audit ORDER BY row";

/// Entry that opens a new chain after a record without a valid signature.
const FOUND_UNSIGNED: &str = "what is before this row was not signed by this database's key when it was found: it was \
     written by something else, or brought here from another state directory";

/// The ends with their signature.
#[derive(Debug, Default)]
struct SignedEnds {
    ends: AuditEnds,
    signature: Option<String>,
    signer: Option<AuditPublicKey>,
}

impl SignedEnds {
    fn verify(&self, key: &AuditPublicKey) -> bool {
        let signature = self.signature.as_deref();
        signature.is_some_and(|signature| key.verifies(&self.ends.statement(), signature))
    }
}

pub(crate) fn insert(conn: Conn<'_>, key: &LedgerKey, entry: &AuditEntry) -> Result<(), RowsError> {
    let found = signed_ends(conn)?;
    let ends = match found.verify(&key.public()) {
        true => found.ends,
        // Signing it now would vouch for whatever somebody wrote there.
        false => begin_anew(
            conn,
            key,
            found.ends,
            own(entry.at, RECORD_UNSIGNED, FOUND_UNSIGNED),
        )?,
    };
    append(conn, key, ends, entry).map(drop)
}

fn append(
    conn: Conn<'_>,
    key: &LedgerKey,
    ends: AuditEnds,
    entry: &AuditEntry,
) -> Result<AuditEnds, RowsError> {
    let newest = sql::number(conn, "SELECT max(row) FROM audit", [])?;
    let row = newest.unwrap_or(0).max(ends.base) + 1;
    let sum = entry.sum(ends.last().unwrap_or_default(), row);
    sql::write(
        conn,
        "INSERT INTO audit (row, at, actor, what, subject, detail, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            row,
            entry.at.0,
            entry.actor,
            entry.what,
            entry.subject,
            entry.detail,
            sum
        ],
        || "new audit entry".to_owned(),
    )?;
    let ends = AuditEnds {
        newest: Some(sum),
        ..ends
    };
    sign(conn, key, &ends)?;
    Ok(ends)
}

fn sign(conn: Conn<'_>, key: &LedgerKey, ends: &AuditEnds) -> Result<(), RowsError> {
    sql::run(
        conn,
        "UPDATE instance SET audit_removed = ?1, audit_newest = ?2, audit_base = ?3, audit_signature = ?4, audit_key = ?5",
        params![
            ends.removed,
            ends.newest,
            ends.base,
            key.sign(&ends.statement()),
            key.public().to_string(),
        ],
    )
}

fn own(at: Timestamp, what: &str, detail: &str) -> AuditEntry {
    AuditEntry {
        at,
        actor: "codex-bridge".to_owned(),
        what: what.to_owned(),
        subject: "audit".to_owned(),
        detail: detail.to_owned(),
    }
}

/// Puts `first` behind whatever is there. Its sum is over what every row says, so that none of them can be changed
/// afterwards; what their own sums were worth is lost.
fn begin_anew(
    conn: Conn<'_>,
    key: &LedgerKey,
    found: AuditEnds,
    first: AuditEntry,
) -> Result<AuditEnds, RowsError> {
    let base = sql::number(conn, "SELECT max(row) FROM audit", [])?.unwrap_or(0);
    let ends = AuditEnds {
        newest: None,
        base,
        ..found
    };
    // No row is behind the base, so that none can be broken.
    let newest = sum_of_older(conn, &ends, i64::MAX)?.flatten();
    append(conn, key, AuditEnds { newest, ..ends }, &first)
}

/// What the row `before` is summed with; nothing where the rows before it do not hold together.
fn sum_of_older(
    conn: Conn<'_>,
    ends: &AuditEnds,
    before: i64,
) -> Result<Option<Option<String>>, RowsError> {
    let query =
        "SELECT row, sum, subject, at, actor, what, detail FROM audit WHERE row < ?1 ORDER BY row";
    let mut check = AuditCheck::new(ends.clone());
    let broken = sql::find(conn, query, [before], |row| {
        Ok(check.next(&link(row)?).err())
    })?;
    Ok(match broken {
        Some(_why) => None,
        None => Some(check.last().map(str::to_owned)),
    })
}

/// Takes a ledger over for its key: a record that the key signed goes on, any other gets an entry that says so. Returns
/// whether the key is new to this ledger.
pub(crate) fn adopt(conn: Conn<'_>, key: &LedgerKey, now: Timestamp) -> Result<bool, RowsError> {
    let found = signed_ends(conn)?;
    if found.verify(&key.public()) {
        return Ok(false);
    }
    let rows = sql::number(conn, "SELECT count(*) FROM audit", [])?.unwrap_or(0);
    let is_empty = rows == 0 && found.ends.last().is_none();
    let first = match (key.age(), is_empty) {
        (KeyAge::New, true) => {
            sign(conn, key, &AuditEnds::default())?;
            return Ok(true);
        }
        (KeyAge::New, false) => own(
            now,
            KEY_BEGAN,
            "the database's key was made; what is before this row was not signed by it",
        ),
        (KeyAge::Existing, true) if found.signature.is_none() => own(
            now,
            KEY_BEGAN,
            "a new record under a key that was there before; if the database is not new, its record was removed",
        ),
        (KeyAge::Existing, _) => own(now, RECORD_UNSIGNED, FOUND_UNSIGNED),
    };
    begin_anew(conn, key, found.ends, first)?;
    Ok(true)
}

/// The number of the newest row and its sum: written down elsewhere, they show when an older ledger was put in place.
pub(crate) fn head(conn: Conn<'_>) -> Result<(i64, Option<String>), RowsError> {
    let row = sql::number(conn, "SELECT max(row) FROM audit", [])?.unwrap_or(0);
    Ok((row, signed_ends(conn)?.ends.newest))
}

/// Removes what is older, from the front only: a hole would look like a deed. A record that somebody changed is left
/// alone: it is evidence.
pub(crate) fn forget(conn: Conn<'_>, key: &LedgerKey, before: Timestamp) -> Result<(), RowsError> {
    let kept = "SELECT min(row) FROM audit WHERE at >= ?1";
    let kept = sql::number(conn, kept, [before.0])?.unwrap_or(i64::MAX);
    let older = "SELECT count(*) FROM audit WHERE row < ?1";
    if sql::number(conn, older, [kept])? == Some(0) {
        return Ok(());
    }
    let found = signed_ends(conn)?;
    if !found.verify(&key.public()) {
        return Ok(());
    }
    let Some(removed) = sum_of_older(conn, &found.ends, kept)? else {
        return Ok(());
    };
    let ends = AuditEnds {
        removed,
        ..found.ends
    };
    sign(conn, key, &ends)?;
    sql::run(conn, "DELETE FROM audit WHERE row < ?1", [kept])
}

/// What a recovery found of the record, before it is carried on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SalvagedAudit {
    /// Places where rows are missing or do not follow from the one before.
    pub(crate) cuts: Vec<String>,
}

/// Cuts that are named; one is enough to look closer.
const CUTS_MAX: usize = 10;

/// Carries the rows on that were saved from a damaged ledger, as they are and behind an entry of their own: there may
/// be holes between them.
pub(crate) fn salvaged(
    conn: Conn<'_>,
    key: &LedgerKey,
    entry: impl FnOnce(&SalvagedAudit) -> AuditEntry,
) -> Result<SalvagedAudit, RowsError> {
    let links = sql::many(conn, LINKS, [], link)?;
    let mut cuts = Vec::new();
    for pair in links.windows(2) {
        let [one, next] = pair else { continue };
        let (from, to) = (one.row, next.row);
        if to != from + 1 {
            cuts.push(format!("rows {} to {} are missing", from + 1, to - 1));
        } else if let (Some(before), Some(sum)) = (&one.sum, &next.sum)
            && next.entry.sum(before, to) != *sum
        {
            cuts.push(format!("row {to} does not follow from row {from}"));
        }
    }
    cuts.truncate(CUTS_MAX);
    let found = SalvagedAudit { cuts };
    begin_anew(conn, key, AuditEnds::default(), entry(&found))?;
    Ok(found)
}

fn signed_ends(conn: Conn<'_>) -> Result<SignedEnds, RowsError> {
    let query =
        "SELECT audit_removed, audit_newest, audit_base, audit_signature, audit_key FROM instance";
    let found = sql::one(conn, query, [], |row| {
        let signer: Option<String> = row.get(4).map_err(sql::failed)?;
        Ok(SignedEnds {
            ends: AuditEnds {
                removed: row.get(0).map_err(sql::failed)?,
                newest: row.get(1).map_err(sql::failed)?,
                base: row.get(2).map_err(sql::failed)?,
            },
            signature: row.get(3).map_err(sql::failed)?,
            signer: signer.and_then(|signer| signer.parse().ok()),
        })
    })?;
    Ok(found.unwrap_or_default())
}

pub(crate) fn newest(conn: Conn<'_>, limit: u32) -> Result<Vec<AuditEntry>, RowsError> {
    let query = "SELECT subject, at, actor, what, detail FROM audit ORDER BY row DESC LIMIT ?1";
    sql::many(conn, query, [page(limit)], read)
}

pub(crate) const PAGE: &str = "SELECT row, sum, subject, at, actor, what, detail FROM audit WHERE row < ?1 \
     ORDER BY row DESC LIMIT ?2";

/// A page of the record. Conditions are met here: people do little by hand, and one page looks at a bounded part of it.
pub(crate) fn page_of(conn: Conn<'_>, query: &AuditQuery) -> Result<AuditPage, RowsError> {
    let wanted = page(query.limit);
    let reach = match query.filter.is_empty() {
        true => wanted,
        false => AUDIT_SCAN_MAX,
    };
    let (mut links, mut seen, mut last) = (Vec::new(), 0_u32, None);
    let before = query.before.unwrap_or(i64::MAX);
    sql::find(conn, PAGE, (before, reach), |row| {
        let link = link(row)?;
        seen += 1;
        last = Some(link.row);
        if query.filter.matches(&link.entry) {
            links.push(link);
        }
        Ok((u32::try_from(links.len()) == Ok(wanted)).then_some(()))
    })?;
    let found = signed_ends(conn)?;
    let is_full = seen == reach || u32::try_from(links.len()) == Ok(wanted);
    let before = match (links.last(), query.filter.is_empty()) {
        (Some(oldest), true) => summed_with(conn, &found.ends, oldest.row)?,
        _ => None,
    };
    Ok(AuditPage {
        links,
        before,
        next: last.filter(|_| is_full),
        ends: found.ends,
        signature: found.signature,
        public_key: found.signer.map(|signer| signer.to_string()),
    })
}

/// What a row is summed with: the sum of the one before it. Those from before the key have none that counts, so that all
/// of them are summed up.
fn summed_with(conn: Conn<'_>, ends: &AuditEnds, row: i64) -> Result<Option<String>, RowsError> {
    let query = "SELECT row, sum FROM audit WHERE row < ?1 ORDER BY row DESC LIMIT 1";
    let before = sql::one(conn, query, [row], |row| {
        let mut fields = Fields::of("audit row", row);
        Ok((fields.next::<i64>()?, fields.next::<Option<String>>()?))
    })?;
    match before {
        None => Ok(ends.removed.clone()),
        Some((before, sum)) if before > ends.base => Ok(sum),
        Some(_) => Ok(sum_of_older(conn, ends, row)?.flatten()),
    }
}

/// People do little by hand, so that all of it may be walked through.
pub(crate) fn of_message(
    conn: Conn<'_>,
    message_id: &MessageId,
    limit: u32,
) -> Result<Vec<AuditEntry>, RowsError> {
    let query = "SELECT subject, at, actor, what, detail FROM audit WHERE subject = ?1 \
                 ORDER BY row DESC LIMIT ?2";
    sql::many(conn, query, (message_id.as_str(), page(limit)), read)
}

fn read(row: &Row<'_>) -> Result<AuditEntry, RowsError> {
    entry(&mut Fields::of("audit entry of", row))
}

fn entry(fields: &mut Fields<'_>) -> Result<AuditEntry, RowsError> {
    Ok(AuditEntry {
        subject: fields.next()?,
        at: fields.time()?,
        actor: fields.next()?,
        what: fields.next()?,
        detail: fields.next()?,
    })
}

fn link(row: &Row<'_>) -> Result<AuditLink, RowsError> {
    let mut fields = Fields::of("audit row", row);
    let number: i64 = fields.next()?;
    Ok(AuditLink {
        row: number,
        sum: fields.next()?,
        entry: entry(&mut fields)?,
    })
}

/// Who vouches for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditSigner {
    /// Nobody: there is no signature, or it is not valid.
    Nobody,
    /// The key that the record was verified with.
    Verified(AuditPublicKey),
    /// The key that the ledger itself names: a signature that anybody could have made, until the key is compared.
    Named(AuditPublicKey),
}

/// The record as a person looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The newest entries, newest first.
    pub newest: Vec<AuditLink>,
    /// What the oldest of them is summed with.
    pub before: Option<String>,
    /// What is signed.
    pub ends: AuditEnds,
    /// The signature.
    pub signature: Option<String>,
    /// Whose it is.
    pub signer: AuditSigner,
    /// What the chain amounts to, or what was done to it.
    pub chain: Result<AuditFound, String>,
}

/// The key that the ledger itself names as the signer of its record.
pub(crate) fn named_signer(conn: Conn<'_>) -> Result<Option<AuditPublicKey>, RowsError> {
    let named = sql::one(conn, "SELECT audit_key FROM instance", [], |row| {
        row.get::<Option<String>>(0).map_err(sql::failed)
    })?;
    Ok(named.flatten().and_then(|named| named.parse().ok()))
}

/// Reads the record and goes along its chain, within one view of both tables. Without a key the one is believed that the
/// ledger names.
pub(crate) fn record(
    conn: Conn<'_>,
    limit: u32,
    key: Option<&AuditPublicKey>,
) -> Result<AuditRecord, RowsError> {
    let found = signed_ends(conn)?;
    let mut check = AuditCheck::new(found.ends.clone());
    let mut newest: VecDeque<(Option<String>, AuditLink)> = VecDeque::new();
    let keep = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut broken = None;
    sql::find(conn, LINKS, [], |row| {
        let link = link(row)?;
        let before = check.last().map(str::to_owned);
        if broken.is_none() {
            broken = check.next(&link).err();
        }
        newest.push_front((before, link));
        newest.truncate(keep);
        Ok(None::<()>)
    })?;
    let before = newest.back().and_then(|(before, _)| before.clone());
    let (signer, forged) = vouched(&found, key);
    Ok(AuditRecord {
        newest: newest.into_iter().map(|(_, link)| link).collect(),
        before,
        signer,
        chain: match broken.or(forged) {
            Some(why) => Err(why),
            None => check.end(),
        },
        ends: found.ends,
        signature: found.signature,
    })
}

/// Whose signature it is, and what is wrong with it.
fn vouched(found: &SignedEnds, key: Option<&AuditPublicKey>) -> (AuditSigner, Option<String>) {
    match (key, found.signer) {
        (Some(key), _) if found.verify(key) => (AuditSigner::Verified(*key), None),
        (Some(key), Some(other)) if other != *key && found.verify(&other) => (
            AuditSigner::Named(other),
            Some(format!("it is signed by the key {other}, and not by {key}")),
        ),
        (Some(key), _) => (
            AuditSigner::Nobody,
            Some(format!(
                "its newest entry is not signed by the key {key}: the record was rewritten, or rows at its end were removed"
            )),
        ),
        (None, Some(named)) if found.verify(&named) => (AuditSigner::Named(named), None),
        (None, None) if found.signature.is_none() => (AuditSigner::Nobody, None),
        (None, _) => (
            AuditSigner::Nobody,
            Some("its signature does not belong to it".to_owned()),
        ),
    }
}
