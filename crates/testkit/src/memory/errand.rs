//! Errands in memory, what their owners said, and what senders' turns cost.

use super::MemoryRows;
use super::apply::{found, guard};
use super::facts::page;
use bridge_core::budget::{DayBudget, Meter};
use bridge_core::port::{ErrandQuery, RowsError, Spent};
use bridge_core::value::{
    Became, ChannelId, Errand, ErrandId, MessageId, RequestId, StateName, Timestamp, Word,
};
use std::cmp::Reverse;

impl MemoryRows {
    pub(super) fn find_errand(&self, id: &ErrandId) -> Option<Errand> {
        self.errands.get(id).map(|(errand, _)| errand.clone())
    }

    pub(super) fn errand_changed_at(&self, id: &ErrandId) -> Option<Timestamp> {
        self.errands.get(id).map(|(_, at)| *at)
    }

    pub(super) fn words_of(&self, id: &ErrandId) -> Vec<Word> {
        let all = (id.clone(), 0)..=(id.clone(), u32::MAX);
        self.words
            .range(all)
            .map(|(_, word)| word.clone())
            .collect()
    }

    pub(super) fn errand_with(&self, id: &MessageId) -> Option<ErrandId> {
        self.worded.get(id).map(|(errand_id, _)| errand_id.clone())
    }

    /// An errand stands as its newest message does, so that one goes last: never before an earlier one that is kept
    /// longer.
    pub(super) fn may_leave_its_errand(
        &self,
        id: &MessageId,
        state: StateName,
        before: Timestamp,
    ) -> bool {
        let Some((errand_id, ordinal)) = self.worded.get(id) else {
            return true;
        };
        let dead = |state: StateName| state == StateName::Dead;
        let goes = |id: &MessageId| {
            let known = self.messages.get(id).map(|known| &known.life);
            known.is_none_or(|life| {
                let theirs = life.state.name();
                theirs.finished() && dead(theirs) == dead(state) && life.updated_at < before
            })
        };
        self.words
            .range((errand_id.clone(), 0)..(errand_id.clone(), *ordinal))
            .all(|(_, word)| match &word.became {
                Became::Message(id) => goes(id),
                Became::Decision(_) | Became::Stop => true,
            })
    }

    pub(super) fn list_errands(&self, query: &ErrandQuery) -> Vec<(Errand, Timestamp)> {
        let mut found: Vec<_> = self.errands_of(query).collect();
        found.sort_by_key(|(errand, at)| Reverse((*at, errand.errand_id.clone())));
        let behind = |(errand, at): &(Errand, Timestamp)| match &query.before {
            Some((bound, id)) => (at, &errand.errand_id) < (bound, id),
            None => true,
        };
        let limit = page(query.limit);
        found.into_iter().filter(behind).take(limit).collect()
    }

    pub(super) fn count_errands(&self, query: &ErrandQuery) -> u64 {
        u64::try_from(self.errands_of(query).count()).unwrap_or(u64::MAX)
    }

    fn errands_of(&self, query: &ErrandQuery) -> impl Iterator<Item = (Errand, Timestamp)> {
        let all = self.errands.iter().map(|(_, known)| known);
        all.filter(|(errand, at)| {
            errand.owner == query.owner
                && query
                    .conversation
                    .as_ref()
                    .is_none_or(|id| errand.conversation_id == *id)
                && query.since.is_none_or(|since| *at >= since)
        })
        .cloned()
    }

    pub(super) fn new_errand(&mut self, errand: &Errand) -> Result<(), RowsError> {
        let id = &errand.errand_id;
        let holds =
            !self.errands.contains(id) && self.conversations.contains(&errand.conversation_id);
        guard(holds, || format!("new errand {id}"))?;
        let at = errand.created_at;
        self.errands.put(id.clone(), (errand.clone(), at));
        Ok(())
    }

