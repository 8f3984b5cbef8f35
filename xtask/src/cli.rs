//! The arguments of `cargo xtask`, and its help.
//!
//! Only words to values; nothing is run here.

/// What `cargo xtask --help` prints.
pub const HELP: &str = "\
Chores of codex-bridge.

Usage: cargo xtask <COMMAND>

Commands:
  test    Everything that CI does; needs Rust and Node.js, sets up the rest in target/tools
  tidy    Check the rules of the tree: directions, names, sizes, habits
  codex   Install the pinned Codex into target/tools and print its path
  mcp-kit Install the MCP Inspector and conformance suite into target/tools and print where
  simulate
          Play seeded schedules of faults over the core, in release
  bench   Measure the release build with the pinned Codex, and print tables

Usage: cargo xtask test [--only STEP,...] [-- ARGS]

  --only STEP,...   Run some of: fmt, clippy, tidy, deny, test
  -- ARGS           Arguments for `cargo test`, e.g. `-- -p bridge-store ledger`;
                    given without --only, nothing but the tests is run

Usage: cargo xtask simulate [--seeds N] [--seed S]

  --seeds N         How many schedules; 10000 unless told
  --seed S          This one alone, with its story

Usage: cargo xtask bench [--quick]

  --quick           A few messages only, to see that it works

Examples:
  cargo xtask test
  cargo xtask test --only fmt,clippy,tidy
  cargo xtask test -- -p bridge-host install
  cargo xtask simulate --seed 61";

/// One chore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Help,
    Test(Plan),
    Tidy,
    Codex,
    McpKit,
    Simulate(Schedules),
    Bench(Length),
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
}

impl Step {
    /// All, the quick ones first.
    pub const ALL: [Self; 5] = [Self::Fmt, Self::Tidy, Self::Deny, Self::Clippy, Self::Test];

    /// The word for it in `--only` and in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Tidy => "tidy",
            Self::Deny => "deny",
            Self::Test => "test",
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
        "simulate" => parse_simulate(args),
        "bench" => parse_bench(args),
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

fn parse_bench(args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut length = Length::Full;
    for arg in args {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--quick" => length = Length::Quick,
            other => return Err(format!("`{other}` was not expected here")),
        }
    }
    Ok(Command::Bench(length))
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
    fn only_keeps_our_order_and_names_each_once() {
        let expected = plan(&[Step::Fmt, Step::Clippy], &[]);
        assert_eq!(read("test --only clippy,fmt,clippy"), expected);
        assert_eq!(read("test --only=clippy,fmt"), expected);
    }

    #[test]
    fn arguments_for_the_tests_mean_the_tests_alone() {
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
    fn a_simulation_is_of_many_seeds_or_of_one() {
        let simulate = |schedules| Ok(Command::Simulate(schedules));
        assert_eq!(read("simulate"), simulate(Schedules::DEFAULT));
        assert_eq!(read("simulate --seeds 5"), simulate(Schedules::Many(5)));
        assert_eq!(read("simulate --seed 61"), simulate(Schedules::One(61)));
    }

    #[test]
    fn a_bench_is_full_unless_told() {
        assert_eq!(read("bench"), Ok(Command::Bench(Length::Full)));
        assert_eq!(read("bench --quick"), Ok(Command::Bench(Length::Quick)));
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
            ("bench --slow", "--slow"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(word), "{line}: {said}");
        }
    }
}
