//! The arguments of `cargo xtask`, and its help.
//!
//! Only words to values; nothing is run here.

use std::path::PathBuf;

use crate::a2a::Kits;
use crate::dist::Dist;
use crate::matrix::Matrix;

/// What `cargo xtask --help` prints.
pub const HELP: &str = "\
Chores of codex-bridge.

Usage: cargo xtask <COMMAND>

Commands:
  test    Everything that CI does; needs Rust and Node.js, sets up the rest in target/tools
  tidy    Check the rules of the tree: directions, names, sizes, habits
  codex   Install the pinned Codex into target/tools and print its path
  mcp-kit Install the MCP Inspector and conformance suite into target/tools and print where
  console-kit
          Install what drives a browser over the console into target/tools and print where
  pictures
          Take the pictures of docs/guides/console.md from `demo --keep`
  a2a-kit Run the official A2A conformance kits against the built daemon with the pinned Codex
  a2a-sdk Install the official A2A SDK for Python into target/tools and print its interpreter
  simulate
          Play seeded schedules of faults over the core, in release
  fuzz    Feed every parser that strangers reach with inputs made from the corpus, in release
  matrix  Run a core of the suite on many versions of the real Codex, and write docs/codex-versions.md
  dist    Make what operators install, in target/dist with checksums; nothing is published
  bench   Measure what is installed with the pinned Codex, and hold the figures against their bars

Usage: cargo xtask test [--only STEP,...] [-- ARGS]

  --only STEP,...   Run some of: fmt, clippy, tidy, deny, test, floor, count;
                    all unless told
  -- ARGS           Arguments for `cargo test`, e.g. `-- -p bridge-store ledger`;
                    given without --only, nothing but the tests is run

Usage: cargo xtask a2a-kit [--kit DIR] [--kit-03 DIR] [--transport LIST] [-- ARGS]

  --kit DIR         A checkout of branch 1.0-dev of a2aproject/a2a-tck
  --kit-03 DIR      A checkout of its branch 0.3.x; its category `mandatory` is run
  --transport LIST  Bindings for the 1.0 kit: jsonrpc, http_json; both unless told
  -- ARGS           Arguments for the 1.0 kit's pytest, e.g. `-- -k CORE-SEND`

Usage: cargo xtask simulate [--seeds N] [--seed S]

  --seeds N         How many schedules; 10000 unless told
  --seed S          This one alone, with its story

Usage: cargo xtask fuzz [--minutes N] [--target T] [--seed S]

  --minutes N       For each target; 10 unless told
  --target T        One of: a2a-rpc, a2a-rest, api, mcp, http, molecule, agent, codex
  --seed S          Makes the same inputs as another run with this seed; the time unless told

Usage: cargo xtask matrix [--versions LIST] [--short]

  --versions LIST   These, e.g. 0.150.0,0.169.0, and write no page; unless told the oldest supported one, every second
                    minor version after it, the pinned one, and the newest stable and alpha of npm's registry
  --short           The short core; writes no page

Usage: cargo xtask bench [--quick] [--only PART,...] [--against FILE]

  --quick           Small numbers, to see that it works; writes no page
  --only PART,...   Some of: latency, pickup, traces, ledger, fleet, flood, footprint, budget, console,
                    cost; writes no page. `fleet` needs PostgreSQL, `console` a browser
  --against FILE    Figures of an earlier run that this one must agree with;
                    each run leaves its own in target/bench/figures.json

Usage: cargo xtask dist [--binary FILE] [--no-image] [--check]

  --binary FILE     Pack this program instead of building one for old systems, which takes long
  --no-image        Leave out the container image, which needs root, Debian's mirror and half a gigabyte
  --check           Install what was made on a Debian with nothing but Debian, use, upgrade and purge it; needs root

Examples:
  cargo xtask test
  cargo xtask test --only fmt,clippy,tidy
  cargo xtask test -- -p bridge-host install
  cargo xtask simulate --seed 61
  cargo xtask fuzz --minutes 1 --target mcp";

