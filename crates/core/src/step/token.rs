//! Tokens of the API: made, revoked and seen. Making and revoking leaves an act behind; a token alone is none.

use super::{Decision, Refused, Transition};
use crate::limits::TOKENS_MAX;
use crate::port::{Change, Read, RowsError, TaskQuery};
use crate::value::{AuditEntry, Timestamp, Token};

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
    /// Who.
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
    Owns {
        /// How many.
        tasks: u64,
    },
    /// There are too many.
    Full,
}

/// The rows that decide.
#[derive(Debug)]
pub struct AddView {
    tokens: Vec<Token>,
    tasks: u64,
}

impl Transition for AddToken {
    type View = AddView;
    type Outcome = TokenAdded;
    const NAME: &'static str = "add-token";

    fn load(&self, rows: &dyn Read) -> Result<AddView, RowsError> {
        let theirs = TaskQuery {
            owner: self.name.clone(),
            conversation: None,
            since: None,
            before: None,
            limit: 1,
        };
        Ok(AddView {
            tokens: rows.tokens()?,
            tasks: rows.agent_tasks_count(&theirs)?,
        })
    }

    fn decide(self, view: AddView, now: Timestamp) -> Result<Decision<TokenAdded>, Refused> {
        let live = || view.tokens.iter().filter(|token| token.is_live());
        if live().any(|token| token.name == self.name) {
            return Ok(Decision::nothing(TokenAdded::Taken));
        }
        if view.tasks > 0 && !self.rotate {
            let tasks = view.tasks;
            return Ok(Decision::nothing(TokenAdded::Owns { tasks }));
        }
        if live().count() >= TOKENS_MAX {
            return Ok(Decision::nothing(TokenAdded::Full));
        }
        let entry = act(
            &self.by,
            "token-add",
            &self.name,
            self.scopes.join(" "),
            now,
        );
        let token = Token {
            name: self.name,
            hash: self.hash,
            scopes: self.scopes,
            created_at: now,
            last_used_at: None,
            revoked_at: None,
        };
        Ok(Decision {
            changes: vec![Change::NewToken(token), Change::Audit(entry)],
            actions: Vec::new(),
            outcome: TokenAdded::Added,
        })
    }
}

/// Makes a token good for nothing, for ever. Whoever had it is told nothing more either: its push configurations go with
/// it, and the receivers' secrets in them.
#[derive(Clone, Debug)]
pub struct RevokeToken {
    /// Which.
    pub name: String,
    /// Who.
    pub by: String,
}

impl Transition for RevokeToken {
    type View = Vec<Token>;
    /// Whether there was a good one of this name.
    type Outcome = bool;
    const NAME: &'static str = "revoke-token";

    fn load(&self, rows: &dyn Read) -> Result<Vec<Token>, RowsError> {
        rows.tokens()
    }

    fn decide(self, view: Vec<Token>, now: Timestamp) -> Result<Decision<bool>, Refused> {
        let known = |token: &Token| token.is_live() && token.name == self.name;
        if !view.iter().any(known) {
            return Ok(Decision::nothing(false));
        }
        let entry = act(&self.by, "token-revoke", &self.name, String::new(), now);
        let silence = Change::DropPushesOf {
            owner: self.name.clone(),
        };
        let revoke = Change::RevokeToken {
            name: self.name,
            at: now,
        };
        Ok(Decision {
            changes: vec![revoke, silence, Change::Audit(entry)],
            actions: Vec::new(),
            outcome: true,
        })
    }
}

/// Notes that a token was used. Whoever sees it often notes it seldom.
#[derive(Clone, Debug)]
pub struct UseToken {
    /// Which.
    pub name: String,
}

impl Transition for UseToken {
    type View = Vec<Token>;
    type Outcome = ();
    const NAME: &'static str = "use-token";

    fn load(&self, rows: &dyn Read) -> Result<Vec<Token>, RowsError> {
        rows.tokens()
    }

    fn decide(self, view: Vec<Token>, now: Timestamp) -> Result<Decision<()>, Refused> {
        let known = |token: &Token| token.is_live() && token.name == self.name;
        if !view.iter().any(known) {
            return Ok(Decision::nothing(()));
        }
        Ok(Decision {
            changes: vec![Change::TokenUsed {
                name: self.name,
                at: now,
            }],
            actions: Vec::new(),
            outcome: (),
        })
    }
}

fn act(by: &str, what: &str, name: &str, detail: String, at: Timestamp) -> AuditEntry {
    AuditEntry {
        at,
        actor: by.to_owned(),
        what: what.to_owned(),
        subject: format!("token {name}"),
        detail,
    }
}
