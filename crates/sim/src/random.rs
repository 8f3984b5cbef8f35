//! Numbers that look random and come again with the same seed (splitmix64), for faults that can be replayed.
//! Not for anything that must not be guessed.

/// A seeded source of numbers.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The numbers of this seed for one thing among many, whatever was drawn for the others.
    #[must_use]
    pub fn of(seed: u64, thing: &[u64]) -> Self {
        thing.iter().fold(Self::new(seed), |mut dice, part| {
            Self::new(dice.roll() ^ part)
        })
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero when there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let width = high.saturating_sub(low).saturating_add(1);
        low.saturating_add(self.below(width))
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, permille: u16) -> bool {
        self.below(1_000) < u64::from(permille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_are_deterministic_per_seed() {
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            [dice.roll(), dice.roll(), dice.roll()]
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        let of = |thing: &[u64]| Dice::of(7, thing).roll();
        assert_eq!(of(&[1, 2]), of(&[1, 2]));
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
    }

    #[test]
    fn bounds_hold_and_chances_are_about_right() {
        let mut dice = Dice::new(1);
        assert_eq!(dice.below(0), 0);
        assert!((0..1_000).all(|_| (3..=5).contains(&dice.between(3, 5))));
        let hits = (0..10_000).filter(|_| dice.chance(100)).count();
        assert!((800..1_200).contains(&hits), "{hits}");
        assert!(!dice.chance(0) && dice.chance(1_000));
    }
}
