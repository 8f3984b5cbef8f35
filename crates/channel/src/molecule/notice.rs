//! What the platform itself says in the feed: probes and notices. They are answered as the platform expects, or
//! passed over, and never by a turn.

use super::Molecule;
use super::row::Notice;
use serde::Serialize;
use std::time::Duration;

const CALL_DEADLINE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct NewActivity<'a> {
    activity_type: &'a str,
    summary: &'a str,
}

impl Molecule {
    /// Answers what the platform asked in one page of the feed. A failure loses nothing: the platform asks again.
    pub(super) async fn answer_notices(&self, notices: &[Notice]) {
        for notice in notices {
            if let Notice::Other(kind) = notice {
                let kind = kind.escape_debug().to_string();
                tracing::info!(channel = %self.channel(), kind, "a notice of the platform was passed over");
            }
        }
        if notices.contains(&Notice::Stall) {
            self.report_activity().await;
        }
    }

    /// Any activity of ours tells the platform that we do not hang; how long a turn may be silent is our own limit
    /// (`turn.idle_secs`).
    async fn report_activity(&self) {
        let activity = NewActivity {
            activity_type: "agent_log",
            summary: "codex-bridge is at work",
        };
        let call = self.0.client.post(&["activity"]).json(&activity);
        match crate::http::accept(call.timeout(CALL_DEADLINE)).await {
            Ok(_) => {
                tracing::info!(channel = %self.channel(), "the platform asked whether we work, and was told so");
            }
            Err(error) => {
                let reason = error.to_string().escape_debug().to_string();
                tracing::warn!(channel = %self.channel(), reason, "the platform asked whether we work, and did not take the answer");
            }
        }
    }
}
