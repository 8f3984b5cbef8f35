//! The account's limit: once it is reached, nobody needs to ask the model again before it resets.
//!
//! In memory only. A daemon that starts anew asks once and learns it again; so does one whose operator bought
//! more, because a new login or a report of free room forgets it.

use crate::error::agent_error;
use crate::locked;
use bridge_codex::wire::Notification;
use bridge_codex::wire::error_info::ClassHint;
use bridge_core::port::AgentError;
use bridge_core::value::{Class, Timestamp};
use std::sync::Mutex;

/// What Codex has reported about the account.
#[derive(Debug, Default)]
pub(crate) struct AccountState {
    inner: Mutex<AccountLimits>,
}

#[derive(Debug, Default)]
struct AccountLimits {
    /// When the windows that are used up reset, in Unix seconds, as Codex said last.
    resets_at: Option<i64>,
    /// A turn failed for it, and until when no other needs to.
    reached: Option<Timestamp>,
}

impl AccountState {
    /// Takes in what Codex tells at `now`.
    pub(crate) fn notice(&self, notification: &Notification, now: Timestamp) {
        let mut inner = locked(&self.inner);
        match notification {
            Notification::RateLimitsUpdated(update) => {
                let limits = &update.rate_limits;
                inner.resets_at = limits.exhausted_until();
                let reported = limits.primary.is_some() || limits.secondary.is_some();
                if reported && inner.resets_at.is_none() {
                    inner.reached = None;
                }
            }
            Notification::AccountUpdated(_) | Notification::LoginCompleted(_) => {
                *inner = AccountLimits::default();
            }
            Notification::TurnCompleted(notice) => {
                let error = notice.turn.error.as_ref();
                let hint = error.map(|error| error.info.class_hint(&error.message));
                if hint == Some(ClassHint::UsageLimit) {
                    inner.reached = inner.reset_after(now);
                }
            }
            _ => {}
        }
    }

    /// When the limit resets, if that is still to come at `now`. A time that has passed, by our clock or by the
    /// provider's, says nothing about when to ask again.
    pub(crate) fn resets_at(&self, now: Timestamp) -> Option<Timestamp> {
        locked(&self.inner).reset_after(now)
    }

    /// An error for everybody while the limit is known to be reached.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), AgentError> {
        match locked(&self.inner).reached.filter(|until| *until > now) {
            Some(until) => Err(agent_error(
                Class::Capacity { until: Some(until) },
                "the account's usage limit is reached, as an earlier turn reported; the message is answered after the reset",
            )),
            None => Ok(()),
        }
    }
}

impl AccountLimits {
    fn reset_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.resets_at
            .map(|seconds| Timestamp(seconds.saturating_mul(1000)))
            .filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp(1_000_000);

    fn reported(method: &str, params: Value) -> Notification {
        Notification::parse(method, &params)
    }

    fn limits(used: i64, resets_at: i64) -> Notification {
        let window = json!({"usedPercent": used, "resetsAt": resets_at});
        reported(
            "account/rateLimits/updated",
            json!({"rateLimits": {"primary": window}}),
        )
    }

    fn failed(info: &str) -> Notification {
        let error = json!({"message": "no", "codexErrorInfo": info});
        reported(
            "turn/completed",
            json!({"threadId": "t", "turn": {"id": "u", "status": "failed", "error": error}}),
        )
    }

    fn reached() -> AccountState {
        let account = AccountState::default();
        account.notice(&limits(100, 1_500), NOW);
        assert_eq!(account.check(NOW), Ok(()), "no turn has failed for it yet");
        account.notice(&failed("usageLimitExceeded"), NOW);
        account
    }

    #[test]
    fn usage_limit_blocks_until_reset() {
        let account = reached();
        let until = Some(Timestamp(1_500_000));
        let error = account.check(NOW).unwrap_err();
        assert_eq!(error.failure.class, Class::Capacity { until });
        assert_eq!(account.check(Timestamp(1_500_000)), Ok(()));
    }

    #[test]
    fn ignores_other_failures_and_expired_limits() {
        let account = AccountState::default();
        account.notice(&limits(100, 1_500), NOW);
        account.notice(&failed("internalServerError"), NOW);
        assert_eq!(account.check(NOW), Ok(()));
        let past = AccountState::default();
        past.notice(&limits(100, 900), NOW);
        past.notice(&failed("usageLimitExceeded"), NOW);
        assert_eq!(past.check(NOW), Ok(()));
    }

    #[test]
    fn free_quota_or_login_clears_limit() {
        let account = reached();
        let nothing = json!({"rateLimits": {"primary": null, "secondary": null}});
        account.notice(&reported("account/rateLimits/updated", nothing), NOW);
        assert!(account.check(NOW).is_err());
        account.notice(&limits(3, 1_500), NOW);
        assert_eq!(account.check(NOW), Ok(()));
        let account = reached();
        account.notice(&reported("account/updated", json!({})), NOW);
        assert_eq!(account.check(NOW), Ok(()));
    }
}
