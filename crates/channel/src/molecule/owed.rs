//! Uploads that are kept and of which the platform was not told yet. It is only a courtesy: the platform forgets
//! uploads by itself, so nothing waits for it for long and nothing is told for ever.

use super::client::Client;
use super::upload::refuses;
use crate::http::{CallError, accept};
use bridge_core::deadline::after;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// How long telling the platform may take at once: the feed is not read meanwhile.
const PAY_DEADLINE: Duration = Duration::from_secs(5);
/// How long nothing is told after a failure.
const PAY_PAUSE: Duration = Duration::from_secs(30);
/// How often the platform is told of one upload.
const PAY_TRIES_MAX: u32 = 5;
/// Uploads that are remembered.
const UPLOADS_MAX: usize = 1_000;

#[derive(Debug)]
struct Debt {
    file: Uuid,
    tries: u32,
}

/// Uploads whose messages are on disk.
#[derive(Debug, Default)]
pub(super) struct Owed {
    debts: VecDeque<Debt>,
    not_before: Option<Instant>,
}

impl Owed {
    /// To be told; the oldest are let go when there are too many.
    pub(super) fn add(&mut self, files: Vec<Uuid>) {
        for file in files {
            if self.debts.iter().all(|debt| debt.file != file) {
                self.debts.push_back(Debt { file, tries: 0 });
            }
        }
        while self.debts.len() > UPLOADS_MAX {
            self.debts.pop_front();
        }
    }

    /// Tells the platform, each upload at most once: one that it will not hear of holds up no other.
    pub(super) async fn pay(&mut self, client: &Client) {
        if self.not_before.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let all = self.debts.len();
        let told = timeout(PAY_DEADLINE, async {
            let mut failed = false;
            for _ in 0..all {
                failed |= self.pay_one(client).await;
            }
            failed
        });
        let failed = told.await.unwrap_or(true);
        self.not_before = failed.then(|| after(Instant::now(), PAY_PAUSE));
    }

    /// Tells of the first; `true` if that failed. It is counted and put last before the call, which may be cut.
    async fn pay_one(&mut self, client: &Client) -> bool {
        let Some(debt) = self.debts.pop_front() else {
            return false;
        };
        let (file, tries) = (debt.file, debt.tries.saturating_add(1));
        let keep = tries < PAY_TRIES_MAX;
        if keep {
            self.debts.push_back(Debt { file, tries });
        }
        match acknowledge(client, file).await {
            Ok(()) => {
                if keep {
                    self.debts.pop_back();
                }
                false
            }
            Err(error) => {
                let reason = error.to_string().escape_debug().to_string();
                tracing::debug!(%file, reason, tries, "the platform was not told that an upload is kept");
                true
            }
        }
    }
}

async fn acknowledge(client: &Client, file: Uuid) -> Result<(), CallError> {
    let file = file.hyphenated().to_string();
    let call = client.post(&["pending-uploads", &file, "ack"]);
    match accept(call.timeout(PAY_DEADLINE)).await {
        Ok(_) => Ok(()),
        // The older platform does not know an upload any more that it was told of.
        Err(error) if refuses(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