/// One chore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Help,
    Test(Plan),
    Tidy,
    Codex,
    McpKit,
    ConsoleKit,
    Pictures,
    A2aKit(Kits),
    A2aSdk,
    Simulate(Schedules),
    Fuzz(Fuzz),
    Bench(Bench),
    Dist(Dist),
    Matrix(Matrix),
}

/// What is fuzzed, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fuzz {
    /// For each target.
    pub minutes: u64,
    /// One of them; all unless told.
    pub target: Option<String>,
    /// Chooses the inputs; the time unless told.
    pub seed: Option<u64>,
}

impl Default for Fuzz {
    fn default() -> Self {
        Self {
            minutes: 10,
            target: None,
            seed: None,
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bench {
    /// How much of it.
    pub length: Length,
    /// The parts, as the bench names them; all unless told.
    pub only: Option<String>,
    /// The figures of an earlier run.
    pub against: Option<String>,
}

/// How much a bench measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Enough to quote.
    Full,
    /// Enough to see that it works.
    Quick,
}

/// Which schedules of the simulation to play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedules {
    /// The first so many.
    Many(u64),
    /// The one of this seed, with its story.
    One(u64),
}

impl Schedules {
    /// When nobody says how many.
    pub const DEFAULT: Self = Self::Many(10_000);
}

/// Which part of CI to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In the order of [`Step::ALL`], each at most once.
    pub steps: Vec<Step>,
    /// Added to `cargo test`.
    pub test_args: Vec<String>,
}

/// One check of CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Fmt,
    Clippy,
    Tidy,
    Deny,
    Test,
    /// A short core of the suite on the oldest supported Codex.
    Floor,
    /// Instructions of the hot paths, against their budgets.
    Count,
}

impl Step {
    /// All, the quick ones first.
    pub const ALL: [Self; 7] = [
        Self::Fmt,
        Self::Tidy,
        Self::Deny,
        Self::Clippy,
        Self::Test,
        Self::Floor,
        Self::Count,
    ];

    /// The word for it in `--only` and in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Tidy => "tidy",
            Self::Deny => "deny",
            Self::Test => "test",
            Self::Floor => "floor",
            Self::Count => "count",
        }
    }
}

/// Reads the arguments after the program's name.
///
/// # Errors
///
/// A sentence about the first argument that was not understood.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let Some(command) = args.next() else {
        return Err("which chore?".to_owned());
    };
    match command.as_str() {
        "help" | "-h" | "--help" => Ok(Command::Help),
        "test" => parse_test(args),
        "tidy" => alone(args, Command::Tidy),
        "codex" => alone(args, Command::Codex),
        "mcp-kit" => alone(args, Command::McpKit),
        "console-kit" => alone(args, Command::ConsoleKit),
        "pictures" => alone(args, Command::Pictures),
        "a2a-kit" => parse_a2a_kit(args),
        "a2a-sdk" => alone(args, Command::A2aSdk),
        "simulate" => parse_simulate(args),
        "fuzz" => parse_fuzz(args),
        "bench" => parse_bench(args),
        "dist" => parse_dist(args),
        "matrix" => parse_matrix(args),
        other => Err(format!("there is no chore `{other}`")),
    }
}

fn alone(mut args: impl Iterator<Item = String>, command: Command) -> Result<Command, String> {
    match args.next().as_deref() {
        None => Ok(command),
        Some("-h" | "--help") => Ok(Command::Help),
        Some(other) => Err(format!("`{other}` was not expected here")),
    }
}

fn parse_test(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut only = None;
    let mut test_args = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--" => test_args.extend(args.by_ref()),
            "--only" => {
                let names = args.next().ok_or("--only needs a list of steps")?;
                only = Some(parse_steps(&names)?);
            }
            other => match other.strip_prefix("--only=") {
                Some(names) => only = Some(parse_steps(names)?),
                None => {
                    return Err(format!(
                        "`{other}` was not expected; `cargo test` arguments go after `--`"
                    ));
                }
            },
        }
    }
    let steps = match only {
        Some(steps) => steps,
        None if test_args.is_empty() => Step::ALL.to_vec(),
        None => vec![Step::Test],
    };
    Ok(Command::Test(Plan { steps, test_args }))
}

