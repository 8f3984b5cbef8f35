//! The state directory: ours alone, private, and used by one daemon at a time.
//!
//! Nothing is created, opened or believed in a directory that others could have prepared for us.

use crate::process::ids;
use bridge_host::self_check::Checks;
use std::fs::{DirBuilder, DirEntry, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest path a unix socket can have.
const SOCKET_PATH_MAX: usize = 107;
/// Room for what is below the directory of sockets: `/<incarnation>/c.sock`.
const SOCKET_TAIL: usize = 24;

/// How often and how far apart the lock is tried.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why the state directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("create the state directory {}: {source}. Choose another one with --state-dir or CODEX_BRIDGE_STATE_DIR", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("use {} as state directory: {why}", path.display())]
    Unfit { path: PathBuf, why: String },
    #[error("write to the state directory {}: {source}. Make it writable for this user, or choose another one with --state-dir", path.display())]
    NotWritable { path: PathBuf, source: io::Error },
    #[error("another daemon{} already runs on {}: stop it first, or use another --state-dir", pid_words(pid), path.display())]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("you may not use the daemon of {}: the directory belongs to {owner}. Run this as that user (`sudo -u {owner} codex-bridge --state-dir {} …`), or ask them for a way in: a group (`daemon.group`), or a token (`codex-bridge token add`)", path.display(), path.display())]
    Forbidden { path: PathBuf, owner: String },
    #[error("no daemon runs on {}: start one with `codex-bridge run`", path.display())]
    NoDaemon { path: PathBuf },
}

fn pid_words(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

/// A state directory that passed all checks.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
}

/// The hold on a state directory; the kernel takes it back when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Whether another daemon locked a new file in the place of this one: somebody had removed ours.
    pub fn is_replaced(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) != (there.dev(), there.ino())
    }
}

