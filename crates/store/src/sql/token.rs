//! The `token` table: names and hashes of the API's tokens. The tokens themselves are nowhere.

use super::fields::Fields;
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::RowsError;
use bridge_core::value::{Timestamp, Token};

pub(crate) fn read(row: &Row<'_>) -> Result<Token, RowsError> {
    let mut fields = Fields::of("token", row);
    Ok(Token {
        name: fields.next()?,
        hash: fields.next()?,
        scopes: words(&fields.next::<String>()?),
        created_at: fields.time()?,
        last_used_at: fields.maybe_time()?,
        revoked_at: fields.maybe_time()?,
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Good ones first: there are few of those, so that a page always has them all.
pub(crate) fn all(conn: Conn<'_>) -> Result<Vec<Token>, RowsError> {
    let query = "SELECT name, hash, scopes, created_at, last_used_at, revoked_at FROM token \
                 ORDER BY revoked_at IS NOT NULL, name LIMIT ?1";
    sql::many(conn, query, [page(PAGE_MAX)], read)
}

pub(crate) const BY_NAME: &str =
    "SELECT name, hash, scopes, created_at, last_used_at, revoked_at FROM token WHERE name = ?1";

pub(crate) fn insert(conn: Conn<'_>, token: &Token) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO token (name, hash, scopes, created_at, last_used_at, revoked_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO UPDATE SET \
         hash = excluded.hash, scopes = excluded.scopes, created_at = excluded.created_at, \
         last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at \
         WHERE token.revoked_at IS NOT NULL",
        params![
            token.name,
            token.hash,
            token.scopes.join(" "),
            token.created_at.0,
            token.last_used_at.map(|at| at.0),
            token.revoked_at.map(|at| at.0),
        ],
        || format!("new token {}", token.name),
    )
}

pub(crate) fn revoke(conn: Conn<'_>, name: &str, at: Timestamp) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE token SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL",
        params![name, at.0],
        || format!("end of token {name}"),
    )
}

pub(crate) fn used(conn: Conn<'_>, name: &str, at: Timestamp) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE token SET last_used_at = ?2 WHERE name = ?1 AND revoked_at IS NULL",
        params![name, at.0],
        || format!("use of token {name}"),
    )
}
