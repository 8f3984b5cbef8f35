//! A directory that others write in: everything below it is reached by descriptor, one component at a time, and no
//! symbolic link is ever followed.
//!
//! Codex and its commands own such directories. They may plant links, pipes and devices there, and swap them while
//! we look; so nothing is opened by a path that has more than one component.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// What a directory is opened with: itself, never what a link points to.
const DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// A directory, held open.
#[derive(Debug)]
pub(super) struct HeldDirectory(OwnedFd);

/// What is under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// An ordinary file.
    File {
        /// How long it is.
        bytes: u64,
        /// Whether it has no other name, that might be one of a place we must not read.
        sole: bool,
    },
    /// A directory.
    Directory,
    /// A link, a pipe, a socket or a device.
    Other,
}

impl HeldDirectory {
    /// Opens a directory that the operator or the daemon named: that name may be a link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(File::open(path).and_then(|file| {
            if file.metadata()?.is_dir() {
                Ok(file.into())
            } else {
                Err(io::Error::from(io::ErrorKind::NotADirectory))
            }
        })?))
    }

    /// A directory below; none where there is none. A link to one is an error.
    pub(super) fn below(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Self>> {
        let name = component(&name)?;
        match openat(&self.0, name, DIRECTORY, Mode::empty()) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => Err(not_ours(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// A directory below, made where it is missing.
    pub(super) fn make_below(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = component(&name)?;
        match mkdirat(&self.0, name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.below(name)?.ok_or_else(|| not_ours(name))
    }

    /// What is under a name, itself and not what it points to.
    pub(super) fn look(&self, name: impl AsRef<OsStr>) -> io::Result<Option<EntryKind>> {
        let name = component(&name)?;
        match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(entry_kind(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A new file, for us alone and not executable; one that is there is an error.
    pub(super) fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = component(&name)?;
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.0, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        Ok(fd.into())
    }

    /// An ordinary file to read. Anything else is an error, and a pipe does not make us wait.
    pub(super) fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = component(&name)?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::empty())?);
        let found = file.metadata()?;
        if found.is_file() && found.nlink() <= 1 {
            Ok(file)
        } else {
            Err(not_ours(name))
        }
    }

    /// Moves something to a name in a directory of the same file system. A file that is there is replaced.
    pub(super) fn rename_to(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        new_name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let name = component(&name)?;
        let new_name = component(&new_name)?;
        Ok(renameat(&self.0, name, &to.0, new_name)?)
    }

    /// Removes a file or a link; one that is gone is fine.
    pub(super) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes an empty directory; one that is gone is fine.
    pub(super) fn remove_directory(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name, UnlinkatFlags::RemoveDir)
    }

    fn unlink(&self, name: impl AsRef<OsStr>, how: UnlinkatFlags) -> io::Result<()> {
        let name = component(&name)?;
        match unlinkat(&self.0, name, how) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The names in it, sorted, at most `most` of them.
    pub(super) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let mut directory = Dir::openat(&self.0, ".", DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for entry in directory.iter().take(most.saturating_add(2)) {
            match entry?.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(OsStr::from_bytes(name).to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn entry_kind(stat: &FileStat) -> EntryKind {
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFREG {
        EntryKind::File {
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            sole: stat.st_nlink <= 1,
        }
    } else if kind == SFlag::S_IFDIR {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

fn component(name: &impl AsRef<OsStr>) -> io::Result<&OsStr> {
    let name = name.as_ref();
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(one)), None) if one == name => Ok(one),
        (_, _) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is no plain name"),
        )),
    }
}

fn not_ours(name: &OsStr) -> io::Error {
    io::Error::other(format!(
        "`{}` is a link or something else that is not followed",
        name.to_string_lossy()
    ))
}
