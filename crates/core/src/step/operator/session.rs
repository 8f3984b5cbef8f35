//! Logins and sessions of the console. A login is a row with the hash of a one-time code; whoever presents the code makes
//! that row a session. One transaction does it, so a code is good once, on whichever node it arrives.

use crate::limits::{ENDED_KEPT_MS, LOGIN_MS, SESSION_MS, SESSIONS_MAX};
use crate::port::{AlertChange, Change, Read, RowsError, TokenChange};
use crate::step::{RunError, Transition, Tx};
use crate::value::{ConsoleAccess, Timestamp, Token, TokenKind};

/// Adds a login, and removes logins and sessions that are good for nothing any more.
#[derive(Clone, Debug)]
pub struct AddLogin {
    /// What the session will be called.
    pub name: String,
    /// The SHA-256 of the code, in hexadecimal.
    pub hash: String,
    pub scopes: Vec<String>,
    pub label: String,
    pub by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAdded {
    /// Its code is good until then.
    Added { expires_at: Timestamp },
    /// Another token or session has the name.
    Taken,
    /// There are too many.
    Full,
}

impl Transition for AddLogin {
    type Outcome = LoginAdded;
    const NAME: &'static str = "add_login";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<LoginAdded, RunError> {
        let tokens = tx.tokens()?;
        if tokens.iter().any(|token| token.name == self.name) {
            return Ok(LoginAdded::Taken);
        }
        let console = tokens
            .into_iter()
            .filter(|token| token.kind.console().is_some());
        let (live, over): (Vec<_>, Vec<_>) = console.partition(|token| token.is_live(now));
        if live.len() >= SESSIONS_MAX {
            return Ok(LoginAdded::Full);
        }
        let forgotten = over.into_iter().filter(|token| is_long_over(token, now));
        for Token { name, .. } in forgotten {
            tx.change(Change::Alert(AlertChange::DropDevicesOf {
                session: name.clone(),
            }))?;
            tx.change(Change::Token(TokenChange::DropSession { name }))?;
        }
        let expires_at = now.plus_ms(LOGIN_MS);
        let (subject, detail) = (format!("session {}", self.name), self.scopes.join(" "));
        tx.change(Change::Token(TokenChange::New(Token {
            name: self.name,
            hash: self.hash,
            scopes: self.scopes,
            kind: TokenKind::Login(ConsoleAccess {
                label: self.label,
                expires_at,
            }),
            created_at: now,
            last_used_at: None,
            revoked_at: None,
        })))?;
        tx.audit(self.by, "console-login", subject, detail, now)?;
        Ok(LoginAdded::Added { expires_at })
    }
}

/// Another node may know it for some seconds yet, and what comes with it is refused only while its row says that it is over.
fn is_long_over(token: &Token, now: Timestamp) -> bool {
    let then = now.plus_ms(-ENDED_KEPT_MS);
    match token.revoked_at {
        Some(at) => at <= then,
        None => !token.is_live(then),
    }
}

/// Makes the login whose code this is a session.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// The SHA-256 of the code.
    pub code: String,
    /// The SHA-256 of both halves of the session.
    pub hash: String,
}

impl Transition for OpenSession {
    /// The session; `None` where the code is not good.
    type Outcome = Option<Token>;
    const NAME: &'static str = "open_session";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Token>, RunError> {
        let Some((login, access)) = login_of(&**tx, &self.code, now)? else {
            return Ok(None);
        };
        let access = ConsoleAccess {
            label: access.label,
            expires_at: now.plus_ms(SESSION_MS),
        };
        tx.change(Change::Token(TokenChange::OpenSession {
            name: login.name.clone(),
            hash: self.hash.clone(),
            access: access.clone(),
            at: now,
        }))?;
        let subject = format!("session {}", login.name);
        tx.audit(login.name.clone(), "console-open", subject, "", now)?;
        Ok(Some(Token {
            hash: self.hash,
            kind: TokenKind::Session(access),
            last_used_at: Some(now),
            ..login
        }))
    }
}

/// The login whose code has this hash, if the code is good.
pub fn login_of(
    rows: &dyn Read,
    code: &str,
    now: Timestamp,
) -> Result<Option<(Token, ConsoleAccess)>, RowsError> {
    let mut live = rows
        .tokens()?
        .into_iter()
        .filter(|token| token.is_live(now));
    Ok(live.find_map(|token| match &token.kind {
        TokenKind::Login(access) if token.hash == code => {
            let access = access.clone();
            Some((token, access))
        }
        _ => None,
    }))
}
