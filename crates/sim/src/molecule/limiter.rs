//! What stands before every call: the rate limit, one fixed window per bearer, and the guard of a platform that
//! serves organisations. Both are off unless the options say otherwise.

use std::collections::BTreeMap;

use serde_json::json;

use super::ground::Ground;
use super::options::Tenant;
use super::route::Route;
use super::time::Micros;
use super::wire::{Answer, Call};

/// The length of a window in seconds.
const WINDOW_SECS: i64 = 60;
/// Callers that are counted apart.
const BUCKETS_MOST: usize = 1_024;

/// Calls of each caller in the running window.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    buckets: BTreeMap<String, (Micros, u32)>,
}

/// Where a caller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) limit: u32,
    pub(super) left: u32,
    /// Seconds until the window ends, down to zero in its last second.
    pub(super) reset: u32,
    pub(super) over: bool,
}

impl Ground {
    /// Counts a call; none when nothing is limited.
    pub(super) fn count(&mut self, call: &Call) -> Option<Standing> {
        let limit = self.options.rate_limit?;
        let key = ["x-molecule-org-id", "authorization"];
        let key = key
            .iter()
            .find_map(|name| call.header(name))
            .unwrap_or("ip");
        let now = self.clock.now();
        let buckets = &mut self.limiter.buckets;
        if buckets.len() >= BUCKETS_MOST {
            buckets.clear();
        }
        let (start, used) = buckets.entry(key.to_owned()).or_insert((now, 0));
        if now.0.saturating_sub(start.0) >= WINDOW_SECS * 1_000_000 {
            (*start, *used) = (now, 0);
        }
        let over = *used >= limit;
        *used = used.saturating_add(1);
        let gone = now.0.saturating_sub(start.0) / 1_000_000;
        let reset = u32::try_from((WINDOW_SECS - 1 - gone).max(0)).unwrap_or(0);
        Some(Standing {
            limit,
            left: limit.saturating_sub(*used),
            reset,
            over,
        })
    }

    /// Whether a call says which organisation it means, where that is asked.
    pub(super) fn guard(&self, call: &Call) -> Result<(), Answer> {
        let Some(tenant) = &self.options.tenant else {
            return Ok(());
        };
        let open = [
            Route::Health,
            Route::BuildInfo,
            Route::Register,
            Route::Heartbeat,
        ];
        if open.contains(&call.place.route) {
            return Ok(());
        }
        self.same_tenant(tenant, call)
    }

    fn same_tenant(&self, tenant: &Tenant, call: &Call) -> Result<(), Answer> {
        let origin = call.header("origin");
        if origin.is_some_and(|origin| origin != self.base) {
            return Err(Answer::empty(403));
        }
        match call.header("x-molecule-org-id") {
            Some(org) if org == tenant.org => Ok(()),
            Some(_) => Err(Answer::empty(404)),
            None if tenant.origin_counts && origin.is_some() => Ok(()),
            None => Err(Answer::json(
                400,
                json!({
                    "code": "TENANT_ORG_HEADER_REQUIRED",
                    "error": "missing tenant routing header",
                    "detail": "SaaS tenant API requests must include X-Molecule-Org-Id matching the organization UUID.",
                    "required_header": "X-Molecule-Org-Id",
                }),
            )),
        }
    }
}

/// What a caller over the limit is told.
pub(super) fn too_many(standing: Standing) -> Answer {
    let mut answer = Answer::json(
        429,
        json!({"error": "rate limit exceeded", "retry_after": standing.reset}),
    );
    answer.retry_after = Some(standing.reset);
    answer
}
