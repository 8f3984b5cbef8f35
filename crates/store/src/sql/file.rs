//! Files of messages and answers, stored where several daemons share the ledger: the tables `file` and `file_piece`.
//!
//! A file is the bodies of its pieces one behind the other. Where one daemon has the ledger for itself both are empty.

use super::fields::Fields;
use super::queue::json;
use super::seal::{self, SealContext};
use crate::key::LedgerKey;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::FILES_SCAN_MAX;
use bridge_core::port::RowsError;
use bridge_core::value::{FileDigest, KeptFile, Timestamp};

fn read(row: &Row<'_>) -> Result<KeptFile, RowsError> {
    let mut fields = Fields::of("file", row);
    let digest: String = fields.next()?;
    Ok(KeptFile {
        digest: fields.required("its name is no digest", FileDigest::parse(&digest))?,
        length: fields.next::<i64>()?.unsigned_abs(),
        kept_at: fields.time()?,
    })
}

pub(crate) fn kept(conn: Conn<'_>, digest: &FileDigest) -> Result<Option<KeptFile>, RowsError> {
    let query = "SELECT digest, length, kept_at FROM file WHERE digest = ?1";
    sql::one(conn, query, [digest.to_string()], read)
}

pub(crate) fn kept_of(conn: Conn<'_>, digests: &[FileDigest]) -> Result<Vec<KeptFile>, RowsError> {
    let query = "SELECT digest, length, kept_at FROM file \
         WHERE digest IN (SELECT value FROM json_each(?1)) ORDER BY digest";
    let digests: Vec<String> = digests.iter().map(ToString::to_string).collect();
    let digests = json(digests.iter().map(String::as_str));
    sql::many(conn, query, [digests], read)
}

pub(crate) fn kept_before(
    conn: Conn<'_>,
    before: Timestamp,
    after: Option<&FileDigest>,
    limit: u32,
) -> Result<Vec<KeptFile>, RowsError> {
    let query = "SELECT digest, length, kept_at FROM file WHERE kept_at < ?1 AND digest > ?2 ORDER BY digest LIMIT ?3";
    let after = after.map_or_else(String::new, ToString::to_string);
    let most = limit.min(FILES_SCAN_MAX);
    sql::many(conn, query, (before.0, after, most), read)
}

pub(crate) fn piece(
    conn: Conn<'_>,
    key: &LedgerKey,
    digest: &FileDigest,
    offset: u64,
) -> Result<Option<Vec<u8>>, RowsError> {
    let query = "SELECT digest, body FROM file_piece WHERE digest = ?1 AND start = ?2";
    let start = sql::signed(offset);
    let found = sql::one(conn, query, (digest.to_string(), start), |row| {
        let mut fields = Fields::of("piece of file", row);
        let _digest: String = fields.next()?;
        fields.next::<Vec<u8>>()
    })?;
    let place = SealContext::file_piece(digest, start);
    let opened = found.map(|body| seal::open_bytes(key, &place, body));
    opened.transpose().map_err(|_| RowsError::Unreadable {
        what: format!("piece of file {digest}"),
        why: "it was encrypted with another key; every node of a fleet needs the same".to_owned(),
    })
}

pub(super) fn keep(conn: Conn<'_>, file: &KeptFile) -> Result<(), RowsError> {
    sql::run(
        conn,
        "INSERT INTO file (digest, length, kept_at) VALUES (?1, ?2, ?3) ON CONFLICT (digest) DO UPDATE \
         SET length = excluded.length, kept_at = excluded.kept_at",
        params![
            file.digest.to_string(),
            sql::signed(file.length),
            file.kept_at.0
        ],
    )
}

/// The file's row says already that it is there.
pub(super) fn add_piece(
    conn: Conn<'_>,
    key: &LedgerKey,
    digest: &FileDigest,
    offset: u64,
    bytes: &[u8],
) -> Result<(), RowsError> {
    let start = sql::signed(offset);
    let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let body = seal::seal_bytes(key, &SealContext::file_piece(digest, start), bytes)?;
    sql::write(
        conn,
        "INSERT INTO file_piece (digest, start, body) SELECT ?1, ?2, ?3 \
         WHERE ?4 = (SELECT length FROM file WHERE digest = ?1)",
        params![
            digest.to_string(),
            start,
            body,
            sql::signed(offset.saturating_add(more))
        ],
        || format!("piece of file {digest}"),
    )
}

pub(super) fn drop(conn: Conn<'_>, file: &KeptFile) -> Result<(), RowsError> {
    let digest = file.digest.to_string();
    let pieces = "DELETE FROM file_piece WHERE digest = ?1";
    sql::run(conn, pieces, [digest.as_str()])?;
    sql::write(
        conn,
        "DELETE FROM file WHERE digest = ?1 AND kept_at = ?2",
        params![digest, file.kept_at.0],
        || format!("file {digest}"),
    )
}
