//! How many claims the scheduler asks for at the same time. Each waits for the disk, and those that are asked for
//! together wait together; but whoever finds nothing has looked in vain, so a lone message is looked for alone.

use crate::limits::CLAIMS_AT_ONCE_MAX;

/// The number of claims of the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    now: usize,
    /// Whether the last round found something in every place.
    found: bool,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            now: 1,
            found: false,
        }
    }
}

impl Claims {
    /// So many now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now
    }

    /// What the round was: whether each of its claims found something. The second round is as small as the first.
    pub fn round(&mut self, found: bool) {
        *self = match (found, self.found) {
            (true, true) => Self {
                now: self.now.saturating_mul(2).min(CLAIMS_AT_ONCE_MAX),
                found,
            },
            (true, false) => Self { now: 1, found },
            (false, _) => Self::default(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_rounds_double_then_reset() {
        let mut claims = Claims::default();
        let rounds = [true, true, true, true, true, true, true, false, true];
        let widths = rounds.map(|found| {
            let now = claims.now();
            claims.round(found);
            now
        });
        assert_eq!(widths, [1, 1, 2, 4, 8, 16, 16, 16, 1]);
    }
}
