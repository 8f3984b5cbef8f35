//! Tokens in memory, and what changed lately.

use super::MemoryRows;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::RowsError;
use bridge_core::value::{MessageId, Timestamp, Token};
use std::collections::BTreeSet;

impl MemoryRows {
    pub(super) fn all_tokens(&self) -> Vec<Token> {
        let (live, revoked): (Vec<_>, Vec<_>) = self
            .tokens
            .iter()
            .map(|(_, token)| token.clone())
            .partition(Token::is_live);
        let all = live.into_iter().chain(revoked);
        all.take(PAGE_MAX as usize).collect()
    }

    pub(super) fn new_token(&mut self, token: &Token) -> Result<(), RowsError> {
        let known = self.tokens.get(&token.name);
        let same_hash =
            |(name, other): (&String, &Token)| *name != token.name && other.hash == token.hash;
        if known.is_some_and(Token::is_live) || self.tokens.iter().any(same_hash) {
            return Err(conflict(format!("new token {}", token.name)));
        }
        self.tokens.put(token.name.clone(), token.clone());
        Ok(())
    }

    pub(super) fn edit_token(
        &mut self,
        name: &str,
        edit: impl FnOnce(&mut Token),
    ) -> Result<(), RowsError> {
        let name = name.to_owned();
        match self.tokens.get(&name).cloned() {
            Some(mut token) if token.is_live() => {
                edit(&mut token);
                self.tokens.put(name, token);
                Ok(())
            }
            Some(_) | None => Err(conflict(format!("token {name}"))),
        }
    }

    pub(super) fn changed(&self, since: Timestamp, limit: usize) -> Vec<MessageId> {
        let lately = |id: &MessageId| {
            let message = self.messages.get(id);
            let of_message = message.is_some_and(|message| {
                message.life.updated_at >= since || message.life.state.name().in_flight()
            });
            let mut events = self.events.range((id.clone(), 0)..=(id.clone(), u32::MAX));
            of_message || events.any(|(_, event)| event.at >= since)
        };
        let ids: BTreeSet<_> = self.messages.iter().map(|(id, _)| id).collect();
        let changed = ids.into_iter().filter(|id| lately(id));
        changed.take(limit).cloned().collect()
    }
}

fn conflict(what: String) -> RowsError {
    RowsError::Conflict { what }
}
