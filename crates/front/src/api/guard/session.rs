//! The two halves of a session of the console.
//!
//! Browsers send a cookie to every port of a host, so whoever serves another port of this machine gets the half that is
//! in the cookie. The other half is in a header: only a page of this very origin can read it and send it.

use crate::TokenHash;
use crate::api::limits::TOKEN_MAX_BYTES;
use crate::api::tokens::is_name;
use axum::http::{HeaderMap, header};

/// Header with the page's half: the session's name, a dot and the secret.
pub const SESSION_HEADER: &str = "codex-bridge-session";

/// Header in which browsers say which page a request comes from; no page can set it.
const FETCH_SITE: &str = "sec-fetch-site";

/// Answer to a session that is not known.
pub(super) const SESSION_OVER: &str = "this session is over: it was signed out or revoked, or it expired; run `codex-bridge console` again";
const BROKEN_HALF: &str = "this is not half of a session: run `codex-bridge console` again";
const ONE_HALF: &str = "the other half of this session, its cookie, is missing: allow cookies for this address, and run `codex-bridge console` again";
const FOREIGN_SITE: &str = "a session is good for a page of this very address alone: open it with `codex-bridge console`, over https or on this machine, in a current browser";

/// The cookie of a session. Its own name: daemons on other ports of the host have the same cookies.
pub(in crate::api) fn cookie_name(session: &str) -> String {
    format!("codex-bridge-{session}")
}

/// The page's half.
pub(in crate::api) fn page_half(session: &str, secret: &str) -> String {
    format!("{session}.{secret}")
}

/// Both halves, as a request presents them.
pub(in crate::api) struct SessionHalves<'h> {
    pub(in crate::api) page: &'h str,
    pub(in crate::api) cookie: &'h str,
}

impl<'h> SessionHalves<'h> {
    pub(super) fn read(headers: &'h HeaderMap) -> Result<Self, &'static str> {
        let page = only(headers, SESSION_HEADER).ok_or(BROKEN_HALF)?;
        let (name, _) = page.rsplit_once('.').ok_or(BROKEN_HALF)?;
        if page.len() > TOKEN_MAX_BYTES || !is_name(name) {
            return Err(BROKEN_HALF);
        }
        let name = cookie_name(name);
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut cookies = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(key, value)| *key == name && value.len() <= TOKEN_MAX_BYTES);
        match (cookies.next(), cookies.next()) {
            (Some((_, cookie)), None) => Ok(Self { page, cookie }),
            _ => Err(ONE_HALF),
        }
    }

    /// What is stored: one half alone leads nowhere.
    pub(in crate::api) fn hash(&self) -> TokenHash {
        TokenHash::of(&format!("{} {}", self.page, self.cookie))
    }
}

fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Whether a page of this very origin sends it.
pub(in crate::api) fn is_same_origin(headers: &HeaderMap) -> bool {
    only(headers, FETCH_SITE) == Some("same-origin")
}

/// Refuses a session that another page than ours presents.
pub(super) fn check_site(headers: &HeaderMap) -> Result<(), &'static str> {
    if headers.contains_key(SESSION_HEADER) && !is_same_origin(headers) {
        return Err(FOREIGN_SITE);
    }
    Ok(())
}
