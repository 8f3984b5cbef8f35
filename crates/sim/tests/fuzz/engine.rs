//! Runs one target: the corpus first, then what is made of it, each input under the same promises. Inputs that make
//! the target do something new are used to make more.

use crate::mutate::Mutator;
use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Memory that an input may take at its peak, beside so many bytes per byte of its own: a `0,` of two bytes is a
/// `Value` of 32 in a list that doubles, and some targets keep the input in three forms.
const MEMORY_FLOOR: u64 = 8 << 20;
const MEMORY_PER_BYTE: u64 = 400;
/// Processor time that an input may take: the slowest are a quarter of a megabyte, unoptimised.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });
/// Inputs that are kept to make others.
const POOL_MAX: usize = 4_000;
/// Words of one behaviour that are told apart.
const WORDS_MAX: usize = 300;

/// Something that reads what strangers wrote.
pub(crate) trait Target {
    /// Names its corpus.
    const NAME: &'static str;
    /// Words that mean something to it.
    const DICTIONARY: &'static [&'static str];

    /// Reads one input; says in words what it did. An error is a broken promise.
    fn read(&mut self, input: &[u8]) -> Result<String, String>;
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Inputs(u64),
    Passed(Duration),
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) inputs: u64,
    pub(crate) corpus: usize,
    pub(crate) behaviours: usize,
    pub(crate) peak: u64,
    pub(crate) slowest: Duration,
    /// Broken promises, with the file of the input.
    pub(crate) findings: Vec<String>,
}

thread_local! {
    /// What the last panic of a run said: handlers and tasks catch theirs, so that nothing else would tell. Absent
    /// outside of a run.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// From now on panics of runs are noted, and all others are told as usual.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let in_run = PANIC.with_borrow_mut(|noted| match noted {
                Some(noted) => {
                    *noted = Some(info.to_string());
                    true
                }
                None => false,
            });
            if !in_run {
                usual(info);
            }
        }));
    });
}

struct Run<'a, T> {
    target: &'a mut T,
    pool: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    done: Done,
    /// Where inputs go that did something new; an ordinary run keeps none.
    keep: Option<PathBuf>,
}

pub(crate) fn corpus_of(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join("fuzz/corpus").join(name)
}

/// Where an exploration leaves what it found.
fn place_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("fuzz")
        .join(name)
}

/// Runs a target from a seed.
pub(crate) fn run<T: Target>(target: &mut T, seed: u64, until: Until, explore: bool) -> Done {
    note_panics();
    let mut run = Run {
        target,
        pool: Vec::new(),
        seen: HashSet::new(),
        done: Done {
            inputs: 0,
            corpus: 0,
            behaviours: 0,
            peak: 0,
            slowest: Duration::ZERO,
            findings: Vec::new(),
        },
        keep: explore.then(|| place_of(T::NAME)),
    };
    run.replay();
    run.mutate(seed, until);
    run.done
}

impl<T: Target> Run<'_, T> {
    fn replay(&mut self) {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(corpus_of(T::NAME))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        self.done.corpus = paths.len();
        for path in paths {
            let input = std::fs::read(path).unwrap();
            self.one(&input);
            self.pool.push(input);
        }
    }

    fn mutate(&mut self, seed: u64, until: Until) {
        let begun = Instant::now();
        let mut mutator = Mutator::new(seed, T::DICTIONARY);
        while match until {
            Until::Inputs(count) => self.done.inputs < count,
            Until::Passed(time) => begun.elapsed() < time,
        } {
            let (one, other) = (mutator.pick(self.pool.len()), mutator.pick(self.pool.len()));
            let input = mutator.make(&self.pool[one], &self.pool[other]);
            let new = self.one(&input);
            if new && self.pool.len() < POOL_MAX {
                self.pool.push(input);
            }
        }
    }

    /// Reads one input under all promises; whether it did something new.
    fn one(&mut self, input: &[u8]) -> bool {
        self.done.inputs += 1;
        let begun = Instant::now();
        let (read, peak) = self.measured(input);
        let took = begun.elapsed();
        self.done.peak = self.done.peak.max(peak);
        self.done.slowest = self.done.slowest.max(took);
        let words = match read {
            Ok(words) => words,
            Err(broken) => {
                self.found(input, &broken);
                return false;
            }
        };
        let bound = MEMORY_FLOOR + MEMORY_PER_BYTE * input.len() as u64;
        if peak > bound {
            self.found(input, &format!("it took {peak} bytes, {bound} are allowed"));
        }
        // A machine with other work to do is slow now and then; what counts is the processor's time.
        if took > TIME_MAX && self.processor_time(input) > TIME_MAX {
            self.found(
                input,
                &format!("it took {took:?}, {TIME_MAX:?} are allowed"),
            );
        }
        let new = self.seen.insert(behaviour(&words));
        if new {
            self.done.behaviours += 1;
            if self.pool.len() < POOL_MAX {
                self.keep(input, "new");
            }
        }
        new
    }

    fn measured(&mut self, input: &[u8]) -> (Result<String, String>, u64) {
        let mut read = Err(String::new());
        PANIC.set(Some(None));
        let allocated = allocation_counter::measure(|| {
            read = catch_unwind(AssertUnwindSafe(|| self.target.read(input)))
                .unwrap_or_else(|_| Err("it panicked".to_owned()));
        });
        if let Some(Some(panic)) = PANIC.take() {
            read = Err(panic);
        }
        (read, allocated.bytes_max)
    }

    fn processor_time(&mut self, input: &[u8]) -> Duration {
        let spent = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
            let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
            Duration::from_nanos(nanos.unwrap_or(0))
        };
        let before = spent();
        let _again = self.measured(input);
        spent().saturating_sub(before)
    }

    fn found(&mut self, input: &[u8], broken: &str) {
        let path = self.keep(input, "found");
        let shown = String::from_utf8_lossy(&input[..input.len().min(300)]).into_owned();
        let place = path.map_or_else(String::new, |path| format!(" ({})", path.display()));
        let finding = format!("{}: {broken}{place}: {shown:?}", T::NAME);
        if self.done.findings.len() < 20 {
            eprintln!("{finding}");
            self.done.findings.push(finding);
        }
    }

    fn keep(&self, input: &[u8], what: &str) -> Option<PathBuf> {
        let folder = self.keep.as_ref()?.join(what);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{:016x}", hash(input)));
        std::fs::write(&path, input).unwrap();
        Some(path)
    }
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// What was done, without what was said: quoted texts and numbers do not count, and neither does how often.
fn behaviour(words: &str) -> u64 {
    let mut kept: Vec<&str> = Vec::new();
    for (n, outside) in words.split('"').enumerate() {
        if n % 2 == 1 {
            continue;
        }
        for word in outside.split(|letter: char| !letter.is_alphabetic() && letter != '_') {
            if !word.is_empty() && !kept.contains(&word) && kept.len() < WORDS_MAX {
                kept.push(word);
            }
        }
    }
    hash(kept)
}
