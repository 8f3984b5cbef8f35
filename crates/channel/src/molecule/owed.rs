//! Acks of uploads that are stored here. They are a courtesy: the platform forgets uploads by itself, so nothing waits
//! long for an ack and none is repeated for ever.

use super::client::Client;
use super::upload::refuses;
use crate::http::{CallError, accept};
use bridge_core::deadline::after;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// Deadline of one round of acks: the feed is not read meanwhile.
const PAY_DEADLINE: Duration = Duration::from_secs(5);
/// Pause after a failed ack.
const PAY_PAUSE: Duration = Duration::from_secs(30);
/// Tries per upload.
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
    /// Queues acks; drops the oldest beyond [`UPLOADS_MAX`].
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

    /// Acks each upload at most once: one that the platform refuses holds up no other.
    pub(super) async fn pay(&mut self, client: &Client) {
        if self.not_before.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let all = self.debts.len();
        let round = timeout(PAY_DEADLINE, async {
            let mut failed = false;
            for _ in 0..all {
                failed |= self.pay_one(client).await;
            }
            failed
        });
        let failed = round.await.unwrap_or(true);
        self.not_before = failed.then(|| after(Instant::now(), PAY_PAUSE));
    }

    /// Acks the first; `true` if that failed. The try is counted and the upload put last before the call, because the
    /// round's deadline may cut the call.
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
                tracing::debug!(%file, reason, tries, "the ack of an upload failed");
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
        // The older platform deletes an upload with its ack, so a repeated ack is refused.
        Err(error) if refuses(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
