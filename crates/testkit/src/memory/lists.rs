//! Lists and counts of fronts, in memory.

use super::MemoryRows;
use super::derived::page;
use bridge_core::limits::{
    AUDIT_LOOKED_AT, FIGURES_LOOKED_AT, SEARCH_LOOKED_AT, SENDERS_LOOKED_AT,
};
use bridge_core::port::{
    AuditPage, AuditQuery, FinishedMessage, Found, FoundIn, ListRead, RecentSender, RowsError,
    SearchPage, SearchQuery, TurnsUsed,
};
use bridge_core::step::{REDRIVE_REASON, RedriveOutcome};
use bridge_core::value::{
    AuditEnds, AuditEntry, AuditLink, ChannelId, Message, MessageId, StateName, Timestamp,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl ListRead for MemoryRows {
    fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, RowsError> {
        let removed = self.audit_removed.get(&()).cloned();
        let chain = self.audit_chain();
        let ends = AuditEnds {
            removed: removed.clone(),
            newest: chain
                .last()
                .map_or(removed.clone(), |link| link.sum.clone()),
            base: 0,
        };
        let wanted = page(query.limit);
        let reach = match query.filter.is_empty() {
            true => wanted,
            false => AUDIT_LOOKED_AT as usize,
        };
        let older = chain
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, link)| query.before.is_none_or(|before| link.row < before));
        let (mut links, mut seen, mut next, mut before) = (Vec::new(), 0, None, None);
        for (place, link) in older.take(reach) {
            seen += 1;
            next = Some(link.row);
            if query.filter.matches(&link.entry) {
                before = match place.checked_sub(1) {
                    Some(place) => chain.get(place).and_then(|link| link.sum.clone()),
                    None => removed.clone(),
                };
                links.push(link.clone());
            }
            if links.len() == wanted {
                break;
            }
        }
        let is_full = seen == reach || links.len() == wanted;
        Ok(AuditPage {
            links,
            before: before.filter(|_| query.filter.is_empty()),
            next: next.filter(|_| is_full),
            ends,
            signature: None,
            public_key: None,
        })
    }

    fn failed(&self) -> Result<Vec<(MessageId, RedriveOutcome)>, RowsError> {
        let failed = self.messages.iter().map(|(_, message)| message);
        let failed = failed.filter(|message| {
            matches!(
                message.life.state.name(),
                StateName::Dead | StateName::Parked
            )
        });
        let mut found: Vec<_> = failed
            .map(|message| {
                let id = message.message_id.clone();
                let is_answered = self.answers.get(&id).is_some();
                (id, RedriveOutcome::of(message, is_answered))
            })
            .collect();
        found.sort_by(|(one, _), (two, _)| one.cmp(two));
        Ok(found)
    }

    fn last_redrive(&self) -> Result<Option<Timestamp>, RowsError> {
        let held = self.messages.iter().filter_map(|(_, message)| {
            let hold = message.life.state.hold()?;
            let is_redrive = hold.failure.reason == REDRIVE_REASON;
            let waits = message.life.state.name() == StateName::Received;
            (is_redrive && waits).then_some(hold.until)
        });
        Ok(held.max())
    }

    fn search(&self, query: &SearchQuery) -> Result<SearchPage, RowsError> {
        let text = query.text.to_ascii_lowercase();
        let has = |body: &str| body.to_ascii_lowercase().contains(&text);
        let mut page_found = SearchPage::default();
        let mut last = None;
        let before = query.before.unwrap_or(i64::MAX);
        let newest = self
            .arrivals
            .iter()
            .rev()
            .map(|(row, id)| (number(*row), id));
        let newest = newest.filter(|(row, _)| *row < before);
        for (row, id) in newest.take(SEARCH_LOOKED_AT as usize) {
            page_found.looked_at += 1;
            last = Some(row);
            let body = self.messages.get(id).map(|message| message.body.as_str());
            let answer = self.answers.get(id).map(|answer| answer.text.as_str());
            let place = match (body.is_some_and(has), answer.is_some_and(has)) {
                (true, _) => FoundIn::Text,
                (false, true) => FoundIn::Answer,
                (false, false) => continue,
            };
            let message_id = id.clone();
            page_found.found.push(Found { message_id, place });
            if page_found.found.len() == page(query.limit) {
                break;
            }
        }
        let is_full = page_found.found.len() == page(query.limit);
        let is_cut = is_full || page_found.looked_at == SEARCH_LOOKED_AT;
        page_found.next = last.filter(|_| is_cut);
        Ok(page_found)
    }

    fn recent_senders(&self, since: Timestamp) -> Result<Vec<RecentSender>, RowsError> {
        let newest = self.arrivals.iter().rev().map(|(_, id)| id);
        let newest = newest.take(SENDERS_LOOKED_AT as usize);
        let messages = newest.filter_map(|id| self.messages.get(id));
        let mut senders: BTreeMap<_, RecentSender> = BTreeMap::new();
        for message in messages.filter(|message| message.received_at >= since) {
            let key = (message.channel.clone(), message.sender.clone());
            let known = senders.entry(key).or_insert_with(|| RecentSender {
                channel: message.channel.clone(),
                sender: message.sender.clone(),
                tier: message.tier,
                messages: 0,
                newest_at: message.received_at,
            });
            known.messages += 1;
        }
        Ok(senders.into_values().collect())
    }

    fn turns_used(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
    ) -> Result<TurnsUsed, RowsError> {
        let mut used = TurnsUsed::default();
        for (_, tokens) in self.costs(channel, sender, since) {
            used.turns += 1;
            used.tokens += tokens;
        }
        Ok(used)
    }

    fn finished_since(
        &self,
        state: StateName,
        since: Timestamp,
    ) -> Result<Vec<FinishedMessage>, RowsError> {
        let ended = self.messages.iter().map(|(_, message)| message);
        let ended = ended.filter(|message| {
            let life = &message.life;
            life.state.name() == state && life.updated_at >= since
        });
        let mut found: Vec<_> = ended.map(|message| self.finished(message)).collect();
        found.sort_by_key(|one| Reverse((one.ended_at, one.message_id.clone())));
        found.truncate(FIGURES_LOOKED_AT as usize);
        Ok(found)
    }
}

fn number(row: u64) -> i64 {
    i64::try_from(row).unwrap_or(i64::MAX)
}

impl MemoryRows {
    fn finished(&self, message: &Message) -> FinishedMessage {
        let id = &message.message_id;
        let turns = (0..=message.life.attempt).filter_map(|n| self.turns.get(&(id.clone(), n)));
        let tokens = turns.map(|turn| turn.usage.input_tokens + turn.usage.output_tokens);
        let failure = message.life.failure.as_ref();
        FinishedMessage {
            message_id: id.clone(),
            channel: message.channel.clone(),
            sender: message.sender.clone(),
            received_at: message.received_at,
            ended_at: message.life.updated_at,
            answered_at: self.answers.get(id).map(|answer| answer.created_at),
            class: failure.map(|failure| failure.class.as_str().to_owned()),
            tokens: u64::try_from(tokens.sum::<i64>()).unwrap_or(0),
        }
    }

    /// All rows with their sums, oldest first.
    pub(super) fn audit_chain(&self) -> Vec<AuditLink> {
        let mut before = self.audit_removed.get(&()).cloned().unwrap_or_default();
        let link = |(row, entry): (&u64, &AuditEntry)| {
            let row = number(*row);
            before = entry.sum(&before, row);
            AuditLink {
                row,
                entry: entry.clone(),
                sum: Some(before.clone()),
            }
        };
        self.audits.iter().map(link).collect()
    }
}