    pub(super) fn new_word(&mut self, word: &Word) -> Result<(), RowsError> {
        let key = (word.errand_id.clone(), word.ordinal);
        let fits = match &word.became {
            Became::Message(id) => self.messages.contains(id) && !self.worded.contains(id),
            Became::Decision(_) | Became::Stop => true,
        };
        let keyed = match &word.became {
            Became::Decision(_) => true,
            Became::Message(_) | Became::Stop => word.known_as.is_none(),
        };
        let known = self.errands.contains(&word.errand_id);
        guard(known && fits && keyed && !self.words.contains(&key), || {
            format!("new word {}/{}", word.errand_id, word.ordinal)
        })?;
        if let Became::Message(id) = &word.became {
            self.worded.put(id.clone(), key.clone());
        }
        self.words.put(key, word.clone());
        self.move_errand(&word.errand_id, word.at);
        Ok(())
    }

    pub(super) fn errand_told(&mut self, id: &ErrandId, told: u64) -> Result<(), RowsError> {
        let known = self.errands.get(id).filter(|(known, _)| known.told <= told);
        let (errand, at) = found(known, || format!("news of errand {id}"))?.clone();
        self.errands
            .put(id.clone(), (Errand { told, ..errand }, at));
        Ok(())
    }

    /// A message changed, and with it the errand that it is of.
    pub(super) fn touch_errand(&mut self, id: &MessageId, at: Timestamp) {
        if let Some(errand_id) = self.errand_with(id) {
            self.move_errand(&errand_id, at);
        }
    }

    /// A question was decided.
    pub(super) fn touch_errand_by_request(&mut self, id: &RequestId, at: Timestamp) {
        let message_id = self.requests.get(id).map(|known| known.message_id.clone());
        if let Some(message_id) = message_id {
            self.touch_errand(&message_id, at);
        }
    }

    fn move_errand(&mut self, id: &ErrandId, at: Timestamp) {
        let older = self.errands.get(id).filter(|(_, before)| *before < at);
        if let Some((errand, _)) = older.cloned() {
            self.errands.put(id.clone(), (errand, at));
        }
    }

    /// A word goes with its message, and the errand with its last one.
    pub(super) fn forget_word(&mut self, id: &MessageId) -> Result<(), RowsError> {
        let Some(key) = self.worded.get(id).cloned() else {
            return Ok(());
        };
        self.worded.remove(id);
        self.words.remove(&key);
        let (errand_id, _) = key;
        let words = self.words_of(&errand_id);
        let of_message = |word: &Word| matches!(word.became, Became::Message(_));
        if words.iter().any(of_message) {
            return Ok(());
        }
        for push in self.list_pushes(&errand_id) {
            self.drop_push(&errand_id, &push.config_id)?;
        }
        for word in words {
            self.words.remove(&(word.errand_id, word.ordinal));
        }
        self.errands.remove(&errand_id);
        Ok(())
    }

    /// What the turns of a sender cost, newest first; claimed messages count already.
    fn costs(&self, channel: &ChannelId, sender: &str, since: Timestamp) -> Vec<(Timestamp, u64)> {
        let theirs = |id: &MessageId| {
            let known = self.messages.get(id);
            known.filter(|known| known.channel == *channel && known.sender == sender)
        };
        let mut claimed: Vec<_> = self
            .open
            .iter()
            .filter_map(|(id, ())| theirs(id))
            .filter(|message| message.life.state.name() == StateName::Claimed)
            .map(|message| (message.life.updated_at, 0))
            .collect();
        let mut turns: Vec<_> = self
            .turns
            .iter()
            .filter(|((id, _), _)| theirs(id).is_some())
            .map(|(_, turn)| {
                let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
                let (read, written) = (turn.usage.input_tokens, turn.usage.output_tokens);
                (
                    turn.started_at,
                    tokens(read).saturating_add(tokens(written)),
                )
            })
            .collect();
        claimed.sort_by_key(|(at, _)| Reverse(*at));
        turns.sort_by_key(|(at, _)| Reverse(*at));
        claimed.append(&mut turns);
        claimed.retain(|(at, _)| *at > since);
        claimed
    }

    pub(super) fn spent_by(&self, channel: &ChannelId, sender: &str, since: Timestamp) -> Spent {
        let mut spent = Spent::default();
        for (at, tokens) in self.costs(channel, sender, since) {
            spent.add(at, tokens);
        }
        spent
    }

    pub(super) fn reached_by(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
        budget: DayBudget,
    ) -> Option<Timestamp> {
        let mut meter = Meter::new(budget);
        self.costs(channel, sender, since)
            .into_iter()
            .find_map(|(at, tokens)| meter.add(at, tokens))
    }
}
