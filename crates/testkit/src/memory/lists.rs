//! Lists and counts of fronts, in memory.

use super::MemoryRows;
use super::derived::page;
use bridge_core::limits::AUDIT_LOOKED_AT;
use bridge_core::port::{AuditPage, AuditQuery, ListRead, RowsError};
use bridge_core::value::{AuditEnds, AuditLink};

impl ListRead for MemoryRows {
    fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, RowsError> {
        let removed = self.audit_removed.get(&()).cloned();
        let chain = self.audit_chain();
        let ends = AuditEnds {
            removed: removed.clone(),
            newest: chain.last().and_then(|link| link.sum.clone()),
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
}

impl MemoryRows {
    /// All rows with their sums, oldest first.
    pub(super) fn audit_chain(&self) -> Vec<AuditLink> {
        let mut before = self.audit_removed.get(&()).cloned().unwrap_or_default();
        let link = |(row, entry): (&u64, &bridge_core::value::AuditEntry)| {
            let row = i64::try_from(*row).unwrap_or(i64::MAX);
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
