//! What was seen of the shield in one life of Codex. It is tried when it is first needed, and not again for every
//! message that waits for it. How it is tried is in `proof`.

use bridge_core::limits::CONFIG_PROBE_MS;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a failure answers for itself: as long as a message waits by default until it is tried again. Somebody has
/// to mend the machine, and every trial is a process in a slot of a turn.
const FAILURE_COUNTS: Duration = Duration::from_millis(CONFIG_PROBE_MS.unsigned_abs());

/// Whether the shield holds, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Proven(Mutex<Seen>);

#[derive(Debug, Default)]
enum Seen {
    #[default]
    Nothing,
    /// It held; that counts for the whole life.
    Holds,
    /// It did not, for this reason.
    Fails { since: Instant, why: String },
}

impl Proven {
    /// Makes sure that it holds, by `prove` where that is not known yet. Whoever comes meanwhile waits for the same
    /// trial.
    pub(crate) async fn ensure<F>(&self, prove: F) -> Result<(), String>
    where
        F: AsyncFnOnce() -> Result<(), String>,
    {
        let mut seen = self.0.lock().await;
        match &*seen {
            Seen::Holds => return Ok(()),
            Seen::Fails { since, why } if since.elapsed() < FAILURE_COUNTS => {
                return Err(why.clone());
            }
            Seen::Nothing | Seen::Fails { .. } => {}
        }
        let found = prove().await;
        *seen = match &found {
            Ok(()) => Seen::Holds,
            Err(why) => Seen::Fails {
                since: Instant::now(),
                why: why.clone(),
            },
        };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn probe_cache_expires_failures_only() {
        let proven = Proven::default();
        let trials = Cell::new(0);
        let ask = async |found: Result<(), String>| {
            proven
                .ensure(async || {
                    trials.set(trials.get() + 1);
                    found
                })
                .await
        };
        let fails = || Err("no".to_owned());
        for _ in 0..3 {
            assert_eq!(ask(fails()).await, fails());
        }
        assert_eq!(trials.get(), 1);
        tokio::time::advance(FAILURE_COUNTS).await;
        assert_eq!(ask(fails()).await, fails(), "tried again");
        assert_eq!(trials.get(), 2);
        tokio::time::advance(FAILURE_COUNTS).await;
        assert_eq!(ask(Ok(())).await, Ok(()));
        tokio::time::advance(10 * FAILURE_COUNTS).await;
        assert_eq!(ask(fails()).await, Ok(()), "known for this life");
        assert_eq!(trials.get(), 3);
    }
}