fn parse_a2a_kit(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut kits = Kits::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--kit" => kits.kit = Some(PathBuf::from(value()?)),
            "--kit-03" => kits.kit_03 = Some(PathBuf::from(value()?)),
            "--transport" => kits.transport = Some(value()?),
            "--" => kits.pytest.extend(args.by_ref()),
            other => return Err(format!("`{other}` was not expected here")),
        }
    }
    match (&kits.kit, &kits.kit_03) {
        (None, None) => Err("which kit? --kit or --kit-03 says where it lies".to_owned()),
        (Some(_), _) | (_, Some(_)) => Ok(Command::A2aKit(kits)),
    }
}

fn parse_simulate(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut schedules = Schedules::DEFAULT;
    while let Some(arg) = args.next() {
        let make = match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--seeds" => Schedules::Many,
            "--seed" => Schedules::One,
            other => return Err(format!("`{other}` was not expected here")),
        };
        let number = args.next().and_then(|number| number.parse().ok());
        schedules = make(number.ok_or_else(|| format!("{arg} needs a number"))?);
    }
    Ok(Command::Simulate(schedules))
}

fn parse_fuzz(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut fuzz = Fuzz::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{arg} needs a number"));
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--minutes" => fuzz.minutes = number(value()?)?,
            "--target" => fuzz.target = Some(value()?),
            "--seed" => fuzz.seed = Some(number(value()?)?),
            other => return Err(format!("`{other}` was not expected here")),
        }
    }
    Ok(Command::Fuzz(fuzz))
}

fn parse_bench(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut bench = Bench {
        length: Length::Full,
        only: None,
        against: None,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("`{arg}` needs a value"));
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--quick" => bench.length = Length::Quick,
            "--only" => bench.only = Some(value()?),
            "--against" => bench.against = Some(value()?),
            other => return Err(format!("`{other}` was not expected here")),
        }
    }
    Ok(Command::Bench(bench))
}

fn parse_dist(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut dist = Dist::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--binary" => {
                let file = args.next().ok_or("--binary needs a file")?;
                dist.binary = Some(PathBuf::from(file));
            }
            "--no-image" => dist.no_image = true,
            "--check" => dist.check = true,
            other => return Err(format!("`{other}` was not expected here")),
        }
    }
    Ok(Command::Dist(dist))
}

fn parse_matrix(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut matrix = Matrix::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--short" => matrix.short = true,
            "--versions" => {
                let list = args.next().ok_or("--versions needs a list")?;
                let versions = list.split(',').map(|version| version.trim().to_owned());
                matrix.versions.extend(versions);
            }
            other => return Err(format!("`{other}` was not expected here")),
        }
    }
    Ok(Command::Matrix(matrix))
}

