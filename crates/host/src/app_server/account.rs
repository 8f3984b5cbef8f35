//! What Codex reports of the account that it is logged in with, for whoever writes it down. Nothing is decided here.

use crate::locked;
use bridge_codex::wire::Notification;
use bridge_codex::wire::account::{API_KEY_ACCOUNT, Account, RateLimitWindow, RateLimits};
use bridge_codex::wire::error_info::ClassHint;
use bridge_core::value::{QuotaReport, QuotaWindow, Timestamp};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Bytes of a digest by which an account is told from others; its address is kept nowhere.
const ACCOUNT_BYTES: usize = 6;

/// What Codex has reported about the account.
#[derive(Debug, Default)]
pub(crate) struct AccountState {
    inner: Mutex<AccountLimits>,
    /// Woken when a report changed; shared by all homes.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct AccountLimits {
    /// Absent until Codex said anything.
    report: Option<QuotaReport>,
    /// When the windows that are used up reset, as Codex said last.
    resets_at: Option<Timestamp>,
    account: Option<String>,
}

impl AccountState {
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self {
            inner: Mutex::default(),
            changed,
        }
    }

    /// Takes in what Codex tells at `now`.
    pub(crate) fn notice(&self, notification: &Notification, now: Timestamp) {
        let mut inner = locked(&self.inner);
        match notification {
            Notification::RateLimitsUpdated(update) => inner.update(&update.rate_limits),
            Notification::AccountUpdated(_) => inner.renew(),
            Notification::LoginCompleted(login) if login.success => inner.renew(),
            Notification::TurnCompleted(notice) => {
                let error = notice.turn.error.as_ref();
                let hint = error.map(|error| error.info.class_hint(&error.message));
                let Some(until) = inner.resets_at.filter(|at| *at > now) else {
                    return;
                };
                if hint != Some(ClassHint::UsageLimit) {
                    return;
                }
                inner.report.get_or_insert_default().refused_until = Some(until);
            }
            _ => return,
        }
        self.changed.notify_one();
    }

    /// Takes in who is logged in, as Codex says it at its start.
    pub(crate) fn logged_in(&self, account: Option<&Account>) {
        let mut inner = locked(&self.inner);
        match account {
            // What an earlier login used up is no concern of a key.
            Some(account) if account.r#type == API_KEY_ACCOUNT => inner.renew(),
            Some(Account {
                email: Some(email), ..
            }) => {
                let account = Some(digest(email));
                if inner.account.is_some() && inner.account != account {
                    inner.renew();
                }
                inner.account = account;
            }
            Some(_) | None => return,
        }
        self.changed.notify_one();
    }

    /// When the limit resets, if that is still to come at `now`. A time that has passed, by our clock or by the
    /// provider's, says nothing about when to ask again.
    pub(crate) fn resets_at(&self, now: Timestamp) -> Option<Timestamp> {
        locked(&self.inner).resets_at.filter(|at| *at > now)
    }

    /// The newest report; an empty one where only the account is known.
    pub(crate) fn report(&self) -> Option<QuotaReport> {
        let inner = locked(&self.inner);
        if inner.report.is_none() && inner.account.is_none() {
            return None;
        }
        let report = inner.report.clone().unwrap_or_default();
        Some(QuotaReport {
            account: inner.account.clone(),
            ..report
        })
    }
}

impl AccountLimits {
    /// A new login has all of its limit.
    fn renew(&mut self) {
        *self = Self {
            report: Some(QuotaReport::default()),
            ..Self::default()
        };
    }

    fn update(&mut self, limits: &RateLimits) {
        let reached = limits.exhausted_until().map(milliseconds);
        if limits.primary.is_some() || limits.secondary.is_some() {
            self.resets_at = reached;
        }
        if !limits.is_shared() {
            return;
        }
        let report = self.report.get_or_insert_default();
        let (primary, secondary) = (limits.primary.map(window), limits.secondary.map(window));
        if (primary.is_some() || secondary.is_some()) && reached.is_none() {
            report.refused_until = None;
        }
        report.primary = primary.or(report.primary);
        report.secondary = secondary.or(report.secondary);
        if let Some(credits) = limits.credits {
            report.has_credits = credits.has_credits || credits.unlimited;
        }
    }
}

