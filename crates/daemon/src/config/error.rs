//! What is wrong with the configuration, where, and what to do: all of it at once.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Problems that are reported at once; a file with more is mended in two steps.
pub(super) const PROBLEMS_MAX: usize = 20;

/// Why there is no configuration to work with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("there is no configuration file {}; create it, or leave --config away", path.display())]
    NotFound { path: PathBuf },
    #[error("read the configuration file {}: {source}; check its permissions", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the configuration {} is not a regular file; name the file itself", path.display())]
    NotAFile { path: PathBuf },
    #[error("the configuration file {} is longer than {max} bytes; is it the right file?", path.display())]
    TooLong { path: PathBuf, max: u64 },
    #[error("the configuration file {} is not UTF-8 text; is it the right file?", path.display())]
    NotText { path: PathBuf },
    #[error(
        "others may write the configuration file {} (mode {mode:03o}), and it decides what Codex may do; run `chmod go-w {}`",
        path.display(), path.display()
    )]
    WritableByOthers { path: PathBuf, mode: u32 },
    #[error(
        "the configuration file {} belongs to uid {owner}, and it decides what Codex may do; it must belong to uid {ours} or to root",
        path.display()
    )]
    ForeignOwner {
        path: PathBuf,
        owner: u32,
        ours: u32,
    },
    #[error("the configuration can't be used:{}", lines(file.as_ref(), problems))]
    Invalid {
        /// The file, where there is one.
        file: Option<PathBuf>,
        /// Everything that was found, in the order of the file.
        problems: Vec<ConfigProblem>,
    },
}

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigProblem {
    /// Where it was said.
    #[serde(flatten)]
    pub(super) place: ProblemPlace,
    /// What is wrong, and what to do.
    pub(super) what: String,
}

impl ConfigProblem {
    /// The problem without its place, for whoever just typed the value.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// Where something was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ProblemPlace {
    /// In the file; both count from 1.
    Spot { line: usize, column: usize },
    /// In a variable of the environment.
    Variable { variable: &'static str },
    /// On the command line.
    Flag { flag: &'static str },
}

impl ConfigError {
    /// What is wrong, one by one; a file that could not be read has no places.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        match self {
            Self::Invalid { problems, .. } => problems,
            Self::NotFound { .. }
            | Self::Unreadable { .. }
            | Self::NotAFile { .. }
            | Self::TooLong { .. }
            | Self::NotText { .. }
            | Self::WritableByOthers { .. }
            | Self::ForeignOwner { .. } => &[],
        }
    }
}

fn lines(file: Option<&PathBuf>, problems: &[ConfigProblem]) -> String {
    let name = file.map_or_else(String::new, |file| file.display().to_string());
    problems
        .iter()
        .map(|problem| match problem.place {
            ProblemPlace::Spot { .. } => format!("\n  {name}:{}: {}", problem.place, problem.what),
            ProblemPlace::Variable { .. } | ProblemPlace::Flag { .. } => {
                format!("\n  {}: {}", problem.place, problem.what)
            }
        })
        .collect()
}

impl fmt::Display for ProblemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spot { line, column } => write!(f, "{line}:{column}"),
            Self::Variable { variable: name } | Self::Flag { flag: name } => f.write_str(name),
        }
    }
}
