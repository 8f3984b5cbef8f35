//! The limit of the account that the scripted model plays: so many requests in a window, told in the headers of every
//! answer and refused beyond, as the provider of ChatGPT plans does it. Pure.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

/// A limit that is shared by all who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests that one window has room for.
    pub requests: u32,
    /// Length of a window; the first begins with the first request.
    pub window_secs: u64,
}

/// How much of it is used.
#[derive(Debug, Default)]
pub(super) struct QuotaUse {
    used: u32,
    /// In seconds of the Unix epoch.
    resets_at: u64,
    refused: u64,
}

/// What a request was counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) used_percent: u64,
    pub(super) window_minutes: u64,
    pub(super) resets_at: u64,
    pub(super) refused: bool,
}

impl QuotaUse {
    /// Counts a request at `now`, or refuses it.
    pub(super) fn count(&mut self, quota: Quota, now: u64) -> Counted {
        if now >= self.resets_at {
            self.used = 0;
            self.resets_at = now.saturating_add(quota.window_secs);
        }
        let refused = self.used >= quota.requests;
        if refused {
            self.refused += 1;
        } else {
            self.used += 1;
        }
        let percent = u64::from(self.used) * 100 / u64::from(quota.requests.max(1));
        Counted {
            used_percent: percent,
            window_minutes: quota.window_secs.div_ceil(60),
            resets_at: self.resets_at,
            refused,
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Tells it where Codex reads it.
pub(super) fn tell(response: &mut Response, counted: Counted) {
    for (name, value) in [
        ("x-codex-primary-used-percent", counted.used_percent),
        ("x-codex-primary-window-minutes", counted.window_minutes),
        ("x-codex-primary-reset-at", counted.resets_at),
    ] {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .insert(name, HeaderValue::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_has_room_for_so_many_and_begins_anew() {
        let quota = Quota {
            requests: 4,
            window_secs: 90,
        };
        let mut used = QuotaUse::default();
        let percents: Vec<_> = (0..5).map(|n| used.count(quota, 1_000 + n)).collect();
        let told: Vec<_> = percents
            .iter()
            .map(|it| (it.used_percent, it.refused))
            .collect();
        let expected = [
            (25, false),
            (50, false),
            (75, false),
            (100, false),
            (100, true),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            (percents[4].resets_at, percents[4].window_minutes),
            (1_090, 2)
        );
        assert_eq!(used.count(quota, 1_090).used_percent, 25);
        assert_eq!(used.refused(), 1);
    }
}
