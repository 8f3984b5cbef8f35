//! What senders stored, in memory.

use super::MemoryRows;
use bridge_core::limits::STORED_HOURS_READ;
use bridge_core::port::StoredBytes;
use bridge_core::storage::StoredHour;
use bridge_core::value::{ChannelId, Timestamp};

impl MemoryRows {
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
