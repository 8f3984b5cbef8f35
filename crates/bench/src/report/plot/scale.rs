//! From values to places on the paper, and the round numbers that a reader finds there.

/// A stretch of values on a stretch of paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    /// From 0 to a little more than the largest value.
    pub(super) fn linear(largest: f64, (start, end): (f64, f64)) -> Self {
        Self {
            from: 0.0,
            to: if largest > 0.0 { largest * 1.06 } else { 1.0 },
            start,
            end,
            logarithmic: false,
        }
    }

    /// Zero has no place on it and is shown at the beginning.
    pub(super) fn logarithmic((least, largest): (f64, f64), (start, end): (f64, f64)) -> Self {
        let least = least.max(1.0);
        Self {
            from: least.log10(),
            to: largest.max(least * 10.0).log10(),
            start,
            end,
            logarithmic: true,
        }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic {
            value.max(10_f64.powf(self.from)).log10()
        } else {
            value
        };
        let share = (value - self.from) / (self.to - self.from);
        self.start + share * (self.end - self.start)
    }

    /// Round values for the grid.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (self.from.ceil() as i32, self.to.floor() as i32);
            return (first..=last).map(|power| 10_f64.powi(power)).collect();
        }
        let rough = self.to / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|times| times * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let count = (self.to / step).floor() as u32;
        (0..=count).map(|number| f64::from(number) * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_places_in_order() {
        let scale = Scale::linear(94.0, (0.0, 100.0));
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert!(scale.place(94.0) < 100.0 && scale.place(0.0) == 0.0);
        let scale = Scale::logarithmic((0.0, 1e6), (0.0, 60.0));
        assert_eq!(scale.ticks().len(), 7);
        assert_eq!(
            (scale.place(0.0), scale.place(1e3), scale.place(1e6)),
            (0.0, 30.0, 60.0)
        );
    }
}