fn window(reported: RateLimitWindow) -> QuotaWindow {
    let whole = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    QuotaWindow {
        used_percent: whole(reported.used_percent),
        minutes: reported.window_duration_mins.map(whole),
        resets_at: reported.resets_at.map(milliseconds),
    }
}

fn milliseconds(seconds: i64) -> Timestamp {
    Timestamp(seconds.saturating_mul(1000))
}

fn digest(email: &str) -> String {
    let digest = Sha256::digest(email.as_bytes());
    let first = digest.iter().take(ACCOUNT_BYTES);
    first.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp(1_000_000);

    fn reported(method: &str, params: Value) -> Notification {
        Notification::parse(method, &params)
    }

    fn limits(rate_limits: Value) -> Notification {
        reported(
            "account/rateLimits/updated",
            json!({"rateLimits": rate_limits}),
        )
    }

    fn used(percent: i64, resets_at: i64) -> Notification {
        let window =
            json!({"usedPercent": percent, "resetsAt": resets_at, "windowDurationMins": 300});
        limits(json!({"limitId": "codex", "primary": window, "secondary": null}))
    }

    fn failed(info: &str) -> Notification {
        let error = json!({"message": "no", "codexErrorInfo": info});
        reported(
            "turn/completed",
            json!({"threadId": "t", "turn": {"id": "u", "status": "failed", "error": error}}),
        )
    }

    fn after(notifications: &[Notification]) -> AccountState {
        let account = AccountState::default();
        for notification in notifications {
            account.notice(notification, NOW);
        }
        account
    }

    fn refused(account: &AccountState) -> Option<i64> {
        account
            .report()
            .and_then(|it| it.refused_until)
            .map(|at| at.0)
    }

    #[test]
    fn usage_limit_counts_until_reset() {
        let account = after(&[used(100, 1_500)]);
        assert_eq!(refused(&account), None, "no turn has failed for it yet");
        account.notice(&failed("usageLimitExceeded"), NOW);
        assert_eq!(refused(&account), Some(1_500_000));
        assert_eq!(account.resets_at(NOW), Some(Timestamp(1_500_000)));
        account.notice(&used(3, 9_000), NOW);
        assert_eq!(refused(&account), None, "there is room again");
    }

    #[test]
    fn ignores_other_failures_and_expired_limits() {
        let other = after(&[used(100, 1_500), failed("internalServerError")]);
        assert_eq!(refused(&other), None);
        let past = after(&[used(100, 900), failed("usageLimitExceeded")]);
        assert_eq!(refused(&past), None);
    }

    #[test]
    fn sparse_update_keeps_what_it_does_not_name() {
        let credits = json!({"hasCredits": true, "unlimited": false, "balance": null});
        let account = after(&[
            used(40, 1_500),
            limits(json!({"limitId": null, "credits": credits, "primary": null})),
        ]);
        let report = account.report().unwrap();
        assert!(report.has_credits);
        let primary = report.primary.unwrap();
        assert_eq!((primary.used_percent, primary.minutes), (40, Some(300)));
        account.notice(
            &limits(json!({"limitId": "codex_other", "primary": {"usedPercent": 100}})),
            NOW,
        );
        assert_eq!(
            account.report().unwrap().primary,
            Some(primary),
            "of other models"
        );
    }

    #[test]
    fn new_login_has_all_of_its_limit() {
        let account = after(&[used(100, 1_500), failed("usageLimitExceeded")]);
        account.notice(&reported("account/updated", json!({})), NOW);
        assert_eq!(account.report(), Some(QuotaReport::default()));
        let of = |kind: &str, email: Option<&str>| Account {
            r#type: kind.to_owned(),
            plan_type: None,
            email: email.map(str::to_owned),
        };
        let account = after(&[used(100, 1_500)]);
        account.logged_in(Some(&of("chatgpt", Some("ann@example.org"))));
        let named = account.report().unwrap();
        assert_eq!(
            named.account.as_ref().map(String::len),
            Some(2 * ACCOUNT_BYTES)
        );
        assert!(named.primary.is_some());
        account.logged_in(Some(&of("chatgpt", Some("bob@example.org"))));
        assert_ne!(account.report().unwrap().account, named.account);
        assert_eq!(account.report().unwrap().primary, None);
        let account = after(&[used(100, 1_500)]);
        account.logged_in(Some(&of("apiKey", None)));
        assert_eq!(account.report(), Some(QuotaReport::default()));
        assert_eq!(AccountState::default().report(), None, "nothing was said");
    }
}
