//! Tokens of the API: made, revoked and seen. Making and revoking leaves an act behind; a token alone is none.

use crate::limits::TOKENS_MAX;
use crate::port::{AlertChange, Change, RowsError, TaskQuery, TokenChange};
use crate::step::{RunError, Transition, Tx};
use crate::value::{Timestamp, Token, TokenKind};

/// Makes a token known.
#[derive(Clone, Debug)]
pub struct AddToken {
    /// Its name; that of a revoked one may be used again, with `rotate` where it owns tasks.
    pub name: String,
    /// Its SHA-256 in hexadecimal.
    pub hash: String,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// It is for whoever held the name before: tasks are their owner's by its name alone.
    pub rotate: bool,
    pub by: String,
}

/// What making a token came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAdded {
    /// It is good from now on.
    Added,
    /// Another one has the name.
    Taken,
    /// There are tasks of a holder before, which whoever gets this one would see and go on with.
    Owns { tasks: u64 },
    /// There are too many.
    Full,
}

impl Transition for AddToken {
    type Outcome = TokenAdded;
    const NAME: &'static str = "add_token";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<TokenAdded, RunError> {
        let mut live = tx.tokens()?;
        live.retain(|token| token.is_live(now));
        if live.iter().any(|token| token.name == self.name) {
            return Ok(TokenAdded::Taken);
        }
        let theirs = TaskQuery {
            owner: self.name.clone(),
            conversation: None,
            since: None,
            before: None,
            limit: 1,
        };
        let tasks = tx.agent_tasks_count(&theirs)?;
        if tasks > 0 && !self.rotate {
            return Ok(TokenAdded::Owns { tasks });
        }
        live.retain(Token::is_live_bearer);
        if live.len() >= TOKENS_MAX {
            return Ok(TokenAdded::Full);
        }
        let (subject, scopes) = (format!("token {}", self.name), self.scopes.join(" "));
        tx.change(Change::Token(TokenChange::New(Token {
            name: self.name,
            hash: self.hash,
            scopes: self.scopes,
            kind: TokenKind::Bearer,
            created_at: now,
            last_used_at: None,
            revoked_at: None,
        })))?;
        tx.audit(self.by, "token-add", subject, scopes, now)?;
        Ok(TokenAdded::Added)
    }
}

/// Revokes a token for good. Its push configurations go with it, and the receivers' secrets in them.
#[derive(Clone, Debug)]
pub struct RevokeToken {
    pub name: String,
    pub by: String,
}

impl Transition for RevokeToken {
    /// Whether there was a good one of this name.
    type Outcome = bool;
    const NAME: &'static str = "revoke_token";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, RunError> {
        if !is_live(tx, &self.name, now)? {
            return Ok(false);
        }
        let subject = format!("token {}", self.name);
        tx.change(Change::Token(TokenChange::Revoke {
            name: self.name.clone(),
            at: now,
        }))?;
        tx.change(Change::Alert(AlertChange::DropDevicesOf {
            session: self.name.clone(),
        }))?;
        tx.change(Change::DropPushesOf { owner: self.name })?;
        tx.audit(self.by, "token-revoke", subject, "", now)?;
        Ok(true)
    }
}

/// Notes that a token was used. Whoever sees it often notes it seldom.
#[derive(Clone, Debug)]
pub struct UseToken {
    pub name: String,
}

impl Transition for UseToken {
    type Outcome = ();
    const NAME: &'static str = "use_token";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        if is_live(tx, &self.name, now)? {
            tx.change(Change::Token(TokenChange::Used {
                name: self.name,
                at: now,
            }))?;
        }
        Ok(())
    }
}

fn is_live(tx: &Tx<'_>, name: &str, now: Timestamp) -> Result<bool, RowsError> {
    let tokens = tx.tokens()?;
    let live = |token: &Token| token.is_live(now) && token.name == name;
    Ok(tokens.iter().any(live))
}
