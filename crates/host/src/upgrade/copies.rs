//! Our own copies of Codex: the executable with what lies beside it in its package, below `kept/VERSION-DIGEST`.

use super::record::{Kept, make};
use crate::self_check::BinaryDigest;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const KEPT: &str = "kept";
/// Says that a directory is a package of Codex.
const PACKAGE: &str = "codex-package.json";
/// Where the executable is in its package.
const BIN: &str = "bin";
/// Files in a package of Codex; 0.166.0 has 45.
const FILES_MAX: usize = 1024;
/// Directories below one another in a package.
const DEPTH_MAX: usize = 8;
/// Characters of a digest that name a directory.
const DIGEST_CHARS: usize = 12;

/// What a copy is made of.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) version: String,
    /// Where its native executable is, or was before another file took its place.
    pub(super) codex: PathBuf,
    /// The executable itself, where it is not there any more: the kernel shows what a living process runs.
    pub(super) executable: Option<PathBuf>,
}

/// The digest of an executable, in hexadecimal digits.
pub(super) fn digest(path: &Path) -> io::Result<String> {
    BinaryDigest::of(path).map(|digest| digest.as_str().to_owned())
}

/// Makes a copy, unless it is there. Killed in the middle it leaves a directory that the next one removes.
pub(super) fn keep(directory: &Path, source: &Source) -> io::Result<Kept> {
    let kept = directory.join(KEPT);
    make(&kept)?;
    sweep(&kept);
    let executable = source.executable.as_deref().unwrap_or(&source.codex);
    let digest = digest(executable)?;
    let short = digest.get(..DIGEST_CHARS).unwrap_or(&digest);
    let place = kept.join(format!("{}-{short}", source.version));
    let name = source.codex.file_name().unwrap_or_default();
    let codex = place.join(BIN).join(name);
    let known = codex.is_file() && self::digest(&codex)? == digest;
    if !known {
        let new = kept.join(format!(".new-{}", uuid::Uuid::new_v4().simple()));
        let made = copy(source, executable, &new);
        let made = made.and_then(|()| {
            let _damaged = fs::remove_dir_all(&place);
            fs::rename(&new, &place)
        });
        if made.is_err() {
            let _left = fs::remove_dir_all(&new);
        }
        made?;
    }
    Ok(Kept {
        version: source.version.clone(),
        digest,
        codex,
    })
}

/// Whether a copy is still what was copied.
pub(super) fn is_whole(kept: &Kept) -> bool {
    digest(&kept.codex).is_ok_and(|found| found == kept.digest)
}

/// Removes a copy.
pub(super) fn remove(directory: &Path, kept: &Kept) {
    let place = kept.codex.parent().and_then(Path::parent);
    if let Some(place) = place.filter(|place| place.parent() == Some(&directory.join(KEPT)))
        && let Err(error) = fs::remove_dir_all(place)
    {
        tracing::warn!(%error, place = %place.display(), "an old copy of codex could not be removed");
    }
}

fn copy(source: &Source, executable: &Path, new: &Path) -> io::Result<()> {
    let bin = new.join(BIN);
    make(&bin)?;
    let name = source.codex.file_name().unwrap_or_default();
    let package = source.codex.parent().and_then(Path::parent);
    if let Some(package) = package.filter(|package| package.join(PACKAGE).is_file()) {
        let mut left = FILES_MAX;
        copy_tree(package, new, DEPTH_MAX, &mut left, &source.codex)?;
    }
    copy_file(executable, &bin.join(name), source.executable.is_none())
}

fn copy_tree(from: &Path, to: &Path, depth: usize, left: &mut usize, but: &Path) -> io::Result<()> {
    make(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        *left = left.saturating_sub(1);
        if *left == 0 || depth == 0 {
            return Err(io::Error::other(
                "this is no package of Codex: it has too many files",
            ));
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&path, &to, depth.saturating_sub(1), left, but)?;
        } else if kind.is_file() && path != but {
            copy_file(&path, &to, true)?;
        }
    }
    Ok(())
}

/// A link costs no disk. One to a file of somebody else would change with it; a copy shares its blocks where the file
/// system can do that.
fn copy_file(from: &Path, to: &Path, may_link: bool) -> io::Result<()> {
    let found = from.metadata()?;
    let ours = found.uid() == nix::unistd::geteuid().as_raw();
    if may_link && ours && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    let mode = if found.mode() & 0o111 == 0 {
        0o600
    } else {
        0o700
    };
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    File::open(to)?.sync_all()
}

/// Removes what was not finished.
fn sweep(kept: &Path) {
    let Ok(entries) = fs::read_dir(kept) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(root: &Path, codex: &str) -> PathBuf {
        for (name, text) in [
            (PACKAGE, "{}"),
            ("bin/codex", codex),
            ("bin/helper", "helper"),
            ("resources/a/bwrap", "bwrap"),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        }
        root.join("bin/codex")
    }

    fn source(codex: PathBuf, executable: Option<PathBuf>) -> Source {
        Source {
            version: "0.165.0".to_owned(),
            codex,
            executable,
        }
    }

    #[test]
    fn copy_holds_the_whole_package() {
        let root = tempfile::tempdir().unwrap();
        let codex = package(&root.path().join("package"), "one");
        let directory = root.path().join("state");
        let kept = keep(&directory, &source(codex.clone(), None)).unwrap();
        assert_eq!(kept.digest, digest(&codex).unwrap());
        let place = kept.codex.parent().unwrap().parent().unwrap();
        let name = place.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("0.165.0-"), "{name}");
        let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
        assert_eq!(read("resources/a/bwrap"), "bwrap");
        assert_eq!(read("bin/helper"), "helper");
        assert_eq!(keep(&directory, &source(codex, None)).unwrap(), kept);
        remove(&directory, &kept);
        assert!(!place.exists());
    }

    #[test]
    fn replaced_executable_comes_from_its_process() {
        let root = tempfile::tempdir().unwrap();
        let codex = package(&root.path().join("package"), "new");
        let old = root.path().join("exe");
        fs::write(&old, "old").unwrap();
        let kept = keep(root.path(), &source(codex, Some(old))).unwrap();
        assert_eq!(fs::read_to_string(&kept.codex).unwrap(), "old");
        let helper = kept.codex.with_file_name("helper");
        assert_eq!(fs::read_to_string(helper).unwrap(), "helper");
    }

    #[test]
    fn lone_executable_is_copied_alone() {
        let root = tempfile::tempdir().unwrap();
        let codex = root.path().join("mine");
        fs::write(&codex, "one").unwrap();
        fs::write(root.path().join("private"), "x").unwrap();
        let kept = keep(&root.path().join("state"), &source(codex, None)).unwrap();
        let all: Vec<_> = fs::read_dir(kept.codex.parent().unwrap())
            .unwrap()
            .collect();
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn damaged_copy_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let old = root.path().join("exe");
        fs::write(&old, "old").unwrap();
        let of = || source(root.path().join("gone/codex"), Some(old.clone()));
        let kept = keep(root.path(), &of()).unwrap();
        fs::write(&kept.codex, "torn").unwrap();
        keep(root.path(), &of()).unwrap();
        assert_eq!(fs::read_to_string(&kept.codex).unwrap(), "old");
    }
}
