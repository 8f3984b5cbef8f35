//! Processes that outlived their daemon, and how nothing of them is left.

use bridge_host::process;
use bridge_host::process::child::{Orphans, kill_now};
use std::io;
use std::time::Duration;

/// How long processes that are to end may take to be gone.
const GONE_PATIENCE: Duration = Duration::from_secs(10);
const GONE_PAUSE: Duration = Duration::from_millis(20);
/// So many looks in a row must find nothing: a process that changes its parent while we look may be missed by one.
const GONE_LOOKS: u32 = 3;

/// Our children that are neither a daemon nor there before the first one.
#[derive(Debug)]
pub(crate) struct Strays {
    orphans: Orphans,
    /// Children that have nothing to do with daemons: the database's.
    others: Vec<i32>,
}

impl Strays {
    /// From now on every process below us whose parent ends becomes our child.
    pub(crate) fn adopt_all() -> io::Result<Self> {
        let orphans = Orphans::adopt_all()?;
        let ours = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        Ok(Self {
            orphans,
            others: process::children(ours),
        })
    }

    /// Those that live, beside these daemons.
    pub(crate) fn living(&mut self, daemons: &[i32]) -> Vec<i32> {
        let waited_for: Vec<i32> = daemons.iter().chain(&self.others).copied().collect();
        self.orphans.living(&waited_for)
    }

    /// Waits until none lives; those that do all the same.
    pub(crate) async fn gone(&mut self) -> Vec<i32> {
        self.wait(|_| {}).await
    }

    /// Kills all of them, with everything below them: what runs off from a parent that dies becomes ours only after that.
    pub(crate) async fn kill(&mut self) {
        let kill = |left: &[i32]| {
            let below = left.iter().flat_map(|pid| process::descendants(*pid));
            for stamp in below.chain(left.iter().copied()).filter_map(process::stamp) {
                kill_now(&stamp);
            }
        };
        self.wait(kill).await;
    }

    async fn wait(&mut self, meet: impl Fn(&[i32])) -> Vec<i32> {
        let mut looks = GONE_LOOKS;
        let mut left = Vec::new();
        for _ in 0..GONE_PATIENCE.as_millis() / GONE_PAUSE.as_millis() {
            left = self.living(&[]);
            looks = match left.is_empty() {
                true => looks.saturating_sub(1),
                false => GONE_LOOKS,
            };
            if looks == 0 {
                break;
            }
            meet(&left);
            tokio::time::sleep(GONE_PAUSE).await;
        }
        left
    }
}