fn parse_steps(names: &str) -> Result<Vec<Step>, String> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    for name in &names {
        if Step::ALL.iter().all(|step| step.name() != *name) {
            return Err(format!("there is no step `{name}`"));
        }
    }
    let chosen = |step: &Step| names.contains(&step.name());
    Ok(Step::ALL.into_iter().filter(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn plan(steps: &[Step], test_args: &[&str]) -> Result<Command, String> {
        Ok(Command::Test(Plan {
            steps: steps.to_vec(),
            test_args: test_args.iter().map(|arg| (*arg).to_owned()).collect(),
        }))
    }

    #[test]
    fn all_steps_are_the_default() {
        assert_eq!(read("test"), plan(&Step::ALL, &[]));
    }

    #[test]
    fn only_flag_orders_and_deduplicates_steps() {
        let expected = plan(&[Step::Fmt, Step::Clippy], &[]);
        assert_eq!(read("test --only clippy,fmt,clippy"), expected);
        assert_eq!(read("test --only=clippy,fmt"), expected);
    }

    #[test]
    fn test_arguments_default_to_test_step() {
        let args = ["-p", "bridge-host", "--", "--nocapture"];
        assert_eq!(
            read("test -- -p bridge-host -- --nocapture"),
            plan(&[Step::Test], &args)
        );
        assert_eq!(
            read("test --only fmt,test -- ledger"),
            plan(&[Step::Fmt, Step::Test], &["ledger"])
        );
    }

    #[test]
    fn simulate_accepts_seed_count_or_seed() {
        let simulate = |schedules| Ok(Command::Simulate(schedules));
        assert_eq!(read("simulate"), simulate(Schedules::DEFAULT));
        assert_eq!(read("simulate --seeds 5"), simulate(Schedules::Many(5)));
        assert_eq!(read("simulate --seed 61"), simulate(Schedules::One(61)));
    }

    #[test]
    fn fuzzing_takes_ten_minutes_unless_told() {
        assert_eq!(read("fuzz"), Ok(Command::Fuzz(Fuzz::default())));
        let told = Fuzz {
            minutes: 1,
            target: Some("mcp".to_owned()),
            seed: Some(7),
        };
        let line = "fuzz --minutes 1 --target mcp --seed 7";
        assert_eq!(read(line), Ok(Command::Fuzz(told)));
    }

    #[test]
    fn a_kit_is_somewhere() {
        let kits = Kits {
            kit: Some(PathBuf::from("/k")),
            transport: Some("jsonrpc".to_owned()),
            pytest: vec!["-k".to_owned(), "x".to_owned()],
            ..Kits::default()
        };
        assert_eq!(
            read("a2a-kit --kit /k --transport jsonrpc -- -k x"),
            Ok(Command::A2aKit(kits))
        );
        assert!(read("a2a-kit").unwrap_err().contains("--kit"));
        assert!(read("a2a-kit --kit").unwrap_err().contains("--kit"));
    }

    #[test]
    fn a_bench_is_full_unless_told() {
        let bench = |length, only: Option<&str>| {
            Ok(Command::Bench(Bench {
                length,
                only: only.map(str::to_owned),
                against: None,
            }))
        };
        assert_eq!(read("bench"), bench(Length::Full, None));
        assert_eq!(
            read("bench --quick --only ledger,cost"),
            bench(Length::Quick, Some("ledger,cost"))
        );
    }

    #[test]
    fn matrix_takes_versions_or_asks() {
        assert_eq!(read("matrix"), Ok(Command::Matrix(Matrix::default())));
        let told = Matrix {
            versions: vec!["0.150.0".to_owned(), "0.169.0".to_owned()],
            short: true,
        };
        let line = "matrix --short --versions 0.150.0,0.169.0";
        assert_eq!(read(line), Ok(Command::Matrix(told)));
    }

    #[test]
    fn dist_builds_unless_given_a_program() {
        assert_eq!(read("dist"), Ok(Command::Dist(Dist::default())));
        let given = Dist {
            binary: Some(PathBuf::from("/b")),
            no_image: true,
            check: true,
        };
        let line = "dist --check --binary /b --no-image";
        assert_eq!(read(line), Ok(Command::Dist(given)));
    }

    #[test]
    fn help_is_found_everywhere() {
        for line in ["help", "--help", "test --help", "tidy -h", "codex --help"] {
            assert_eq!(read(line), Ok(Command::Help), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, word) in [
            ("", "which chore"),
            ("tost", "tost"),
            ("test --only", "--only"),
            ("test --only fmt,lint", "lint"),
            ("test ledger", "after `--`"),
            ("tidy now", "now"),
            ("simulate --seeds", "--seeds"),
            ("simulate --seed x", "--seed"),
            ("fuzz --minutes x", "--minutes"),
            ("fuzz mcp", "mcp"),
            ("bench --slow", "--slow"),
            ("bench --only", "--only"),
            ("matrix 0.150.0", "0.150.0"),
            ("matrix --versions", "--versions"),
            ("dist --binary", "--binary"),
            ("dist deb", "deb"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(word), "{line}: {said}");
        }
    }
}
