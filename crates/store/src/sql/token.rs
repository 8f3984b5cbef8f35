//! The `token` table: names and hashes of the API's tokens, logins and sessions. What is presented is nowhere.

use super::fields::Fields;
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{RowsError, TokenChange};
use bridge_core::value::{ConsoleAccess, Timestamp, Token, TokenKind};

pub(crate) fn read(row: &Row<'_>) -> Result<Token, RowsError> {
    let mut fields = Fields::of("token", row);
    Ok(Token {
        name: fields.next()?,
        hash: fields.next()?,
        scopes: words(&fields.next::<String>()?),
        kind: kind(&mut fields)?,
        created_at: fields.time()?,
        last_used_at: fields.maybe_time()?,
        revoked_at: fields.maybe_time()?,
    })
}

fn kind(fields: &mut Fields<'_>) -> Result<TokenKind, RowsError> {
    let word: String = fields.next()?;
    let (label, expires_at): (Option<String>, _) = (fields.next()?, fields.maybe_time()?);
    let access = label
        .zip(expires_at)
        .map(|(label, expires_at)| ConsoleAccess { label, expires_at });
    let kind = match (word.as_str(), access) {
        ("token", None) => Some(TokenKind::Bearer),
        ("login", Some(access)) => Some(TokenKind::Login(access)),
        ("session", Some(access)) => Some(TokenKind::Session(access)),
        _ => None,
    };
    fields.required(&format!("unknown kind {word:?}"), kind)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Good ones first: there are few of those, so that a page always has them all.
pub(crate) fn all(conn: Conn<'_>) -> Result<Vec<Token>, RowsError> {
    let query = "SELECT name, hash, scopes, kind, label, expires_at, created_at, last_used_at, revoked_at FROM token \
                 ORDER BY revoked_at IS NOT NULL, name LIMIT ?1";
    sql::many(conn, query, [page(PAGE_MAX)], read)
}

pub(crate) const BY_NAME: &str = "SELECT name, hash, scopes, kind, label, expires_at, created_at, last_used_at, revoked_at FROM token WHERE name = ?1";

pub(super) fn apply(conn: Conn<'_>, change: &TokenChange) -> Result<(), RowsError> {
    match change {
        TokenChange::New(token) => insert(conn, token),
        TokenChange::OpenSession {
            name,
            hash,
            access,
            at,
        } => open_session(conn, name, hash, access, *at),
        TokenChange::DropSession { name } => drop_session(conn, name),
        TokenChange::Revoke { name, at } => revoke(conn, name, *at),
        TokenChange::Used { name, at } => used(conn, name, *at),
    }
}

fn insert(conn: Conn<'_>, token: &Token) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO token \
         (name, hash, scopes, kind, label, expires_at, created_at, last_used_at, revoked_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (name) DO UPDATE SET \
         hash = excluded.hash, scopes = excluded.scopes, kind = excluded.kind, \
         label = excluded.label, expires_at = excluded.expires_at, created_at = excluded.created_at, \
         last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at \
         WHERE token.revoked_at IS NOT NULL",
        params![
            token.name,
            token.hash,
            token.scopes.join(" "),
            token.kind.as_str(),
            token.kind.console().map(|access| access.label.as_str()),
            token.kind.console().map(|access| access.expires_at.0),
            token.created_at.0,
            token.last_used_at.map(|at| at.0),
            token.revoked_at.map(|at| at.0),
        ],
        || format!("new token {}", token.name),
    )
}

fn open_session(
    conn: Conn<'_>,
    name: &str,
    hash: &str,
    access: &ConsoleAccess,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE token SET kind = 'session', hash = ?2, label = ?3, expires_at = ?4, last_used_at = ?5 \
         WHERE name = ?1 AND kind = 'login' AND revoked_at IS NULL",
        params![name, hash, access.label, access.expires_at.0, at.0],
        || format!("session {name}"),
    )
}

fn drop_session(conn: Conn<'_>, name: &str) -> Result<(), RowsError> {
    sql::write(
        conn,
        "DELETE FROM token WHERE name = ?1 AND kind <> 'token'",
        params![name],
        || format!("end of session {name}"),
    )
}

fn revoke(conn: Conn<'_>, name: &str, at: Timestamp) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE token SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL",
        params![name, at.0],
        || format!("end of token {name}"),
    )
}

fn used(conn: Conn<'_>, name: &str, at: Timestamp) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE token SET last_used_at = ?2 WHERE name = ?1 AND revoked_at IS NULL",
        params![name, at.0],
        || format!("use of token {name}"),
    )
}
