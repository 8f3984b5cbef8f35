//! Who waits for the same thing goes one after the other; different things do not wait for each other.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

#[derive(Debug)]
pub(crate) struct OneAtATime<K>(Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>);

impl<K> Default for OneAtATime<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> OneAtATime<K> {
    pub(crate) async fn wait(&self, key: K) -> OwnedMutexGuard<()> {
        let one = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for are forgotten.
            all.retain(|_, one| Arc::strong_count(one) > 1);
            Arc::clone(all.entry(key).or_default())
        };
        one.lock_owned().await
    }
}
