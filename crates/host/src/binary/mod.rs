//! Finds the Codex that will be started: which file, and which version it is.
//!
//! We start the native executable, never npm's Node.js shim around it: the shim
//! costs a Node.js start and, on older Node.js, outlives a kill of itself. Getting a
//! Codex onto the machine is `install`; running one is the business of the rest of
//! this crate.

pub mod install;
pub mod integrity;
pub mod launcher;
pub(crate) mod program;
pub mod settings;
pub(crate) mod stamp;

use std::env::consts::{ARCH, OS};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bridge_codex::version::{self, FLOOR, PINNED, Version};

use crate::process::oneshot::{self, End};

/// The name looked for on `PATH`.
const NAME: &str = "codex";

/// `codex --version` answers in about 10 ms; what needs longer than this hangs.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// npm's entry point: a Node.js script that runs the native executable.
const SHIM: &str = "@openai/codex/bin/codex.js";

/// How much of a file is read to see whether it is a script and whose; pnpm's
/// wrappers name a dozen long paths before the one that matters.
const HEAD_BYTES: u64 = 64 * 1024;

/// Lines of a program's output that an error shows.
const TAIL_LINES: usize = 5;

/// A Codex executable that was there, ran, and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// The native executable; absolute, symbolic links resolved. Or what the operator has in its place: a script, or the
    /// link of a version manager; what it runs in the end says `launcher`.
    pub path: PathBuf,
    /// The Node.js script that led to it, if that is what was found first.
    pub shim: Option<PathBuf>,
    /// As the executable itself reports it.
    pub version: Version,
}

/// Why there is no Codex to start, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    #[error(
        "no codex {place}; install it with `npm install -g @openai/codex@{PINNED}`, \
         or name an executable with --codex-bin"
    )]
    NotFound {
        /// Where we looked: "on PATH" or "at /some/file".
        place: String,
    },
    #[error("{} is not executable; make it so with `chmod +x`, or name another with --codex-bin", path.display())]
    NotExecutable { path: PathBuf },
    #[error("{} is a directory; name the codex executable in it with --codex-bin", path.display())]
    IsDirectory { path: PathBuf },
    #[error("cannot read {}; check its permissions, or name another codex with --codex-bin", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} is npm's shim, but the native codex for {OS}-{ARCH} that belongs to it is missing; \
         reinstall with `npm install -g --include=optional @openai/codex@{PINNED}`, \
         or name a native executable with --codex-bin",
        shim.display()
    )]
    ShimWithoutNative { shim: PathBuf },
    #[error("cannot start {}; is it built for {OS}-{ARCH}? name another codex with --codex-bin", path.display())]
    CannotStart { path: PathBuf, source: io::Error },
    #[error(
        "`{} --version` gave no answer within {} s; name another codex with --codex-bin",
        path.display(), VERSION_DEADLINE.as_secs()
    )]
    NoAnswer { path: PathBuf },
    #[error(
        "`{} --version` did not say `codex-cli X.Y.Z`; is it the Codex CLI? \
         name another with --codex-bin; it said:\n{output}",
        path.display()
    )]
    VersionUnreadable {
        path: PathBuf,
        /// The last lines it wrote, with control characters escaped.
        output: String,
    },
    #[error(
        "codex {found} at {} is older than {floor}, the oldest we can work with; \
         update it with `npm install -g @openai/codex@{PINNED}`",
        path.display()
    )]
    TooOld {
        path: PathBuf,
        found: Version,
        floor: Version,
    },
}

/// The variables that finding a program depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vars<'a> {
    /// `PATH`.
    pub path: Option<&'a OsStr>,
    /// `HOME`, where version managers keep which version counts.
    pub home: Option<&'a OsStr>,
}

impl<'a> Vars<'a> {
    /// Those among these variables.
    #[must_use]
    pub fn of(vars: &'a [(OsString, OsString)]) -> Self {
        let of = |wanted: &str| {
            let found = vars.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_os_str())
        };
        Self {
            path: of("PATH"),
            home: of("HOME"),
        }
    }
}

