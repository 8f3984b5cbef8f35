//! Every parser that strangers reach, with inputs made from a committed corpus: no panic, bounded memory, bounded time,
//! nothing lost and nothing invented. An ordinary run replays the corpus and some thousand inputs more, the same every
//! time; `cargo xtask fuzz` goes on for minutes, from a seed of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod engine;
mod front;
mod mutate;
mod peers;
mod wire;
mod words;

#[path = "../../../front/tests/api/service.rs"]
#[allow(
    dead_code,
    reason = "the service of the front's own tests; not all of it is used here"
)]
mod service;

use engine::{Target, Until, run};
use front::{A2aRest, A2aRpc, Front, HttpApi, Mcp};
use peers::{Agent, Codex, Molecule};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::HttpWire;

/// Inputs of an ordinary run, beside the corpus.
const INPUTS: u64 = 3_000;
/// Inputs where each is a connection or a call with tasks behind it.
const INPUTS_SLOW: u64 = 2_000;
const SEED: u64 = 61;

fn keeps_its_promises(target: &mut impl Target, inputs: u64) {
    let done = run(target, SEED, Until::Inputs(inputs), false);
    assert_eq!(done.findings, Vec::<String>::new());
    assert!(done.corpus > 5, "the corpus is there: {done:?}");
    assert!(done.behaviours > 10, "it does many things: {done:?}");
}

#[test]
fn fuzzed_a2a_rpc_keeps_its_promises() {
    keeps_its_promises(&mut A2aRpc(Front::new()), INPUTS_SLOW);
}

#[test]
fn fuzzed_a2a_rest_keeps_its_promises() {
    keeps_its_promises(&mut A2aRest(Front::new()), INPUTS_SLOW);
}

#[test]
fn fuzzed_api_keeps_its_promises() {
    keeps_its_promises(&mut HttpApi(Front::new()), INPUTS_SLOW);
}

#[test]
fn fuzzed_mcp_keeps_its_promises() {
    keeps_its_promises(&mut Mcp::new(), INPUTS_SLOW);
}

#[test]
fn fuzzed_http_keeps_its_promises() {
    keeps_its_promises(&mut HttpWire::new(), INPUTS_SLOW);
}

#[test]
fn fuzzed_molecule_keeps_its_promises() {
    keeps_its_promises(&mut Molecule, INPUTS);
}

#[test]
fn fuzzed_agents_keep_their_promises() {
    keeps_its_promises(&mut Agent, INPUTS);
}

#[test]
fn fuzzed_codex_keeps_its_promises() {
    keeps_its_promises(&mut Codex::new(), INPUTS);
}

/// Breaks each promise for a word that only the dictionary has.
struct Planted;

impl Target for Planted {
    const NAME: &'static str = "agent";
    const DICTIONARY: &'static [&'static str] = &["panics", "swells", "invents"];

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        let has = |word: &str| {
            input
                .windows(word.len())
                .any(|here| here == word.as_bytes())
        };
        if has("panics") {
            panic!("planted");
        }
        if has("swells") {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(200 << 20)));
        }
        if has("invents") {
            Err("it was never said".to_owned())
        } else {
            Ok(input.len().to_string())
        }
    }
}

#[test]
fn planted_defects_are_found() {
    let done = run(&mut Planted, SEED, Until::Inputs(1_000), false);
    for words in ["planted", "bytes, ", "it was never said"] {
        let found = done.findings.iter().any(|finding| finding.contains(words));
        assert!(found, "{words}: {:?}", done.findings);
    }
}

/// `FUZZ_SECONDS=600 FUZZ_TARGET=mcp` explores; without them there is nothing to do.
#[test]
fn explore() {
    let Some(seconds) = number("FUZZ_SECONDS") else {
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut explored = Explored {
        wanted: std::env::var("FUZZ_TARGET").ok(),
        seed: number("FUZZ_SEED").unwrap_or_else(|| now.map_or(SEED, |passed| passed.as_secs())),
        until: Until::Passed(Duration::from_secs(seconds)),
        known: Vec::new(),
        findings: Vec::new(),
    };
    explored.target(&mut A2aRpc(Front::new()));
    explored.target(&mut A2aRest(Front::new()));
    explored.target(&mut HttpApi(Front::new()));
    explored.target(&mut Mcp::new());
    explored.target(&mut HttpWire::new());
    explored.target(&mut Molecule);
    explored.target(&mut Agent);
    explored.target(&mut Codex::new());
    let Explored { wanted, known, .. } = &explored;
    let is_known = wanted.as_deref().is_none_or(|name| known.contains(&name));
    assert!(is_known, "there is no target {wanted:?}, but {known:?}");
    assert_eq!(explored.findings, Vec::<String>::new());
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

struct Explored {
    wanted: Option<String>,
    seed: u64,
    until: Until,
    known: Vec<&'static str>,
    findings: Vec<String>,
}

impl Explored {
    fn target<T: Target>(&mut self, target: &mut T) {
        self.known.push(T::NAME);
        if self.wanted.as_deref().is_some_and(|name| name != T::NAME) {
            return;
        }
        println!("{}: seed {}, {:?}", T::NAME, self.seed, self.until);
        let done = run(target, self.seed, self.until, true);
        println!(
            "{}: {} inputs, {} behaviours from a corpus of {}, peak {} KiB, slowest {} ms, {} findings",
            T::NAME,
            done.inputs,
            done.behaviours,
            done.corpus,
            done.peak >> 10,
            done.slowest.as_millis(),
            done.findings.len()
        );
        self.findings.extend(done.findings);
    }
}
