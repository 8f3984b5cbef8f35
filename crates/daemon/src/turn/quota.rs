//! What Codex reports of its accounts' limits becomes rows; who may begin is decided by the next claim.

use crate::Daemon;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::quota::is_known;
use bridge_core::step::{FreeHeld, NoteQuota, QuotaNoted};
use bridge_core::value::QuotaReport;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Between two looks at reports that come while turns run; the end of a turn looks by itself.
const NOTE_PAUSE: Duration = Duration::from_secs(1);

/// What was written down, by CODEX_HOME. Held while one is written, so that no older report overwrites a newer one.
pub(super) type NotedQuotas = Mutex<BTreeMap<Option<String>, QuotaReport>>;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Writes down what is new. Before the end of a turn is committed, because the next claim decides by it.
    pub(crate) async fn note_quotas(self: &Arc<Self>) {
        let rules = self.settings().quota_rules().clone();
        let mut noted = self.turns.noted_quotas.lock().await;
        let mut opens_any = false;
        for (codex_home, mut report) in self.agent.quotas() {
            if codex_home.is_none() && rules.account.is_some() {
                report.account.clone_from(&rules.account);
            }
            let known = noted.get(&codex_home);
            if known.is_some_and(|known| is_known(&report, known)) {
                continue;
            }
            let note = NoteQuota {
                codex_home: codex_home.clone(),
                report: report.clone(),
                rules: rules.clone(),
            };
            match self.commit(note).await {
                Ok(QuotaNoted::Known) => {}
                Ok(QuotaNoted::Noted { opens }) => {
                    let used = report.primary.map(|window| window.used_percent);
                    tracing::debug!(used, "codex reported the account's limit");
                    opens_any |= opens;
                }
                Err(error) => {
                    tracing::error!(%error, "what codex reported of the account's limit could not be stored");
                    continue;
                }
            }
            noted.insert(codex_home, report);
        }
        drop(noted);
        if opens_any {
            self.free_held().await;
        }
    }

    /// Lets go of messages whose account has room before its time.
    pub(crate) async fn free_held(self: &Arc<Self>) {
        let settings = self.settings();
        let free = FreeHeld {
            rules: settings.quota_rules().clone(),
            owners: settings.owners().to_vec(),
        };
        while !self.halt.is_cancelled() {
            match self.commit(free.clone()).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::error!(%error, "messages that wait for an account could not be looked at");
                    return;
                }
            }
        }
    }

    /// Writes down reports as they come, until the daemon goes.
    pub(crate) async fn watch_quotas(self: Arc<Self>) {
        // A daemon that died may have learned of room and let go of nobody.
        self.free_held().await;
        loop {
            tokio::select! {
                () = self.agent.quota_changed() => self.note_quotas().await,
                () = self.halt.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(NOTE_PAUSE) => {}
                () = self.halt.cancelled() => return,
            }
        }
    }
}