/// Finds the Codex to start.
///
/// `explicit` is what the operator named; a bare name is looked up on `PATH` as a
/// shell would, anything else is a file. Without it, `codex` is looked up.
///
/// # Errors
///
/// Every [`BinaryError`] says what to do about it.
pub fn find(explicit: Option<&Path>, vars: Vars<'_>) -> Result<Binary, BinaryError> {
    let asked = match explicit {
        Some(path) if !is_bare_name(path) => absolute(path)?,
        Some(name) => search(name, vars.path)?,
        None => search(Path::new(NAME), vars.path)?,
    };
    let found = check_file(&asked)?;
    let (path, shim) = match shim_of(&found)? {
        Some(shim) => (native_beside(&shim)?, Some(shim)),
        None => (found, None),
    };
    let (path, version) = match version_of(&path, vars) {
        // Volta and mise link every program to themselves, and go by the name that they are called with.
        Err(BinaryError::VersionUnreadable { .. }) if shim.is_none() && asked.is_symlink() => {
            let version = version_of(&asked, vars)?;
            (asked, version)
        }
        version => (path, version?),
    };
    if version < FLOOR {
        return Err(BinaryError::TooOld {
            path,
            found: version,
            floor: FLOOR,
        });
    }
    Ok(Binary {
        path,
        shim,
        version,
    })
}

/// Asks the executable for its version. `PATH` and `HOME` are given for wrapper scripts;
/// `CODEX_HOME` names no directory, because even `--version` would write helper
/// links into it.
pub(crate) fn version_of(path: &Path, vars: Vars<'_>) -> Result<Version, BinaryError> {
    let mut command = Command::new(path);
    command
        .arg("--version")
        .env_clear()
        .env("CODEX_HOME", "/dev/null");
    for (name, value) in [("PATH", vars.path), ("HOME", vars.home)] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let path = path.to_owned();
    let (end, output) = match oneshot::run(command, VERSION_DEADLINE, &mut |_| {}) {
        Ok(ran) => ran,
        Err(source) => return Err(BinaryError::CannotStart { path, source }),
    };
    match end {
        End::Overrun => Err(BinaryError::NoAnswer { path }),
        End::Exited(_) => {
            let stdout = String::from_utf8_lossy(&output.stdout);
            codex_version(&stdout).ok_or_else(|| {
                let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
                BinaryError::VersionUnreadable {
                    path,
                    output: oneshot::tail(&said, TAIL_LINES),
                }
            })
        }
    }
}

/// The name is asked for too: most programs print some number for `--version`.
fn codex_version(stdout: &str) -> Option<Version> {
    let mut lines = stdout.lines();
    let line = lines.find(|line| line.starts_with("codex-cli "))?;
    version::from_cli(line).ok()
}

/// Where npm puts the native executable below a `node_modules` directory, on the
/// platforms that Codex is published for.
pub(crate) fn native_in(node_modules: &Path) -> Option<PathBuf> {
    let (package, _) = platform()?;
    let package = node_modules.join("@openai").join(package);
    native_in_package(&package)
}

fn native_in_package(package: &Path) -> Option<PathBuf> {
    let (_, target) = platform()?;
    Some(package.join("vendor").join(target).join("bin").join(NAME))
}

fn platform() -> Option<(&'static str, &'static str)> {
    match (OS, ARCH) {
        ("linux" | "android", "x86_64") => Some(("codex-linux-x64", "x86_64-unknown-linux-musl")),
        ("linux" | "android", "aarch64") => {
            Some(("codex-linux-arm64", "aarch64-unknown-linux-musl"))
        }
        ("macos", "x86_64") => Some(("codex-darwin-x64", "x86_64-apple-darwin")),
        ("macos", "aarch64") => Some(("codex-darwin-arm64", "aarch64-apple-darwin")),
        _ => None,
    }
}

