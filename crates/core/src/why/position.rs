//! How far a waiting message is in the order of service, in words.

use super::{WhyRows, in_words};
use crate::limits::PACE_WINDOW_MS;
use crate::port::Kept;
use crate::value::{Class, Timestamp};

/// "; position 14 of 203, expected in about 40 min": for whoever is not alone, and for who waits for capacity.
pub(super) fn of(case: &WhyRows, now: Timestamp) -> String {
    let Some(position) = case.position else {
        return String::new();
    };
    let hold = case.message.life.state.hold();
    let capacity = hold.is_some_and(|hold| matches!(hold.failure.class, Class::Capacity { .. }));
    if position.waiting <= 1 && !capacity && case.kept != Some(Kept::Quota) {
        return String::new();
    }
    let place = position.ahead.saturating_add(1);
    let expected = match expected_at(case, now) {
        Some(at) if at > now => {
            let about = in_words(at, now).replacen("in ", "in about ", 1);
            format!(", expected {about}")
        }
        Some(_) | None => String::new(),
    };
    format!("; position {place} of {}{expected}", position.waiting)
}

/// What is waited for by time, and then those before it at the pace of the last hour. Unknown where nothing was answered
/// lately.
fn expected_at(case: &WhyRows, now: Timestamp) -> Option<Timestamp> {
    let position = case.position?;
    let hold = case.message.life.state.hold().map(|hold| hold.until);
    let slowed = case.slowed.map(|wait| wait.until);
    let start = hold.into_iter().chain(slowed).max().unwrap_or(now).max(now);
    let each = i64::try_from(case.answered_lately).ok()?;
    let ahead = i64::try_from(position.ahead).ok()?;
    let queue = match PACE_WINDOW_MS.checked_div(each) {
        Some(each) => each.saturating_mul(ahead),
        None if ahead == 0 || start > now => 0,
        None => return None,
    };
    Some(start.plus_ms(queue))
}
