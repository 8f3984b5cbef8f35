//! Whether two runs agree: every ratio of one is looked up in the other, for the parts that both have.

use crate::plan::Part;
use crate::section::Ratio;
use anyhow::ensure;

/// Two runs may differ so much in a ratio, as a share of the smaller one.
pub(crate) const MOST: f64 = 0.15;

/// One ratio in both runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compared {
    pub(crate) words: String,
    /// Zero: the earlier run did not measure it.
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

/// Fails where the earlier run has nothing of what this one measured.
pub(crate) fn compare(
    parts: &[Part],
    before: &[Ratio],
    now: &[Ratio],
) -> anyhow::Result<Vec<Compared>> {
    let measured = |ratio: &&Ratio| parts.iter().any(|part| ratio.key.starts_with(&part.key()));
    let value = |of: &[Ratio], key: &str| of.iter().find(|one| one.key == key).map(|one| one.value);
    let mut compared: Vec<Compared> = before
        .iter()
        .filter(measured)
        .map(|ratio| Compared {
            words: ratio.words.clone(),
            before: ratio.value,
            now: value(now, &ratio.key),
        })
        .collect();
    ensure!(
        !compared.is_empty(),
        "the earlier run measured nothing of what this one did"
    );
    let new = now
        .iter()
        .filter(|ratio| value(before, &ratio.key).is_none());
    compared.extend(new.map(|ratio| Compared {
        words: ratio.words.clone(),
        before: 0.0,
        now: Some(ratio.value),
    }));
    Ok(compared)
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
    fn runs_agree_within_tolerance_both_ways() {
        let before = [
            ratio("cost.a", 1.0),
            ratio("cost.b", 1.0),
            ratio("cost.c", 1.16),
            ratio("cost.d", 1.0),
            ratio("flood.f", 1.0),
        ];
        let now = [
            ratio("cost.c", 1.0),
            ratio("cost.b", 0.88),
            ratio("cost.a", 1.15),
            ratio("cost.e", 1.0),
        ];
        let compared = compare(&[Part::Cost], &before, &now).unwrap();
        let agrees: Vec<bool> = compared.iter().map(Compared::agrees).collect();
        let expected = [true, true, false, false, false];
        assert_eq!(agrees, expected, "d is not measured now, e was not then");
    }

    #[test]
    fn nothing_agrees_with_zero_or_with_nothing() {
        let before = [ratio("cost.a", 0.0)];
        let now = [ratio("cost.a", 1.0)];
        let compared = compare(&[Part::Cost], &before, &now).unwrap();
        assert!(compared.iter().all(|one| !one.agrees()));
        assert!(compare(&[Part::Flood], &before, &[]).is_err());
    }
}
