//! Whether two runs agree: every ratio of the earlier one is looked up in the later one.

use crate::section::Ratio;

/// Two runs may differ so much in a ratio, as a share of the smaller one.
pub(crate) const MOST: f64 = 0.15;

/// One ratio in both runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compared {
    pub(crate) words: String,
    pub(crate) before: f64,
    /// None: this run did not measure it.
    pub(crate) now: Option<f64>,
}

impl Compared {
    /// How far apart, as a share of the smaller one.
    pub(crate) fn apart(&self) -> Option<f64> {
        let now = self.now?;
        let (small, large) = (now.min(self.before), now.max(self.before));
        (small > 0.0).then(|| large / small - 1.0)
    }

    pub(crate) fn agrees(&self) -> bool {
        self.apart().is_some_and(|apart| apart <= MOST)
    }
}

pub(crate) fn compare(before: &[Ratio], now: &[Ratio]) -> Vec<Compared> {
    let find = |key: &str| now.iter().find(|ratio| ratio.key == key);
    let compared = before.iter().map(|ratio| Compared {
        words: ratio.words.clone(),
        before: ratio.value,
        now: find(&ratio.key).map(|ratio| ratio.value),
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(key: &str, value: f64) -> Ratio {
        Ratio {
            key: key.to_owned(),
            words: key.to_owned(),
            value,
        }
    }

    #[test]
    fn runs_agree_within_the_share_in_both_directions() {
        let before = [
            ratio("a", 1.0),
            ratio("b", 1.0),
            ratio("c", 1.16),
            ratio("d", 1.0),
        ];
        let now = [ratio("c", 1.0), ratio("b", 0.88), ratio("a", 1.15)];
        let agrees: Vec<bool> = compare(&before, &now)
            .iter()
            .map(Compared::agrees)
            .collect();
        assert_eq!(agrees, [true, true, false, false], "d was not measured");
    }

    #[test]
    fn nothing_agrees_with_zero() {
        assert!(
            compare(&[ratio("a", 0.0)], &[ratio("a", 1.0)])
                .iter()
                .all(|one| !one.agrees())
        );
    }
}
