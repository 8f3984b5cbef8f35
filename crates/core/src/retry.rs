//! How long to wait before the next try. Randomness is an argument.

/// Exponential backoff with equal jitter: between half and all of `base * 2^n`, at most `max`.
///
/// `jitter` is a random number in 0..=1000. The wait never is zero, so a failing edge is not hammered.
#[must_use]
pub fn backoff_ms(tries: u32, base_ms: i64, max_ms: i64, jitter: u16) -> i64 {
    let doubled = base_ms
        .saturating_mul(1_i64 << tries.min(30))
        .min(max_ms)
        .max(1);
    let half = doubled / 2;
    let part = half.saturating_mul(i64::from(jitter.min(1000))) / 1000;
    (doubled - half).saturating_add(part).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_cap() {
        for (tries, jitter, wait) in [
            (0, 1000, 2_000),
            (0, 0, 1_000),
            (1, 1000, 4_000),
            (3, 500, 12_000),
            (30, 1000, 60_000),
            (200, 0, 30_000),
        ] {
            assert_eq!(
                backoff_ms(tries, 2_000, 60_000, jitter),
                wait,
                "{tries} {jitter}"
            );
        }
        assert_eq!(backoff_ms(0, 0, 0, 0), 1);
    }
}
