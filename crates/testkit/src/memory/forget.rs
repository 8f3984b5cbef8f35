//! Removing in memory: finished messages with everything that hangs on them, and old records.

use super::MemoryRows;
use super::apply::{found, guard};
use bridge_core::port::{OldRecords, RowsError};
use bridge_core::value::{Message, MessageId, Seq, StateName, Timestamp};

fn waits(message: &Message) -> bool {
    message.life.state.name() == StateName::Received
}

impl MemoryRows {
    pub(super) fn tail(
        &mut self,
        id: &MessageId,
        seq: Seq,
        at: Timestamp,
    ) -> Result<(), RowsError> {
        let known = self
            .messages
            .get(id)
            .filter(|message| message.life.state.name().finished() || waits(message));
        let message = found(known, || format!("place of message {id}"))?.clone();
        let place = (message.conversation_id.clone(), seq);
        let taken = self.seqs.get(&place).is_some_and(|there| there != id);
        guard(!taken, || format!("place of message {id}"))?;
        self.seqs
            .remove(&(message.conversation_id.clone(), message.seq));
        self.seqs.put(place, id.clone());
        let message = Message {
            seq,
            received_at: at,
            ..message
        };
        self.messages.put(id.clone(), message);
        Ok(())
    }

    pub(super) fn forget(&mut self, id: &MessageId, from: StateName) -> Result<(), RowsError> {
        let known = self
            .messages
            .get(id)
            .filter(|message| message.life.state.name() == from && from.finished());
        let message = found(known, || format!("forgetting message {id}"))?.clone();
        self.externals
            .remove(&(message.channel.clone(), message.external_id.clone()));
        self.seqs.remove(&(message.conversation_id, message.seq));
        let arrival = self.arrivals.iter().find(|(_, arrived)| *arrived == id);
        if let Some(row) = arrival.map(|(row, _)| *row) {
            self.arrivals.remove(&row);
        }
        let of_message = |attempt| (id.clone(), attempt);
        let (first, last) = (of_message(0), of_message(u32::MAX));
        let turns: Vec<_> = keys(self.turns.range(first.clone()..=last.clone()));
        for key in turns {
            self.turns.remove(&key);
        }
        let replies: Vec<_> = keys(self.replies.range(first.clone()..=last.clone()));
        for key in replies {
            self.replies.remove(&key);
        }
        let events: Vec<_> = keys(self.events.range(first..=last));
        for key in events {
            self.events.remove(&key);
        }
        let asked = (id.clone(), 0)..=(id.clone(), u64::MAX);
        let asked: Vec<_> = keys(self.asked.range(asked));
        for key in asked {
            if let Some(request) = self.asked.get(&key).cloned() {
                self.requests.remove(&request);
            }
            self.asked.remove(&key);
        }
        self.forget_input(id)?;
        self.answers.remove(id);
        self.messages.remove(id);
        Ok(())
    }

    pub(super) fn forget_records(&mut self, old: OldRecords) {
        let OldRecords {
            incarnations,
            audit,
            stored,
            alerts,
            quotas,
            nodes,
        } = old;
        self.forget_quotas(quotas);
        self.forget_stored(stored);
        self.forget_nodes(nodes);
        self.forget_alerts(alerts);
        let gone: Vec<_> = self
            .incarnations
            .iter()
            .filter(|(_, incarnation)| incarnation.ended_at.is_some_and(|at| at < incarnations))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.incarnations.remove(&id);
        }
        let old: Vec<_> = self
            .audits
            .iter()
            // From the front only, as a chain is shortened.
            .take_while(|(_, entry)| entry.at < audit)
            .map(|(row, _)| *row)
            .collect();
        let sums = self.audit_chain();
        if let Some(last) = old.len().checked_sub(1).and_then(|last| sums.get(last)) {
            let sum = last.sum.clone().unwrap_or_default();
            self.audit_removed.put((), sum);
        }
        for row in old {
            self.audits.remove(&row);
        }
    }
}

fn keys<'a, K: Clone + 'a, V: 'a>(rows: impl Iterator<Item = (&'a K, &'a V)>) -> Vec<K> {
    rows.map(|(key, _)| key.clone()).collect()
}