impl StateDir {
    /// Creates the directory where it is missing, and checks it.
    pub fn prepare(root: &Path) -> Result<Self, StateError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .map_err(|source| StateError::Create {
                path: root.to_owned(),
                source,
            })?;
        close_to_others(root);
        let root = check(root)?;
        let state = Self { root };
        for directory in [state.work(), state.files(), state.run_dir()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)
                .map_err(|source| StateError::NotWritable {
                    path: directory.clone(),
                    source,
                })?;
            check(&directory)?;
        }
        Ok(state)
    }

    /// Names the directory without creating it, for clients.
    pub fn existing(root: &Path) -> Self {
        // As the daemon does, or the two would look for the socket in different places.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The ledger.
    pub fn ledger(&self) -> PathBuf {
        self.root.join("ledger.db")
    }

    /// The ledger's key, where the configuration and the service manager name no other.
    pub fn key_file(&self) -> PathBuf {
        self.root.join("key")
    }

    /// The name of this daemon as a node of a fleet, where the configuration gives it none.
    pub fn node_file(&self) -> PathBuf {
        self.root.join("node")
    }

    /// What tells this disk from another one that a node of the same name has or had: made once, and lost with the disk.
    pub fn disk_mark(&self) -> io::Result<String> {
        let path = self.root.join("disk");
        match std::fs::read_to_string(&path) {
            Ok(mark) if mark.ends_with('\n') => return Ok(mark.trim().to_owned()),
            // Written in part, or not at all. A new mark is no loss: turns from before it count as touched.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mark = ids::mark();
        std::fs::write(&path, format!("{mark}\n"))?;
        Ok(mark)
    }

    /// How a Codex that nobody tested is checked.
    pub fn codex_checks(&self) -> Checks {
        Checks::new(
            self.root.join("codex-checks.json"),
            self.root.join("codex-checks"),
        )
    }

    /// Thread files that were moved aside because another node had gone on with the thread.
    pub fn threads_aside(&self) -> PathBuf {
        self.root.join("threads-aside")
    }

    /// Copies of Codex, and what is remembered of changes from one to another.
    pub fn codex(&self) -> PathBuf {
        self.root.join("codex")
    }

    /// Where conversations work that were given no other place.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Our own copies of files that came with messages or go with answers.
    pub fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Where earlier versions kept the token of the owner.
    pub fn legacy_token_file(&self) -> PathBuf {
        self.root.join("token")
    }

    /// Says at which address the API is served over TCP, while it is.
    pub fn listen_file(&self) -> PathBuf {
        self.root.join("listen")
    }

    /// The socket of the API.
    pub fn api_socket(&self) -> PathBuf {
        let path = self.root.join("api.sock");
        if fits(&path, 0) {
            path
        } else {
            self.short_dir().join("api.sock")
        }
    }

    /// Whether the place of the API's socket is ours alone: a short directory lies where others may write too.
    pub fn check_socket_place(&self) -> Result<(), StateError> {
        match self.api_socket().parent() {
            Some(place) if place != self.root && place.exists() => check(place).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// Where Codex processes have their sockets.
    pub fn run_dir(&self) -> PathBuf {
        let path = self.root.join("run");
        if fits(&path, SOCKET_TAIL) {
            path
        } else {
            self.short_dir()
        }
    }

    /// A private short directory for sockets whose path would be too long; named after the long one.
    fn short_dir(&self) -> PathBuf {
        let uid = nix::unistd::getuid();
        let name: u64 = self
            .root
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        PathBuf::from(format!("/tmp/codex-bridge-{uid}-{name:016x}"))
    }

    /// Removes the short directory, if there is one and nothing is left in it.
    pub fn remove_short_dir(&self) {
        let _not_empty_or_missing = std::fs::remove_dir(self.short_dir());
    }

    /// Takes the directory for this process.
    pub fn lock(&self) -> Result<Lock, StateError> {
        let path = self.root.join("lock");
        let not_writable = |source| StateError::NotWritable {
            path: self.root.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .map_err(not_writable)?;
        match lock_patiently(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateError::InUse {
                    path: self.root.clone(),
                    pid: read_pid(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(not_writable(source)),
        }
        let pid = std::process::id().to_string();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(pid.as_bytes()))
            .map_err(not_writable)?;
        Ok(Lock { file, path })
    }

    /// An error where this user may not look into the directory.
    pub fn may_enter(&self) -> Result<(), StateError> {
        let path = &self.root;
        match std::fs::metadata(path.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(StateError::Forbidden {
                    path: path.clone(),
                    owner: owner_of(path),
                })
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Why nothing answers here: this user may not ask, or no daemon runs.
    pub fn absence(&self) -> StateError {
        let path = self.root.clone();
        match self.may_enter() {
            Err(forbidden) => forbidden,
            Ok(()) => StateError::NoDaemon { path },
        }
    }

    /// The pid of the daemon that holds the directory, if one does.
    pub fn holder(&self) -> Option<u32> {
        let mut file = File::open(self.root.join("lock")).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_pid(&mut file),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }
}

/// Whose a directory is; where it can't be seen, whose the nearest one above it is.
fn owner_of(path: &Path) -> String {
    let found = path.ancestors().find_map(|path| path.metadata().ok());
    let Some(uid) = found.map(|found| found.uid()) else {
        return "another user".to_owned();
    };
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    user.map_or_else(|| format!("uid {uid}"), |user| user.name)
}

/// Takes the lock. A command that looks whether a daemon runs holds it for a moment.
fn lock_patiently(file: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            decided => return decided,
        }
    }
    file.try_lock()
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn fits(path: &Path, tail: usize) -> bool {
    path.as_os_str().len() + tail <= SOCKET_PATH_MAX
}

/// Takes from others what they may do in a directory of ours: the legacy program left its own for everybody to read. One
/// in which others may have put something stays as it is, for [`check`] to refuse.
fn close_to_others(path: &Path) {
    let flags = nix::fcntl::OFlag::O_DIRECTORY | nix::fcntl::OFlag::O_NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path);
    let Ok(directory) = opened else {
        return;
    };
    let closed = directory.metadata().is_ok_and(|found| {
        found.uid() == nix::unistd::getuid().as_raw()
            && found.mode() & 0o077 != 0
            && is_filled_by_us(path, &found)
            && directory
                .set_permissions(Permissions::from_mode(0o700))
                .is_ok()
    });
    if closed {
        tracing::warn!(
            path = %path.display(),
            "others could look into the state directory; its mode is 700 now"
        );
    }
}

/// Whether nobody else can have put anything into a directory of ours. A group of our own, as many systems give every
/// user, may write: what its other members wrote belongs to them.
fn is_filled_by_us(path: &Path, found: &Metadata) -> bool {
    let mode = found.mode();
    if mode & 0o022 == 0 {
        return true;
    }
    let own_group = found.gid() == nix::unistd::getgid().as_raw();
    let is_ours = |entry: io::Result<DirEntry>| {
        let written = entry.and_then(|entry| std::fs::symlink_metadata(entry.path()));
        written.is_ok_and(|written| written.uid() == found.uid())
    };
    mode & 0o002 == 0
        && own_group
        && std::fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_ours))
}

/// Ours, private, and not a link that somebody else could turn.
fn check(path: &Path) -> Result<PathBuf, StateError> {
    let unfit = |why: String| StateError::Unfit {
        path: path.to_owned(),
        why,
    };
    let found = std::fs::symlink_metadata(path).map_err(|error| unfit(error.to_string()))?;
    if found.file_type().is_symlink() {
        return Err(unfit(
            "it is a symbolic link; name the directory itself".to_owned(),
        ));
    }
    if !found.is_dir() {
        return Err(unfit("it is not a directory".to_owned()));
    }
    let uid = nix::unistd::getuid().as_raw();
    if found.uid() != uid {
        return Err(unfit(format!(
            "it belongs to uid {}, and this is uid {uid}",
            found.uid()
        )));
    }
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return Err(unfit(format!(
            "others may use it (mode {mode:03o}), and it holds conversations; run `chmod 700 {}`",
            path.display()
        )));
    }
    let resolved = path
        .canonicalize()
        .map_err(|error| unfit(error.to_string()))?;
    match replaceable(&resolved) {
        Some(parent) => Err(unfit(format!(
            "anybody may put another in its place, because everybody may write to {0}; run `chmod o-w {0}`, or choose another one with --state-dir",
            parent.display()
        ))),
        None => Ok(resolved),
    }
}

/// The directory that holds this one, if everybody may rename what is in it: the sticky bit forbids that.
fn replaceable(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    let mode = parent.metadata().ok()?.mode();
    (mode & 0o002 != 0 && mode & 0o1000 == 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn threat_15_rejects_open_or_linked_dir() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        mode(&open, 0o757);
        let error = StateDir::prepare(&open).unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        let error = StateDir::prepare(&link).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(StateDir::prepare(&file).is_err());
    }

    #[test]
    fn threat_15_closes_own_readable_dir() {
        let dir = tempfile::tempdir().unwrap();
        for open in [0o755, 0o750, 0o711, 0o775] {
            let root = dir.path().join(format!("{open:o}"));
            std::fs::create_dir(&root).unwrap();
            std::fs::write(root.join("sessions.json"), "{}").unwrap();
            mode(&root, open);
            StateDir::prepare(&root).unwrap();
            let closed = std::fs::metadata(&root).unwrap().mode() & 0o7777;
            assert_eq!(closed, 0o700, "{open:o}");
        }
    }

    #[test]
    fn threat_15_rejects_replaceable_state_dir() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        mode(&shared, 0o777);
        let error = StateDir::prepare(&shared.join("state")).unwrap_err();
        assert!(error.to_string().contains("chmod o-w"), "{error}");
        mode(&shared, 0o1777);
        let state = StateDir::prepare(&shared.join("state")).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, state.root().join("lock")).unwrap();
        assert!(state.lock().is_err(), "a link is not followed");
        assert!(!elsewhere.exists());
    }

    #[test]
    fn disk_mark_is_kept_with_the_disk() {
        let root = tempfile::tempdir().unwrap();
        let state = |name| StateDir::prepare(&root.path().join(name)).unwrap();
        let (one, other) = (state("one"), state("other"));
        let mark = one.disk_mark().unwrap();
        assert_eq!(state("one").disk_mark().unwrap(), mark);
        assert_ne!(other.disk_mark().unwrap(), mark);
        std::fs::write(root.path().join("one/disk"), "torn").unwrap();
        assert_ne!(one.disk_mark().unwrap(), "torn");
    }

    #[test]
    fn state_dir_is_private_and_locked() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("a/b")).unwrap();
        let found = std::fs::metadata(state.root()).unwrap();
        assert_eq!(found.mode() & 0o777, 0o700);
        assert_eq!(state.holder(), None);
        let lock = state.lock().unwrap();
        assert_eq!(state.holder(), Some(std::process::id()));
        let error = state.lock().unwrap_err().to_string();
        assert!(
            error.contains(&format!("(pid {})", std::process::id())),
            "{error}"
        );
        drop(lock);
        assert!(state.lock().is_ok());
    }

    #[test]
    fn long_path_sockets_use_short_directory() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(90));
        let state = StateDir::prepare(&long).unwrap();
        assert!(fits(&state.api_socket(), 0), "{:?}", state.api_socket());
        assert!(fits(&state.run_dir(), SOCKET_TAIL));
        assert!(!state.run_dir().starts_with(state.root()));
        assert!(state.check_socket_place().is_ok());
        mode(&state.run_dir(), 0o777);
        let error = state.check_socket_place().unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
        std::fs::remove_dir_all(state.run_dir()).unwrap();
    }
}
