//! One table in memory: a sorted map that is shared between copies until one of them writes, with an undo log
//! while a transaction is open.
//!
//! What the rows mean and which of them must agree is the business of `rows` and `apply`.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

/// What one write replaced: nothing when the row was new.
type Undo<K, V> = (K, Option<Arc<V>>);

/// A table with rows `V` under keys `K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table<K, V> {
    rows: Arc<BTreeMap<K, Arc<V>>>,
    /// Present while a transaction is open.
    undo: Option<Vec<Undo<K, V>>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: Arc::new(BTreeMap::new()),
            undo: None,
        }
    }
}

/// A table seen by the transaction that holds it.
pub(super) trait Transactional {
    /// Starts to remember what is replaced.
    fn begin(&mut self);
    /// Forgets what was replaced.
    fn commit(&mut self);
    /// Puts back what was replaced, newest first.
    fn rollback(&mut self);
}

impl<K: Ord + Clone, V> Transactional for Table<K, V> {
    fn begin(&mut self) {
        self.undo = Some(Vec::new());
    }

    fn commit(&mut self) {
        self.undo = None;
    }

    fn rollback(&mut self) {
        let undo = self.undo.take().unwrap_or_default();
        if undo.is_empty() {
            return;
        }
        let rows = Arc::make_mut(&mut self.rows);
        for (key, before) in undo.into_iter().rev() {
            match before {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
        }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key).map(Arc::as_ref)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    /// Writes a row, new or not.
    pub(super) fn put(&mut self, key: K, row: V) {
        let before = Arc::make_mut(&mut self.rows).insert(key.clone(), Arc::new(row));
        if let Some(undo) = &mut self.undo {
            undo.push((key, before));
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        let before = Arc::make_mut(&mut self.rows).remove(key);
        if let (Some(undo), Some(before)) = (&mut self.undo, before) {
            undo.push((key.clone(), Some(before)));
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter().map(|(key, row)| (key, row.as_ref()))
    }

    pub(super) fn range(
        &self,
        bounds: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows
            .range(bounds)
            .map(|(key, row)| (key, row.as_ref()))
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollback_restores_replaced_removed_and_new_rows() {
        let mut table = Table::default();
        table.put(1, "one");
        table.put(2, "two");
        let before = table.clone();
        table.begin();
        table.put(1, "uno");
        table.put(1, "un");
        table.remove(&2);
        table.put(3, "three");
        table.remove(&3);
        table.put(2, "deux");
        table.rollback();
        assert_eq!(table, before);
    }

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut table = Table::default();
        table.put(1, "one");
        let copy = table.clone();
        table.put(1, "uno");
        assert_eq!(copy.get(&1), Some(&"one"));
        assert_eq!(table.get(&1), Some(&"uno"));
    }
}
