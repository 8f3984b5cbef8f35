//! Fail points: a debug build can be told to die at a named place, as `kill -9` would kill it there.
//!
//! Every transition has two, `<name>.before` its commit and `<name>.after` it. A release build has none of this.

/// A real death at this place, if the plan says so.
#[cfg(not(debug_assertions))]
#[inline]
pub fn pass(_transition: &'static str, _side: Side) {}

#[cfg(debug_assertions)]
pub use planned::{arm, pass};

/// Which side of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Nothing is written yet.
    Before,
    /// It is on disk, and nothing was done about it.
    After,
}

#[cfg(debug_assertions)]
mod planned {
    use super::Side;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    static PLAN: OnceLock<Plan> = OnceLock::new();

    /// Where and when to die.
    #[derive(Debug)]
    struct Plan {
        transition: String,
        side: Side,
        /// At which pass; the first is 1.
        pass: u32,
        /// How long after it.
        delay: Duration,
        passed: AtomicU32,
    }

    impl Plan {
        /// `begin.after`, `begin.after#2` at the second pass, `begin.after+3000` that many microseconds later.
        fn read(text: &str) -> Option<Self> {
            let (text, delay) = text.split_once('+').unwrap_or((text, "0"));
            let (text, pass) = text.split_once('#').unwrap_or((text, "1"));
            let (transition, side) = text.split_once('.')?;
            let side = match side {
                "before" => Side::Before,
                "after" => Side::After,
                _ => return None,
            };
            Some(Self {
                transition: transition.to_owned(),
                side,
                pass: pass.parse().ok()?,
                delay: Duration::from_micros(delay.parse().ok()?),
                passed: AtomicU32::new(0),
            })
        }
    }

    /// Reads the plan once; one that can't be read is reported and ignored.
    pub fn arm(plan: &str) {
        match Plan::read(plan) {
            Some(plan) => {
                PLAN.get_or_init(|| plan);
            }
            None => tracing::warn!(plan, "this fail point can't be read"),
        }
    }

    /// A real death at this place, if the plan says so.
    pub fn pass(transition: &'static str, side: Side) {
        let Some(plan) = PLAN.get() else {
            return;
        };
        if plan.transition != transition || plan.side != side {
            return;
        }
        if plan.passed.fetch_add(1, Ordering::Relaxed) + 1 != plan.pass {
            return;
        }
        let delay = plan.delay;
        if delay.is_zero() {
            die();
        }
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            die();
        });
    }

    /// Like `kill -9`: no destructor, no flush, no goodbye.
    fn die() -> ! {
        std::process::abort()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn parses_failpoint_plan() {
            let read = |text| {
                let plan = Plan::read(text)?;
                Some((
                    plan.transition,
                    plan.side,
                    plan.pass,
                    plan.delay.as_micros(),
                ))
            };
            let begin = || "begin".to_owned();
            assert_eq!(read("begin.after"), Some((begin(), Side::After, 1, 0)));
            assert_eq!(
                read("begin.before#3+250"),
                Some((begin(), Side::Before, 3, 250))
            );
            assert_eq!(read("begin"), None);
            assert_eq!(read("begin.during"), None);
        }
    }
}
