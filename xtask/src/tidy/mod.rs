//! `cargo xtask tidy`: the rules of the tree that neither the compiler nor clippy
//! knows. Each finding names a place and what to do there.
//!
//! A rule belongs here if it is about this tree alone; what clippy can check is in
//! the workspace's lints.

mod faults;
mod habits;
mod lexer;
mod manifest;
mod names;
mod rooms;
mod shape;
mod source;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use rooms::Room;
pub use shape::{MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_TEST_FILE_LINES};
use source::Source;

/// Folders with our sources.
const FOLDERS: [&str; 2] = ["crates", "xtask"];

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative to the root.
    pub path: PathBuf,
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Finding {
    fn new(path: &Path, line: usize, what: &str) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.to_owned(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Checks the tree and prints what it found.
///
/// # Errors
///
/// Something was found, or the tree could not be read.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        Ok(())
    } else {
        bail!("{} places are not tidy", findings.len())
    }
}

/// Everything in the workspace at `root` that breaks a rule, in order of place.
///
/// # Errors
///
/// The tree could not be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let root = fs::canonicalize(root).with_context(|| format!("no tree at {}", root.display()))?;
    let mut findings = manifest::check(&root)?;
    let mut named = faults::Named::default();
    for path in rust_files(&root)? {
        let relative = path.strip_prefix(&root).unwrap_or(&path);
        let Some(room) = Room::of(relative) else {
            continue;
        };
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let source = Source::new(relative.to_owned(), room, text);
        shape::check(&source, &mut findings);
        names::check(&source, &mut findings);
        habits::check(&source, &mut findings);
        named.note(&source);
    }
    faults::check(&root, &named, &mut findings);
    findings.sort();
    Ok(findings)
}

fn rust_files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    folders.retain(|folder| folder.is_dir());
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let entry = entry?;
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.file_name() != "target" {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "rs")
            {
                files.push(path);
            }
        }
    }
    Ok(files)
}
