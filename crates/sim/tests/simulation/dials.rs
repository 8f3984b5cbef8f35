//! What one seed decides before anything happens: the setting, and which faults there are and how often.
//! Each kind of fault is on or off per seed, so that some seeds meet one kind alone and others meet all of them.

use bridge_core::port::SinkClass;
use bridge_core::step::MidTurn;
use bridge_core::value::{CutPolicy, Sandbox};
use bridge_sim::Dice;

/// Whether Codex lives on when the daemon dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Socket,
    Stdio,
}

/// A defect planted into the driver, which the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A turn that was cut is simply run again: the next one is not told to look first.
    BlindRerun,
    /// A reply is sent with a new key each time.
    FreshKey,
    /// A restart takes rows in flight for rows that wait.
    RestartForgets,
    /// A row that is shown again is taken for a new one.
    DuplicateTaken,
    /// A reply that may have arrived is sent again without a look.
    ProbeSkipped,
    /// A lane that met a refusal is not looked at again.
    LaneForgets,
    /// A time that the provider named by the wall clock is compared with the ledger's clock as it is.
    WallClockBelieved,
    /// Nobody starts the daemon again after a commit whose outcome was not heard.
    NeverRestarted,
}

/// Faults that come by chance, so many times in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) die_at_commit: u16,
    pub(crate) ledger_down: u16,
    pub(crate) ledger_unknown: u16,
    pub(crate) turn_fails: u16,
    pub(crate) start_unheard: u16,
    pub(crate) look_fails: u16,
    pub(crate) steer_deaf: u16,
    pub(crate) tail_lost: u16,
    pub(crate) send_unknown: u16,
    pub(crate) send_refused: u16,
    pub(crate) send_forbidden: u16,
    pub(crate) probe_fails: u16,
    /// The source forgets that a row was read.
    pub(crate) read_lost: u16,
    pub(crate) shown_twice: u16,
    pub(crate) redelivered: u16,
}

/// Faults that come at a time, so many times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) daemon_dies: u64,
    pub(crate) codex_dies: u64,
    pub(crate) reboots: u64,
    pub(crate) clock_jumps: u64,
}

/// One schedule's setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dials {
    pub(crate) host: Host,
    pub(crate) sink: SinkClass,
    pub(crate) sandbox: Sandbox,
    pub(crate) on_cut: CutPolicy,
    pub(crate) mid_turn: MidTurn,
    pub(crate) rates: Rates,
    pub(crate) counts: Counts,
    pub(crate) mutant: Option<Mutant>,
}

fn choose<T>(dice: &mut Dice, one: T, other: T) -> T {
    if dice.chance(500) { one } else { other }
}

fn rate(dice: &mut Dice, most: u64) -> u16 {
    let rate = dice.between(1, most);
    if dice.chance(400) {
        u16::try_from(rate).unwrap()
    } else {
        0
    }
}

fn count(dice: &mut Dice, most: u64) -> u64 {
    let count = dice.between(1, most);
    if dice.chance(500) { count } else { 0 }
}

/// Seeds from here on are storms: providers and platforms fail nearly always.
pub(crate) const STORMS: u64 = 1_000_000;

impl Dials {
    pub(crate) fn of(seed: u64, dice: &mut Dice, mutant: Option<Mutant>) -> Self {
        let mut dials = Self::mixed(dice, mutant);
        if seed >= STORMS {
            dials.rates.turn_fails = 400;
            dials.rates.send_refused = 600;
            dials.rates.send_forbidden = 300;
            dials.counts.clock_jumps = 0;
        }
        dials
    }

    fn mixed(dice: &mut Dice, mutant: Option<Mutant>) -> Self {
        Self {
            host: choose(dice, Host::Socket, Host::Stdio),
            sink: choose(dice, SinkClass::Idempotent, SinkClass::Probeable),
            sandbox: choose(dice, Sandbox::WorkspaceWrite, Sandbox::ReadOnly),
            on_cut: choose(dice, CutPolicy::Continue, CutPolicy::Bury),
            mid_turn: choose(dice, MidTurn::Queue, MidTurn::Steer),
            rates: Rates {
                die_at_commit: rate(dice, 60),
                ledger_down: rate(dice, 150),
                ledger_unknown: rate(dice, 60),
                turn_fails: rate(dice, 200),
                start_unheard: rate(dice, 300),
                look_fails: rate(dice, 400),
                steer_deaf: rate(dice, 400),
                tail_lost: rate(dice, 700),
                send_unknown: rate(dice, 400),
                send_refused: rate(dice, 300),
                send_forbidden: rate(dice, 80),
                probe_fails: rate(dice, 400),
                read_lost: rate(dice, 400),
                shown_twice: rate(dice, 400),
                redelivered: rate(dice, 400),
            },
            counts: Counts {
                daemon_dies: count(dice, 4),
                codex_dies: count(dice, 4),
                reboots: count(dice, 1),
                clock_jumps: count(dice, 3),
            },
            mutant,
        }
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
