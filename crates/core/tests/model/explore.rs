//! Breadth-first over everything that can happen, so that the first trace to a broken rule is a shortest one.
//!
//! States are told apart by their whole key, never by a hash alone.

use crate::setup::Setup;
use crate::steps::{self, Step};
use crate::world::World;
use crate::{key, rules};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;

/// More states than any exploration here has: reaching it means that something grows without end.
const STATES_MAX: usize = 4_000_000;

/// What an exploration found.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) states: usize,
    /// States in which nothing more happens without a fault.
    pub(crate) quiet: usize,
    /// Every kind of step that was taken.
    pub(crate) steps: BTreeSet<&'static str>,
    pub(crate) violation: Option<Violation>,
}

/// A broken rule, and the shortest way to it.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    trace: Vec<Step>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {} steps:", self.rule, self.trace.len())?;
        for (at, step) in self.trace.iter().enumerate() {
            writeln!(f, "  {:2}. {step}", at + 1)?;
        }
        Ok(())
    }
}

/// How a state was reached: from which one, by which step.
type Reached = Vec<Option<(usize, Step)>>;

/// Explores everything, or up to the first broken rule.
pub(crate) fn explore(setup: &Setup) -> Report {
    let start = World::new(setup);
    let mut known = HashMap::from([(key::of(&start, setup), 0)]);
    let mut reached: Reached = vec![None];
    let mut edges = Edges::default();
    let mut queue = VecDeque::from([(0_usize, start)]);
    let mut report = Report {
        states: 0,
        quiet: 0,
        steps: BTreeSet::new(),
        violation: None,
    };
    while let Some((at, world)) = queue.pop_front() {
        let nexts = steps::all(&world, setup);
        let quiet = nexts.iter().all(|next| next.step.fault);
        report.quiet += usize::from(quiet);
        if let Some(rule) = rules::broken(&world, setup, quiet) {
            let trace = trace(&reached, at);
            report.violation = Some(Violation { rule, trace });
            break;
        }
        for next in nexts {
            report.steps.insert(next.step.what);
            let fault = next.step.fault;
            let new = reached.len();
            let to = *known.entry(key::of(&next.world, setup)).or_insert(new);
            if to == new {
                reached.push(Some((at, next.step)));
                queue.push_back((new, next.world));
            }
            if !fault {
                edges.push((at, to));
            }
        }
        assert!(known.len() < STATES_MAX, "{setup:?} does not end");
    }
    report.states = known.len();
    if report.violation.is_none()
        && let Some(at) = in_a_circle(&edges, reached.len())
    {
        let rule = "work goes round in circles without a fault";
        let trace = trace(&reached, at);
        report.violation = Some(Violation { rule, trace });
    }
    report
}

/// Steps that are no faults, from state to state.
type Edges = Vec<(usize, usize)>;

/// A state from which work can go on for ever, if there is one: what is left when ends are taken away again and
/// again.
fn in_a_circle(edges: &Edges, states: usize) -> Option<usize> {
    let mut ways_out = vec![0_usize; states];
    let mut ways_in: Vec<Vec<usize>> = vec![Vec::new(); states];
    for (from, to) in edges {
        *ways_out.get_mut(*from).unwrap() += 1;
        ways_in.get_mut(*to).unwrap().push(*from);
    }
    let ends = |ways_out: &[usize]| {
        (0..states)
            .filter(|at| ways_out.get(*at) == Some(&0))
            .collect()
    };
    let mut ended: Vec<usize> = ends(&ways_out);
    while let Some(at) = ended.pop() {
        for from in ways_in.get(at).into_iter().flatten() {
            let ways = ways_out.get_mut(*from).unwrap();
            *ways -= 1;
            if *ways == 0 {
                ended.push(*from);
            }
        }
    }
    ways_out.iter().position(|ways| *ways > 0)
}

fn trace(reached: &Reached, mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((before, step)) = reached.get(at).copied().flatten() {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    steps
}