fn is_bare_name(path: &Path) -> bool {
    let mut components = path.components();
    matches!(components.next(), Some(Component::Normal(_)))
        && components.next().is_none()
        && !path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn absolute(path: &Path) -> Result<PathBuf, BinaryError> {
    std::path::absolute(path).map_err(|source| BinaryError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// Looks through `PATH` as a shell does: directories and files that may not be
/// executed are passed over. Relative and empty entries are passed over too: what a
/// daemon starts must not depend on the directory it was started in.
fn search(name: &Path, path_var: Option<&OsStr>) -> Result<PathBuf, BinaryError> {
    let mut refused = None;
    for directory in std::env::split_paths(path_var.unwrap_or_default()) {
        if !directory.is_absolute() {
            continue;
        }
        let path = directory.join(name);
        match check_file(&path) {
            Ok(_) => return Ok(path),
            Err(error @ BinaryError::NotExecutable { .. }) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| BinaryError::NotFound {
        place: "on PATH".to_owned(),
    }))
}

/// An existing, executable file, with its symbolic links resolved.
pub(crate) fn check_file(path: &Path) -> Result<PathBuf, BinaryError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absence(&error) => {
            return Err(BinaryError::NotFound {
                place: format!("at {}", path.display()),
            });
        }
        Err(source) => return Err(unreadable(path, source)),
    };
    let path_buf = path.to_owned();
    if metadata.is_dir() {
        return Err(BinaryError::IsDirectory { path: path_buf });
    }
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(BinaryError::NotExecutable { path: path_buf });
    }
    fs::canonicalize(path).map_err(|source| unreadable(path, source))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unreadable(path: &Path, source: io::Error) -> BinaryError {
    BinaryError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

/// npm's shim, if `path` is it or is the small shell script that pnpm puts before
/// it. Any other script is a wrapper that the operator made, and is run as it is.
/// A file that may be executed but not read is no script: no interpreter could run it.
fn shim_of(path: &Path) -> Result<Option<PathBuf>, BinaryError> {
    let mut head = Vec::new();
    match File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(source) => return Err(unreadable(path, source)),
    }
    let Some(script) = head.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let script = String::from_utf8_lossy(script);
    let interpreter = script.lines().next().unwrap_or_default();
    if is_node(interpreter) {
        let is_shim = path.file_name() == Path::new(SHIM).file_name();
        return Ok(is_shim.then(|| path.to_owned()));
    }
    Ok(shim_behind_wrapper(path, &script))
}

fn is_node(interpreter: &str) -> bool {
    interpreter
        .split_whitespace()
        .any(|word| matches!(word.rsplit('/').next(), Some("node" | "nodejs")))
}

/// pnpm's wrapper runs `node "$basedir/…/@openai/codex/bin/codex.js"`, where
/// `$basedir` is the wrapper's own directory.
fn shim_behind_wrapper(wrapper: &Path, text: &str) -> Option<PathBuf> {
    let directory = wrapper.parent()?;
    text.split(['"', '\''])
        .filter(|word| word.ends_with(SHIM))
        .filter_map(|word| word.strip_prefix("$basedir/"))
        .find_map(|relative| fs::canonicalize(directory.join(relative)).ok())
}

/// Follows Node.js's own rule for the platform package (`node_modules` of every
/// directory upwards), then the place inside the package that older releases used.
fn native_beside(shim: &Path) -> Result<PathBuf, BinaryError> {
    let upwards = shim
        .ancestors()
        .skip(1)
        .filter(|directory| !directory.ends_with("node_modules"))
        .filter_map(|directory| native_in(&directory.join("node_modules")));
    let inside = shim.ancestors().nth(2).and_then(native_in_package);
    upwards
        .chain(inside)
        .find_map(|candidate| check_file(&candidate).ok())
        .ok_or_else(|| BinaryError::ShimWithoutNative {
            shim: shim.to_owned(),
        })
}

#[cfg(test)]
pub(crate) mod tests;
