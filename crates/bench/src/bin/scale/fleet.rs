//! The simulation: messages arrive at nodes at random; each life is transitions, a turn, and transitions again. A node
//! gathers the transitions that wait into one batch, and the batches of all nodes go one after the other.

use crate::costs::{Costs, PROCESSORS, turns_per_second};
use bridge_sim::Dice;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Jobs in one batch, as in the ledger.
const BATCH_MAX: usize = 256;
/// Arrivals come for so long; the first part is not counted.
const UNTIL_US: u64 = 40_000_000;
const COUNTED_FROM_US: u64 = 10_000_000;
/// A fleet that has this part of its messages unfinished, so long after the last one, does not keep up.
const DRAIN_US: u64 = 40_000_000;

/// The base-two logarithm of how many even parts chance has.
const STEPS_LOG2: u32 = 20;

/// The logarithm of so many of these parts, by squaring: `f64::ln` may differ in its last bit from machine to machine, and
/// with it the table.
fn ln_of_steps(parts: u64) -> f64 {
    const ONE: u64 = 1 << 32;
    let whole = parts.ilog2();
    let (mut rest, mut log2) = (parts << (32 - whole), u64::from(whole) * ONE);
    for bit in (0..32).rev() {
        rest = ((u128::from(rest) * u128::from(rest)) >> 32) as u64;
        if rest >= 2 * ONE {
            rest >>= 1;
            log2 += 1 << bit;
        }
    }
    let below_all = u64::from(STEPS_LOG2) * ONE - log2;
    -(below_all as f64 / ONE as f64) * std::f64::consts::LN_2
}

/// Whether the ledger keeps up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Kept {
        /// How much of the time the writers' lock is held.
        busy_percent: u64,
        /// What a message waits for the ledger in all its life.
        waited_p99_us: u64,
    },
    Behind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    /// The model has thought: Codex needs a processor.
    Thought {
        life: usize,
    },
    /// Codex is done with a turn.
    Done {
        life: usize,
    },
    /// The batch of a node is on disk.
    Committed {
        node: usize,
    },
}

#[derive(Debug)]
struct Life {
    node: usize,
    began: u64,
    /// Transitions until the next stage.
    left: u32,
    answered: bool,
    asked: u64,
    waited: u64,
}

#[derive(Debug, Default)]
struct Node {
    running: usize,
    ready: VecDeque<usize>,
    waiting: VecDeque<usize>,
    batch: Vec<usize>,
}

pub(crate) struct Simulation<'a> {
    costs: &'a Costs,
    dice: Dice,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    lives: Vec<Life>,
    nodes: Vec<Node>,
    /// Nodes that wait for the writers' lock.
    line: VecDeque<usize>,
    held: bool,
    held_us: u64,
    waits: Vec<u64>,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(costs: &'a Costs, nodes: usize) -> Self {
        Self {
            costs,
            dice: Dice::new(nodes as u64),
            now: 0,
            events: BinaryHeap::from([Reverse((0, Event::Arrives))]),
            lives: Vec::new(),
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            line: VecDeque::new(),
            held: false,
            held_us: 0,
            waits: Vec::new(),
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        while let Some(Reverse((at, event))) = self.events.pop() {
            if at > UNTIL_US + DRAIN_US {
                return Outcome::Behind;
            }
            self.now = at;
            match event {
                Event::Arrives => self.arrive(),
                Event::Thought { life } => self.thought(life),
                Event::Done { life } => self.done(life),
                Event::Committed { node } => self.committed(node),
            }
            self.commit_next();
        }
        self.waits.sort_unstable();
        let p99 = self.waits.len() * 99 / 100;
        Outcome::Kept {
            busy_percent: self.held_us * 100 / (UNTIL_US - COUNTED_FROM_US),
            waited_p99_us: self.waits.get(p99).copied().unwrap_or_default(),
        }
    }

    /// A time until something that happens at random so often.
    fn random(&mut self, mean_us: f64) -> u64 {
        let even = self.dice.below(1 << STEPS_LOG2) + 1;
        (-ln_of_steps(even) * mean_us) as u64
    }

    fn at(&mut self, after: u64, event: Event) {
        self.events.push(Reverse((self.now + after, event)));
    }

    fn arrive(&mut self) {
        let node = self.dice.below(self.nodes.len() as u64) as usize;
        let life = self.lives.len();
        self.lives.push(Life {
            node,
            began: self.now,
            left: self.costs.before,
            answered: false,
            asked: self.now,
            waited: 0,
        });
        self.ask(life);
        let next = self.random(1e6 / turns_per_second(self.nodes.len()));
        if self.now + next < UNTIL_US {
            self.at(next, Event::Arrives);
        }
    }

    /// A transition of this life waits for its batch.
    fn ask(&mut self, life: usize) {
        let one = &mut self.lives[life];
        one.asked = self.now;
        let at = one.node;
        let node = &mut self.nodes[at];
        if node.waiting.is_empty() && node.batch.is_empty() {
            self.line.push_back(at);
        }
        node.waiting.push_back(life);
    }

    fn commit_next(&mut self) {
        if self.held {
            return;
        }
        let Some(at) = self.line.pop_front() else {
            return;
        };
        let node = &mut self.nodes[at];
        let jobs = node.waiting.len().min(BATCH_MAX);
        node.batch = node.waiting.drain(..jobs).collect();
        let took = self.costs.batch(jobs);
        self.held = true;
        if (COUNTED_FROM_US..UNTIL_US).contains(&self.now) {
            self.held_us += took;
        }
        self.at(took, Event::Committed { node: at });
    }

    fn committed(&mut self, at: usize) {
        self.held = false;
        for life in std::mem::take(&mut self.nodes[at].batch) {
            let one = &mut self.lives[life];
            one.waited += self.now - one.asked;
            one.left -= 1;
            match (one.left, one.answered) {
                (0, false) => {
                    let thinks = self.random(self.costs.model_us as f64);
                    self.at(thinks, Event::Thought { life });
                }
                (0, true) if one.began >= COUNTED_FROM_US => self.waits.push(one.waited),
                (0, true) => {}
                _ => self.ask(life),
            }
        }
        if !self.nodes[at].waiting.is_empty() && !self.line.contains(&at) {
            self.line.push_back(at);
        }
    }

    fn thought(&mut self, life: usize) {
        let at = self.lives[life].node;
        if self.nodes[at].running < PROCESSORS {
            self.nodes[at].running += 1;
            self.at(self.costs.turn_us, Event::Done { life });
        } else {
            self.nodes[at].ready.push_back(life);
        }
    }

    fn done(&mut self, life: usize) {
        let at = self.lives[life].node;
        match self.nodes[at].ready.pop_front() {
            Some(next) => self.at(self.costs.turn_us, Event::Done { life: next }),
            None => self.nodes[at].running -= 1,
        }
        let one = &mut self.lives[life];
        (one.answered, one.left) = (true, self.costs.after);
        self.ask(life);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_near_and_fixed() {
        for parts in [1, 2, 3, 1_000, 524_288, 777_777, (1 << STEPS_LOG2) - 1] {
            let even = parts as f64 / f64::from(1 << STEPS_LOG2);
            let found = ln_of_steps(parts);
            assert!((found - even.ln()).abs() < 1e-8, "{parts}: {found}");
        }
        assert!(ln_of_steps(1 << STEPS_LOG2).abs() < 1e-12);
        assert_eq!(ln_of_steps(3).to_bits(), 0xc029_8756_6f64_8529);
    }
}
