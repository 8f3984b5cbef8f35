//! Tokens of the API, and what senders stored by the hour.

use super::MemoryRows;
use bridge_core::limits::{PAGE_MAX, STORED_HOURS_READ};
use bridge_core::port::{RowsError, StoredBytes, TokenChange};
use bridge_core::storage::StoredHour;
use bridge_core::value::{ChannelId, ConsoleAccess, Timestamp, Token, TokenKind};

impl MemoryRows {
    pub(super) fn all_tokens(&self) -> Vec<Token> {
        let (live, revoked): (Vec<_>, Vec<_>) = self
            .tokens
            .iter()
            .map(|(_, token)| token.clone())
            .partition(|token| token.revoked_at.is_none());
        let all = live.into_iter().chain(revoked);
        all.take(PAGE_MAX as usize).collect()
    }

    pub(super) fn change_token(&mut self, change: &TokenChange) -> Result<(), RowsError> {
        match change {
            TokenChange::New(token) => self.new_token(token),
            TokenChange::OpenSession {
                name,
                hash,
                access,
                at,
            } => self.open_session(name, hash, access, *at),
            TokenChange::DropSession { name } => self.drop_session(name),
            TokenChange::Revoke { name, at } => {
                self.edit_token(name, |token| token.revoked_at = Some(*at))
            }
            TokenChange::Used { name, at } => {
                self.edit_token(name, |token| token.last_used_at = Some(*at))
            }
        }
    }

    fn new_token(&mut self, token: &Token) -> Result<(), RowsError> {
        let known = self.tokens.get(&token.name);
        let same_hash =
            |(name, other): (&String, &Token)| *name != token.name && other.hash == token.hash;
        if known.is_some_and(|token| token.revoked_at.is_none())
            || self.tokens.iter().any(same_hash)
        {
            return Err(conflict(format!("new token {}", token.name)));
        }
        self.tokens.put(token.name.clone(), token.clone());
        Ok(())
    }

    fn edit_token(&mut self, name: &str, edit: impl FnOnce(&mut Token)) -> Result<(), RowsError> {
        let name = name.to_owned();
        match self.tokens.get(&name).cloned() {
            Some(mut token) if token.revoked_at.is_none() => {
                edit(&mut token);
                self.tokens.put(name, token);
                Ok(())
            }
            Some(_) | None => Err(conflict(format!("token {name}"))),
        }
    }

    fn open_session(
        &mut self,
        name: &str,
        hash: &str,
        access: &ConsoleAccess,
        at: Timestamp,
    ) -> Result<(), RowsError> {
        let login = self.tokens.get(&name.to_owned());
        if !login.is_some_and(|login| matches!(login.kind, TokenKind::Login(_))) {
            return Err(conflict(format!("session {name}")));
        }
        self.edit_token(name, |token| {
            hash.clone_into(&mut token.hash);
            token.kind = TokenKind::Session(access.clone());
            token.last_used_at = Some(at);
        })
    }

    fn drop_session(&mut self, name: &str) -> Result<(), RowsError> {
        let name = name.to_owned();
        match self.tokens.get(&name) {
            Some(token) if token.kind != TokenKind::Bearer => {
                self.tokens.remove(&name);
                Ok(())
            }
            Some(_) | None => Err(conflict(format!("end of session {name}"))),
        }
    }

    pub(super) fn hours_stored(&self, channel: &ChannelId, sender: &str) -> Vec<StoredHour> {
        let theirs = self
            .stored
            .iter()
            .filter(|((on, name, _), _)| on == channel && name == sender)
            .map(|((_, _, hour), bytes)| StoredHour {
                hour: *hour,
                bytes: *bytes,
            });
        let mut newest: Vec<_> = theirs.rev().take(STORED_HOURS_READ as usize).collect();
        newest.reverse();
        newest
    }

    pub(super) fn add_stored(&mut self, stored: &StoredBytes) {
        let hour = (stored.channel.clone(), stored.sender.clone(), stored.hour);
        let before = self.stored.get(&hour).copied().unwrap_or(0);
        self.stored.put(hour, before.saturating_add(stored.bytes));
    }

    pub(super) fn forget_stored(&mut self, before: Timestamp) {
        let old = self.stored.iter().map(|(key, _)| key);
        let old: Vec<_> = old.filter(|(_, _, hour)| *hour < before).cloned().collect();
        for key in old {
            self.stored.remove(&key);
        }
    }
}

fn conflict(what: String) -> RowsError {
    RowsError::Conflict { what }
}
